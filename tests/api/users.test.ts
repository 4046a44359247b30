// Users over HTTP: only an admin makes and changes them, a change holds from the user's next
// request on, and no extra field makes a user an admin.
import { afterAll, describe, expect, test } from "vitest";
import { sql } from "../../infra/postgres/sql.ts";
import { apiSuite } from "../support/api-suite.ts";

const { demo, owner, ask, as, running, fresh } = apiSuite();
// Other suites count admins and users.
afterAll(() => owner.query("delete from users where email like '%@people.example'"));

const address = (): string => `${fresh("p")}@people.example`;
const create = (body: object, headers: Record<string, string> = {}) =>
  as("admin", "/api/users", { method: "POST", body, headers });
const change = (id: number, body: object, headers: Record<string, string> = {}) =>
  as("admin", `/api/users/${id}`, { method: "PATCH", body, headers });
const viewer = async () => (await create({ email: address(), name: "Vera", role: "viewer" })).body;
const auditOf = async (id: number) =>
  (await owner.query(sql`select action, before, after from audit where entity = ${`user:${id}`} order by audit_id`))
    .rows;

describe("a user", () => {
  test("is made once, with its place, and comes in with the first login of its address", async () => {
    const email = address();
    const body = { email: ` ${email.toUpperCase()}`, name: "Vera", role: "viewer", locale: "en" };
    const { status, body: user, headers } = await create(body, { "idempotency-key": email });
    expect([status, headers.get("location"), headers.get("etag")]).toEqual([201, `/api/users/${user.id}`, '"1"']);
    expect(user).toEqual({
      ...{
        id: expect.any(Number),
        email,
        name: "Vera",
        role: "viewer",
        client_ids: [],
        partner_id: null,
        all_clients: false,
      },
      ...{ status: "active", locale: "en", bound_at: null, last_seen_at: null, version: 1 },
      created_at: expect.stringMatching(/^\d{4}-.*Z$/),
      updated_at: expect.stringMatching(/^\d{4}-.*Z$/),
    });
    expect((await create(body, { "idempotency-key": email })).body).toEqual(user);
    const again = await create(body);
    expect([again.status, again.body.code, again.body.errors[0].pointer]).toEqual([409, "email_in_use", "/email"]);
    const token = await running().signed({ sub: email, email });
    expect((await ask("/api/clients?limit=1", { token })).status).toBe(200);
    const [listed] = (await as("admin", `/api/users?q=${email}`)).body.data;
    expect(listed).toEqual({ ...user, bound_at: expect.any(String), last_seen_at: expect.any(String) });
    expect(Date.now() - Date.parse(listed.last_seen_at)).toBeLessThan(60_000);
    expect(await auditOf(user.id)).toEqual([
      {
        action: "user.created",
        before: null,
        after: {
          ...{ name: "redacted", role: "viewer", partner_id: null, client_ids: [], all_clients: false },
          ...{ status: "active", locale: "en" },
        },
      },
      { action: "user.bound", before: null, after: { issuer: expect.any(String) } },
    ]);
  });

  test("that is a viewer sees no client before it is given some, or all", async () => {
    const { id, email } = await viewer();
    const token = await running().signed({ sub: email, email });
    const seen = async () => {
      const { body: me } = await ask("/api/auth/me", { token });
      const { body: list } = await ask("/api/clients?limit=100", { token });
      return [me.client_ids, list.data.map((row: { id: number }) => row.id)];
    };
    const { body: every } = await as("admin", "/api/clients?limit=100");
    const all = [null, every.data.map((row: { id: number }) => row.id)];
    const one = demo.clients[0].id;
    expect(await seen()).toEqual([[], []]);
    expect((await change(id, { all_clients: true })).body).toMatchObject({ all_clients: true, client_ids: [] });
    expect(await seen()).toEqual(all);
    expect((await change(id, { client_ids: [one] })).body).toMatchObject({ all_clients: false, client_ids: [one] });
    expect(await seen()).toEqual([[one], [one]]);
    // Its last client goes, and then its role: neither shows it the others.
    await change(id, { client_ids: [] });
    expect(await seen()).toEqual([[], []]);
    await change(id, { role: "client_manager", client_ids: [one] });
    await change(id, { role: "viewer" });
    expect(await seen()).toEqual([[], []]);
    const fault = async (body: object) => (await change(id, body)).body.errors?.[0]?.pointer;
    expect(await fault({ all_clients: true, client_ids: [one] })).toBe("/all_clients");
    expect(await fault({ role: "client_manager", all_clients: true })).toBe("/all_clients");
  });

  test("is seen to the hour: requests of one hour write it once", async () => {
    const { id, email } = await viewer();
    const token = await running().signed({ sub: email, email });
    const seenAt = async () =>
      (await owner.query(sql`select last_seen_at from users where user_id = ${id}`)).rows[0].last_seen_at;
    await ask("/api/auth/me", { token });
    const first = await seenAt();
    await ask("/api/auth/me", { token });
    expect([first, await seenAt()]).toEqual([expect.any(Number), first]);
    await owner.query(sql`update users set last_seen_at = now() - interval '61 minutes' where user_id = ${id}`);
    await ask("/api/auth/me", { token });
    expect(await seenAt()).toBeGreaterThanOrEqual(first);
  });

  test("changes at once: another role, other clients, and no way in", async () => {
    const { id, email } = await viewer();
    const token = await running().signed({ sub: email, email });
    const [client] = demo.clients;
    const managing = await change(id, { role: "client_manager", client_ids: [client.id], version: 1 });
    expect([managing.status, managing.body]).toMatchObject([
      200,
      { role: "client_manager", client_ids: [client.id], version: 2 },
    ]);
    expect((await ask("/api/clients", { token })).body.data.map((row: { id: number }) => row.id)).toEqual([client.id]);
    expect((await change(id, { status: "disabled" })).body).toMatchObject({ status: "disabled", version: 3 });
    const out = await ask("/api/clients", { token });
    expect([out.status, out.body.code]).toEqual([403, "no_account"]);
    expect((await change(id, { status: "active", role: "viewer" })).body).toMatchObject({
      status: "active",
      client_ids: [],
    });
    expect((await ask("/api/clients", { token })).status).toBe(200);
    expect((await auditOf(id)).slice(1)).toMatchObject([
      {
        before: { role: "viewer", client_ids: [] },
        after: { role: "client_manager", client_ids: [client.id] },
      },
      { action: "user.bound" },
      { before: { status: "active" }, after: { status: "disabled" } },
      { before: { role: "client_manager" }, after: { role: "viewer", client_ids: [] } },
    ]);
  });

  test("is changed by one of two who saw the same version; nothing given changes nothing", async () => {
    const { id } = await viewer();
    const both = await Promise.all([
      change(id, { name: "One", version: 1 }),
      change(id, { name: "Two" }, { "if-match": '"1"' }),
    ]);
    expect(both.map(({ status }) => status).sort()).toEqual([200, 409]);
    expect(both.find(({ status }) => status === 409)!.body).toMatchObject({
      code: "version_conflict",
      current_version: 2,
    });
    expect((await change(id, {})).body.version).toBe(2);
    expect(await auditOf(id)).toHaveLength(2);
  });

  test("has no field but those of the contract, no unknown client, and no role of an invitation", async () => {
    const good = { email: address(), name: "Vera", role: "viewer" };
    const { id } = await viewer();
    const refused: readonly (readonly [object, string])[] = [
      [{ ...good, id: 1 }, "/id"],
      [{ ...good, partner_id: 1 }, "/partner_id"],
      [{ ...good, issuer: "https://evil.example", subject: "x" }, "/issuer"],
      [{ ...good, role: "partner" }, "/role"],
      [{ ...good, role: "client_user", client_ids: [1] }, "/role"],
      [{ ...good, client_ids: [2_000_000_000] }, "/client_ids"],
      [{ ...good, role: "admin", client_ids: [demo.clients[0].id] }, "/client_ids"],
      [{ ...good, email: "no address" }, "/email"],
      [{ ...good, name: "Ve\u202era" }, "/name"],
    ];
    for (const [body, pointer] of refused) {
      const answer = await create(body);
      expect([answer.status, answer.body.errors[0].pointer], JSON.stringify(body)).toEqual([400, pointer]);
    }
    for (const body of [{ email: address() }, { partner_id: 1 }, { bound_at: null }, { role: "partner" }])
      expect((await change(id, body)).status, JSON.stringify(body)).toBe(400);
    expect((await as("admin", `/api/users?q=${good.email}`)).body.data).toEqual([]);
    expect((await change(2_000_000_000, { name: "x" })).status).toBe(404);
  });

  test("who is the last admin stays one", async () => {
    const { body } = await as("admin", "/api/users?role=admin&status=active");
    const others = body.data.filter(({ email }: { email: string }) => email !== "admin@demo.tributary.test");
    for (const { id } of others) await change(id, { status: "disabled" });
    const me = (await as("admin", "/api/auth/me")).body.id;
    for (const fall of [{ role: "viewer" }, { status: "disabled" }]) {
      const { status, body: problem } = await change(me, fall);
      expect([status, problem.code]).toEqual([409, "last_admin"]);
    }
    for (const { id } of others) expect((await change(id, { status: "active" })).status).toBe(200);
  });
});

