// Partners over HTTP: what each role may read and change, on a real database.
import { describe, expect, test } from "vitest";
import { sql } from "../../infra/postgres/sql.ts";
import { createToken } from "../../modules/access/tokens/tokens.ts";
import { apiSuite } from "../support/api-suite.ts";
import { owe } from "../support/owe.ts";

const { demo, pool, owner, tokens, ask, send, read, fresh } = apiSuite();

const own = (): string => fresh("p");
const created = async (path: string, body: object) => {
  const answer = await send("POST", path, body);
  expect(answer.status, answer.text).toBe(201);
  return answer.body;
};
const newClient = async (): Promise<number> => (await created("/api/clients", { name: "A shop", slug: own() })).id;
const newPartner = (client_ids: readonly number[], more: object = {}) =>
  created("/api/partners", { name: "A partner", email: `${own()}@partner.example`, client_ids, ...more });
const shops: readonly number[] = demo.clients.map(({ id }: { id: number }) => id);
const auditOf = async (entity: string) =>
  (
    await owner.query(
      sql`select action, client_id, before, after from audit where entity = ${entity} order by audit_id`,
    )
  ).rows;

describe("a partner", () => {
  test("is made with its defaults, a referral code of its own, its place and its version", async () => {
    const client = await newClient();
    const email = `${own()}@partner.example`;
    const given = { name: " Radio Norte ", email, client_ids: [client] };
    const { status, body, headers } = await send("POST", "/api/partners", given);
    expect([status, headers.get("location"), headers.get("etag")]).toEqual([201, `/api/partners/${body.id}`, '"1"']);
    expect(body).toEqual({
      id: expect.any(Number),
      name: "Radio Norte",
      email,
      status: "active",
      client_ids: [client],
      payout: { currency: "MXN", min_amount: "0.00" },
      referral_code: expect.stringMatching(/^[a-z2-9]{10}$/),
      balance: { payable: "0.00", held: "0.00", carried: "0.00", currency: "MXN", other_currencies: [] },
      created_at: expect.stringMatching(/^\d{4}-.*Z$/),
      updated_at: body.created_at,
      version: 1,
      clients: [{ id: client, name: "A shop" }],
      links: [],
      users: [],
      upload_token: null,
    });
    expect((await read(`/api/partners/${body.id}`)).body).toEqual(body);
    const [entry] = await auditOf(`partner:${body.id}`);
    expect(entry).toMatchObject({ action: "partner.created", client_id: client, after: { email: "redacted" } });
  });

  test("is made once for an Idempotency-Key", async () => {
    const body = { name: "Once", email: `${own()}@partner.example`, client_ids: [shops[0]] };
    const both = await Promise.all(
      [1, 2].map(() => send("POST", "/api/partners", body, "admin", { "idempotency-key": `key-${body.email}` })),
    );
    expect(both.map(({ status }) => status)).toEqual([201, 201]);
    expect(both[0]!.text).toBe(both[1]!.text);
  });

  test("has an address and a referral code that no other partner has", async () => {
    const first = await newPartner([shops[0]!]);
    const same = { name: "x", email: first.email.toUpperCase(), client_ids: [shops[0]] };
    const taken = await send("POST", "/api/partners", same);
    expect([taken.status, taken.body.code, taken.body.errors[0].pointer]).toEqual([409, "email_in_use", "/email"]);
    const { referral_code } = first;
    const code = await send("POST", "/api/partners", { ...same, email: `${own()}@partner.example`, referral_code });
    expect([code.status, code.body.code]).toEqual([409, "referral_code_taken"]);
    const other = await newPartner([shops[0]!]);
    expect((await send("PATCH", `/api/partners/${other.id}`, { email: first.email })).body.code).toBe("email_in_use");
    expect((await send("PATCH", `/api/partners/${other.id}`, { email: other.email })).status).toBe(200);
  });

  test.each([
    [{ id: 7 }, "/id"],
    [{ version: 1 }, "/version"],
    [{ status: "archived" }, "/status"],
    [{ client_ids: [] }, "/client_ids"],
    [{ client_ids: [2_000_000_000] }, "/client_ids/0"],
    [{ payout: { currency: "MXN", min_amount: "1.005" } }, "/payout/min_amount"],
    [{ payout: { currency: "ZZZ" } }, "/payout/currency"],
    [{ balance: { payable: "9.00" } }, "/balance"],
    [{ email: "no address" }, "/email"],
  ])("is not made with %j", async (more, pointer) => {
    const body = { name: "x", email: `${own()}@partner.example`, client_ids: [shops[0]], ...more };
    const { status, body: problem } = await send("POST", "/api/partners", body);
    expect([status, problem.errors[0].pointer]).toEqual([400, pointer]);
  });

  test("changes by merge-patch, for the one of two who saw its version first", async () => {
    const { id, name } = await newPartner([shops[0]!]);
    const changed = await send("PATCH", `/api/partners/${id}`, { payout: { min_amount: "25.5" }, version: 1 });
    expect(changed.body).toMatchObject({ name, payout: { currency: "MXN", min_amount: "25.50" }, version: 2 });
    const late = await send("PATCH", `/api/partners/${id}`, { name: "Late" }, "admin", { "if-match": '"1"' });
    expect([late.status, late.body.code, late.body.current_version]).toEqual([409, "version_conflict", 2]);
    for (const field of ["id", "created_at", "balance", "links", "client_id", "upload_token", "role"]) {
      const refused = await send("PATCH", `/api/partners/${id}`, { [field]: 1 });
      expect([refused.status, refused.body.errors[0]]).toMatchObject([400, { pointer: `/${field}` }]);
    }
    expect((await auditOf(`partner:${id}`))[1]).toMatchObject({
      action: "partner.updated",
      before: { payout: { min_amount: "0.00" } },
      after: { payout: { min_amount: "25.5" } },
    });
  });

  test("is owed the sum over its clients, and keeps its currency until the sum is zero", async () => {
    const [one, two] = [await newClient(), await newClient()];
    const { id } = await newPartner([one, two]);
    await owe(owner, { client: one, partner: id, payable: 12_345n, held: 500n, currency: "MXN" });
    await owe(owner, { client: two, partner: id, payable: -200n, held: 0n, currency: "MXN" });
    await owe(owner, { client: two, partner: id, payable: 7n, held: 0n, currency: "USD" });
    expect((await read(`/api/partners/${id}`)).body.balance).toEqual({
      ...{ payable: "123.45", held: "5.00", carried: "-2.00", currency: "MXN" },
      other_currencies: [{ payable: "0.07", held: "0.00", carried: "0.00", currency: "USD" }],
    });
    const refused = await send("PATCH", `/api/partners/${id}`, { payout: { currency: "USD" } });
    expect([refused.status, refused.body.code]).toEqual([409, "currency_in_use"]);
    const { id: unpaid } = await newPartner([one]);
    const dollars = await send("PATCH", `/api/partners/${unpaid}`, { payout: { currency: "USD" } });
    expect(dollars.body.payout).toEqual({ currency: "USD", min_amount: "0.00" });
  });

  test("ends links and contracts at a client that it leaves, and keeps what it was owed there", async () => {
    const [one, two] = [await newClient(), await newClient()];
    const { id } = await newPartner([one, two]);
    await owe(owner, { client: two, partner: id, payable: 100n, held: 0n, currency: "MXN" });
    const save = (more: object) =>
      send("POST", `/api/partners/${id}/segment-commissions`, {
        ...{ event_type: "purchase", type: "percent", rate: "5", effective_from: "2090-01-01" },
        ...more,
      });
    for (const client_id of [one, two]) expect((await save({ client_id })).status).toBe(201);
    const today = (await save({ client_id: two, effective_from: firstOfMonth() })).body;
    expect((await send("PATCH", `/api/partners/${id}`, { client_ids: [one] })).body).toMatchObject({
      client_ids: [one],
      clients: [{ id: one }],
      balance: { payable: "1.00" },
    });
    const { data } = (await read(`/api/partners/${id}/segment-commissions?history=true&client_id=${two}`)).body;
    const newest = data.filter(({ version }: { version: number }) => version === 2);
    expect(newest).toHaveLength(2);
    const ended = newest.find((row: { id: number }) => row.id === today.id);
    if (firstOfMonth() < dayNow()) expect(ended).toMatchObject({ status: "active", effective_to: dayNow() });
    else expect(ended).toMatchObject({ status: "archived" });
    expect(newest.find((row: { id: number }) => row.id !== today.id)).toMatchObject({ status: "archived" });
    const kept = await read(`/api/partners/${id}/segment-commissions?client_id=${one}`);
    expect(kept.body.data).toMatchObject([{ version: 1, status: "active" }]);
    expect((await save({ client_id: two })).body.errors[0]).toMatchObject({
      pointer: "/client_id",
      code: "partner_not_of_client",
    });
  });

  test("is archived with its upload token, stays readable, and takes no change but its return", async () => {
    const link = demo.links.find(({ partner_id }: { partner_id: number }) => partner_id !== undefined)!;
    expect((await read(`/api/partners/${link.partner_id}`)).body.links).toContainEqual(
      expect.objectContaining({ code: link.code, url: `/c/${link.code}`, status: "active" }),
    );
    const { id, email } = await newPartner([shops[0]!]);
    await createToken(pool, { kind: "upload", label: "t", partner_id: id });
    expect((await read(`/api/partners/${id}`)).body.upload_token).toEqual({
      prefix: expect.stringMatching(/^trb_upload_.{4}$/),
      last_used_at: null,
    });
    const gone = await send("DELETE", `/api/partners/${id}`);
    expect([gone.status, gone.text]).toEqual([204, ""]);
    expect((await read(`/api/partners/${id}`)).body).toMatchObject({
      status: "archived",
      version: 2,
      upload_token: null,
    });
    expect((await send("DELETE", `/api/partners/${id}`)).status).toBe(204);
    const contract = {
      client_id: shops[0],
      event_type: "install",
      type: "flat",
      amount: "1",
      effective_from: "2090-01-01",
    };
    for (const answer of [
      await send("PATCH", `/api/partners/${id}`, { name: "x" }),
      await send("PATCH", `/api/partners/${id}`, { status: "active" }, "manager"),
      await send("POST", `/api/partners/${id}/segment-commissions`, contract),
    ])
      expect([answer.status, answer.body.code]).toEqual([409, "partner_archived"]);
    const other = await newPartner([shops[0]!], { email });
    expect((await send("PATCH", `/api/partners/${id}`, { status: "active" })).body.code).toBe("email_in_use");
    await send("DELETE", `/api/partners/${other.id}`);
    expect((await send("PATCH", `/api/partners/${id}`, { status: "active" })).body.status).toBe("active");
  });

  test("does not come to a client that is archived", async () => {
    const client = await newClient();
    await send("DELETE", `/api/clients/${client}`);
    const { id } = await newPartner([shops[0]!]);
    const refused = await send("PATCH", `/api/partners/${id}`, { client_ids: [shops[0], client] });
    expect([refused.status, refused.body.code]).toEqual([409, "client_archived"]);
  });
});