describe("the list of users", () => {
  test("goes on behind its cursor to the end, each once, by role and state", async () => {
    const all: string[] = [];
    for (let cursor = ""; ; ) {
      const { body } = await as("admin", `/api/users?sort=email&limit=2${cursor}`);
      all.push(...body.data.map(({ email }: { email: string }) => email));
      if (body.next_cursor === null) break;
      cursor = `&cursor=${body.next_cursor}`;
    }
    expect(new Set(all).size).toBe(all.length);
    expect(all).toEqual(expect.arrayContaining(["admin@demo.tributary.test", "viewer@demo.tributary.test"]));
    const { body } = await as("admin", "/api/users?role=partner");
    expect(body.data.every(({ role }: { role: string }) => role === "partner")).toBe(true);
    expect(body.data.length).toBeGreaterThan(0);
    expect(JSON.stringify(body)).not.toMatch(/issuer|subject/);
  });

  test("is for admins: every other role is refused each of these routes", async () => {
    const { id } = await viewer();
    for (const role of ["manager", "partner", "client", "viewer"])
      for (const [method, path] of [
        ["GET", "/api/users"],
        ["POST", "/api/users"],
        ["PATCH", `/api/users/${id}`],
        ["DELETE", "/api/auth/reset-user?email=viewer@demo.tributary.test"],
      ] as const)
        expect((await as(role, path, { method })).status, `${role} ${method}`).toBe(403);
  });
});

test("an identity is not reset over HTTP unless the deployment switches it on", async () => {
  const { email } = await viewer();
  const { status, body } = await as("admin", `/api/auth/reset-user?email=${email}`, { method: "DELETE" });
  expect([status, body.code]).toEqual([404, "not_found"]);
});