const dayNow = (): string => new Date(Date.now() - 6 * 3_600_000).toISOString().slice(0, 10);
const firstOfMonth = (): string => `${dayNow().slice(0, 7)}-01`;

describe("the list of partners", () => {
  test("goes on behind its cursor to the end, each once, in every order", async () => {
    const client = await newClient();
    const prefix = fresh("zz");
    for (let n = 0; n < 5; n += 1) await newPartner([client], { name: `${prefix} ${"aBcáé"[n]}` });
    for (const sort of ["name", "-name", "-created_at", "created_at"]) {
      const seen: string[] = [];
      for (let cursor = ""; ; ) {
        const { body } = await read(`/api/partners?q=${prefix}&client_id=${client}&sort=${sort}&limit=2${cursor}`);
        seen.push(...body.data.map(({ name }: { name: string }) => name));
        if (body.next_cursor === null) break;
        cursor = `&cursor=${body.next_cursor}`;
      }
      expect(new Set(seen).size).toBe(5);
    }
  });

  test("leaves archived ones out until they are asked for, and refuses what it does not know", async () => {
    const { id, name } = await newPartner([await newClient()], { name: own() });
    await send("DELETE", `/api/partners/${id}`);
    expect((await read(`/api/partners?q=${name}`)).body.data).toEqual([]);
    expect((await read(`/api/partners?q=${name}&status=all`)).body.data).toMatchObject([{ id }]);
    for (const query of ["sort=email", "email=x", "status=gone", "client_id=0"])
      expect((await read(`/api/partners?${query}`)).status, query).toBe(400);
    expect((await read("/api/partners?client_id=2000000000")).status).toBe(404);
  });
});

describe("by role", () => {
  test("a partner reads itself, without users and tokens, and no other partner of its client", async () => {
    const { body: me } = await read("/api/auth/me", "partner");
    const { status, body } = await read(`/api/partners/${me.partner_id}`, "partner");
    expect([status, body.id]).toEqual([200, me.partner_id]);
    const seen = Object.keys(body);
    for (const hidden of ["users", "upload_token", "value", "revenue", "rate", "price", "gmv"])
      expect(seen).not.toContain(hidden);
    const other = await newPartner(body.client_ids);
    expect((await read(`/api/partners/${other.id}`, "partner")).status).toBe(404);
    for (const [method, path] of [
      ["GET", "/api/partners"],
      ["POST", "/api/partners"],
      ["PATCH", `/api/partners/${me.partner_id}`],
      ["DELETE", `/api/partners/${me.partner_id}`],
      ["GET", `/api/partners/${me.partner_id}/segment-commissions`],
      ["POST", `/api/partners/${me.partner_id}/segment-commissions`],
    ] as const)
      for (const role of method === "DELETE" ? ["partner", "client", "viewer", "manager"] : ["partner", "client"])
        expect((await send(method, path, undefined, role)).status, `${role} ${method} ${path}`).toBe(403);
    expect((await read(`/api/partners/${me.partner_id}`, "client")).status).toBe(403);
  });

  test("a viewer sees addresses masked and names of people not at all", async () => {
    const { body: me } = await read("/api/auth/me", "partner");
    const { body } = await read(`/api/partners/${me.partner_id}`, "viewer");
    expect(body.email).toMatch(/^.\*\*\*@/);
    expect(body.users).toContainEqual({ id: me.id, email: "p***@demo.tributary.test", name: "***" });
    const { body: list } = await read("/api/partners?limit=100", "viewer");
    expect(list.data.every(({ email }: { email: string }) => /^.\*\*\*@/.test(email))).toBe(true);
    expect((await send("PATCH", `/api/partners/${me.partner_id}`, { name: "x" }, "viewer")).status).toBe(403);
  });

  test("a manager sees a shared partner cut to its own clients, and cannot take it from the others", async () => {
    const foreign = await newClient();
    const shared = await newPartner([shops[0]!, foreign]);
    await owe(owner, { client: foreign, partner: shared.id, payable: 900n, held: 0n, currency: "MXN" });
    const { body } = await read(`/api/partners/${shared.id}`, "manager");
    expect(body).toMatchObject({ client_ids: [shops[0]], clients: [{ id: shops[0] }], balance: { payable: "0.00" } });
    const currency = await send("PATCH", `/api/partners/${shared.id}`, { payout: { currency: "USD" } });
    expect(currency.body.code).toBe("currency_in_use");
    const [hidden, unknown] = await Promise.all(
      [foreign, 2_000_000_000].map((id) =>
        send("PATCH", `/api/partners/${shared.id}`, { client_ids: [id] }, "manager", { "x-request-id": "same" }),
      ),
    );
    expect(hidden!.text.replaceAll(String(foreign), "N")).toBe(unknown!.text.replaceAll("2000000000", "N"));
    const moved = await send("PATCH", `/api/partners/${shared.id}`, { client_ids: [shops[1]] }, "manager");
    expect([moved.status, moved.body.client_ids]).toEqual([200, [shops[1]]]);
    expect((await read(`/api/partners/${shared.id}`)).body.client_ids.sort()).toEqual([shops[1], foreign].sort());
    const left = await send("PATCH", `/api/partners/${shared.id}`, { client_ids: [] }, "manager");
    expect([left.status, left.body.client_ids]).toEqual([200, []]);
    const late = await send("PATCH", `/api/partners/${shared.id}`, { name: "x" }, "manager");
    expect([late.status, late.body.code]).toEqual([409, "partner_left"]);
    expect((await read(`/api/partners/${shared.id}`)).body.client_ids).toEqual([foreign]);
  });

  test("a foreign partner is an unknown one, byte for byte", async () => {
    const foreign = await newPartner([await newClient()]);
    const never = 2_000_000_000;
    const contract = {
      client_id: shops[0],
      event_type: "install",
      type: "flat",
      amount: "1",
      effective_from: "2090-01-01",
    };
    const requests = [
      { path: "", method: "GET" },
      { path: "", method: "PATCH", body: { name: "Mine" } },
      { path: "/segment-commissions", method: "GET" },
      { path: "/segment-commissions", method: "POST", body: contract },
    ];
    for (const { path, ...request } of requests) {
      const [hidden, unknown] = await Promise.all(
        [foreign.id, never].map((id) =>
          ask(`/api/partners/${id}${path}`, {
            token: tokens.manager!,
            headers: { "x-request-id": "same" },
            ...request,
          }),
        ),
      );
      expect([hidden!.status, unknown!.status], path).toEqual([404, 404]);
      expect(hidden!.text.replaceAll(String(foreign.id), "N")).toBe(unknown!.text.replaceAll(String(never), "N"));
      expect([...hidden!.headers.keys()]).toEqual([...unknown!.headers.keys()]);
    }
    const { body } = await read("/api/partners?limit=100&sort=-created_at", "manager");
    expect(body.data.map(({ id }: { id: number }) => id)).not.toContain(foreign.id);
    expect((await read(`/api/partners/${foreign.id}`)).body.version).toBe(1);
  });
});
