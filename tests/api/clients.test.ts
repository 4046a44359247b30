// Clients and segments over HTTP: what each role may read and change, on a real database.
import { afterAll, describe, expect, test } from "vitest";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { sql } from "../../infra/postgres/sql.ts";
import { createToken } from "../../modules/access/tokens/tokens.ts";
import { apiSuite } from "../support/api-suite.ts";

const { env, demo, pool, owner, tokens, ask, send, read, fresh } = apiSuite();
const clickhouse = openClickhouse(env.CLICKHOUSE_URL!);
afterAll(() => clickhouse.close());

const slugOf = (): string => fresh("shop");
const post = (path: string, body: unknown, headers = {}, role = "admin") => send("POST", path, body, role, headers);
const patch = (path: string, body: unknown, headers = {}, role = "admin") => send("PATCH", path, body, role, headers);
const newClient = async (more: object = {}) =>
  (await post("/api/clients", { name: "A shop", slug: slugOf(), ...more })).body;
const auditOf = async (entity: string) =>
  (await owner.query(sql`select action, role, before, after from audit where entity = ${entity} order by audit_id`))
    .rows;

describe("a client", () => {
  test("is made with the defaults of the records, its place and its version", async () => {
    const slug = slugOf();
    const { status, body, headers } = await post("/api/clients", { name: "  Casa Ñandú  ", slug });
    expect([status, headers.get("location"), headers.get("etag")]).toEqual([201, `/api/clients/${body.id}`, '"1"']);
    expect(body).toEqual({
      id: expect.any(Number),
      name: "Casa Ñandú",
      slug,
      status: "active",
      currency: "MXN",
      attribution: { click_window_days: 30, install_window_days: 7, identity_link: false },
      hold_days: { purchase: 30, lead_submit: 0 },
      late_hours: 72,
      fraud: { review: 40, reject: 70 },
      fallback_url: null,
      retention_months: 24,
      plan: "standard",
      leads_in_plain: true,
      last_event_at: null,
      month_state: expect.stringMatching(/^(provisional|locked)$/),
      created_at: expect.stringMatching(/^\d{4}-.*Z$/),
      updated_at: body.created_at,
      version: 1,
      ingest_tokens: [],
    });
    expect((await read(`/api/clients/${body.id}`)).body).toEqual(body);
    const { body: segments } = await read(`/api/clients/${body.id}/segments`);
    expect(segments.data.map(({ code }: { code: string }) => code)).toEqual(["DA", "HA", "IT", "MX", "NW", "VD"]);
    expect(await auditOf(`client:${body.id}`)).toMatchObject([
      { action: "client.created", role: "admin", before: null, after: { slug } },
    ]);
  });

  test("keeps its slug for itself, and says so with the place", async () => {
    const { slug } = await newClient();
    const { status, body } = await post("/api/clients", { name: "Another", slug });
    expect([status, body.code, body.errors[0].pointer]).toEqual([409, "slug_taken", "/slug"]);
  });

  test("changes by merge-patch: what is not given stays, null takes a day of a hold away", async () => {
    const { id } = await newClient({ hold_days: { purchase: 5, lead_submit: 2 } });
    const { status, body } = await patch(`/api/clients/${id}`, {
      attribution: { identity_link: true },
      fraud: { review: 10 },
      hold_days: { install: 3, lead_submit: null },
      fallback_url: "https://shop.example/",
    });
    expect(status).toBe(200);
    expect(body).toMatchObject({
      attribution: { click_window_days: 30, install_window_days: 7, identity_link: true },
      fraud: { review: 10, reject: 70 },
      hold_days: { purchase: 5, install: 3 },
      fallback_url: "https://shop.example/",
      version: 2,
    });
    expect(body.hold_days).not.toHaveProperty("lead_submit");
    expect((await patch(`/api/clients/${id}`, { fallback_url: null })).body.fallback_url).toBeNull();
    const bad = await patch(`/api/clients/${id}`, { fraud: { review: 90 } });
    expect([bad.status, bad.body.errors[0].pointer]).toEqual([400, "/fraud/reject"]);
    expect(await auditOf(`client:${id}`)).toMatchObject([
      { action: "client.created" },
      { action: "client.updated", before: { fraud: { review: 40 } }, after: { fraud: { review: 10 } } },
      { action: "client.updated" },
    ]);
  });

  test("is changed by one of two who saw the same version; the other learns the current one", async () => {
    const { id } = await newClient();
    const both = await Promise.all([
      patch(`/api/clients/${id}`, { name: "One", version: 1 }),
      patch(`/api/clients/${id}`, { name: "Two" }, { "if-match": '"1"' }),
    ]);
    expect(both.map(({ status }) => status).sort()).toEqual([200, 409]);
    const late = both.find(({ status }) => status === 409)!;
    expect(late.body).toMatchObject({ code: "version_conflict", current_version: 2 });
    expect((await patch(`/api/clients/${id}`, { name: "Three" })).body.version).toBe(3);
    expect((await patch(`/api/clients/${id}`, { name: "x", version: 3 }, { "if-match": '"2"' })).status).toBe(400);
    expect((await patch(`/api/clients/${id}`, { name: "x" }, { "if-match": "soon" })).status).toBe(400);
  });

  test("asks for a confirmation before events are kept for a shorter time", async () => {
    const { id } = await newClient();
    const { status, body } = await patch(`/api/clients/${id}`, { retention_months: 12 });
    expect([status, body.errors[0].pointer]).toEqual([400, "/confirm_retention"]);
    expect((await patch(`/api/clients/${id}`, { retention_months: 12, confirm_retention: true })).body).toMatchObject({
      retention_months: 12,
    });
  });

  test("keeps its currency once something was sold", async () => {
    const { id } = await newClient();
    expect((await patch(`/api/clients/${id}`, { currency: "USD" })).body.currency).toBe("USD");
    await owner.query(sql`
      insert into conversions (client_id, conversion_id, version, partner_id, event_id, cause_event_id, event_type,
        customer, occurred_at, value_minor, refunded_minor, currency, status, method,
        content_hash)
      select ${id}, 'cnv_x', 1, 1, gen_random_uuid(), gen_random_uuid(), 'purchase', 'x', now(), 1, 0, 'USD',
        'credited', 'x', 'x'`);
    const { status, body } = await patch(`/api/clients/${id}`, { currency: "EUR" });
    expect([status, body.code]).toEqual([409, "currency_in_use"]);
    expect((await patch(`/api/clients/${id}`, { currency: "USD" })).status).toBe(200);
  });

  test("is archived with its tokens, stays readable, and takes no change but its return", async () => {
    const { id } = await newClient();
    const { token } = await createToken(pool, { kind: "ingest", label: "t", client_id: id });
    expect((await read(`/api/clients/${id}`)).body.ingest_tokens).toEqual([
      { prefix: token.slice(0, "trb_ingest_".length + 4), last_used_at: null },
    ]);
    const gone = await ask(`/api/clients/${id}`, { method: "DELETE", token: tokens.admin! });
    expect([gone.status, gone.text]).toEqual([204, ""]);
    const revoked = await owner.query(sql`select revoked_at from tokens where client_id = ${id}`);
    expect(revoked.rows[0].revoked_at).not.toBeNull();
    expect((await read(`/api/clients/${id}`)).body).toMatchObject({
      status: "archived",
      version: 2,
      ingest_tokens: [],
    });
    expect((await ask(`/api/clients/${id}`, { method: "DELETE", token: tokens.admin! })).status).toBe(204);
    for (const answer of [
      await patch(`/api/clients/${id}`, { name: "x" }),
      await post(`/api/clients/${id}/segments`, { code: "AB", name: "x" }),
      await patch(`/api/clients/${id}/segments/MX`, { name: "x" }),
    ])
      expect([answer.status, answer.body.code]).toEqual([409, "client_archived"]);
    expect((await patch(`/api/clients/${id}`, { status: "active" })).body.status).toBe("active");
  });
});

describe("the list of clients", () => {
  test("goes on behind its cursor to the end, each once, in every order", async () => {
    const prefix = `zz${Date.now().toString(36)}`;
    for (let n = 0; n < 7; n += 1) await newClient({ name: `${prefix} ${"aBcáé"[n % 5]}${n}` });
    for (const sort of ["name", "-name", "-created_at", "created_at"]) {
      const seen: string[] = [];
      for (let cursor = ""; ; ) {
        const { status, body } = await read(`/api/clients?q=${prefix}&sort=${sort}&limit=3${cursor}`);
        expect(status).toBe(200);
        seen.push(...body.data.map(({ name }: { name: string }) => name));
        expect(body.has_more).toBe(body.next_cursor !== null);
        if (body.next_cursor === null) break;
        cursor = `&cursor=${body.next_cursor}`;
      }
      expect(new Set(seen).size).toBe(7);
      const { body: whole } = await read(`/api/clients?q=${prefix}&sort=${sort}&limit=100`);
      expect(seen).toEqual(whole.data.map(({ name }: { name: string }) => name));
    }
  });

  test("leaves archived ones out until they are asked for", async () => {
    const { id, slug } = await newClient();
    await ask(`/api/clients/${id}`, { method: "DELETE", token: tokens.admin! });
    expect((await read(`/api/clients?q=${slug}`)).body.data).toEqual([]);
    for (const status of ["archived", "all"])
      expect((await read(`/api/clients?q=${slug}&status=${status}`)).body.data).toMatchObject([{ id }]);
  });

  test("knows when a client with traffic sent its newest event", async () => {
    const { id: quiet } = await newClient();
    const { id: loud } = await newClient();
    const { id: former } = await newClient();
    const minute = Math.floor(Date.now() / 60_000) * 60_000 - 3 * 60_000;
    const day = Date.now() - 20 * 86_400_000;
    const bucket = (client_id: number, grain: string, at: number, events: number) => ({
      ...{ client_id, grain, bucket: Math.floor(at / 1_000), events, version: 1, event_type: "page_view" },
      ...{ source: "batch", partner_id: 0, campaign_id: 0, country: "", device: "", currency: "", clicks: 0 },
      ...{ conversions: 0, unattributed: 0, revenue_minor: "0", review: 0, rejected: 0 },
    });
    const values = [
      bucket(loud, "minute", minute, 2),
      // Counts nothing: all events of this group moved elsewhere.
      bucket(loud, "minute", minute + 60_000, 0),
      bucket(loud, "day", minute - 86_400_000, 9),
      bucket(former, "day", day, 1),
    ];
    await clickhouse.insert({ table: "rollups", values, format: "JSONEachRow" });
    const newest = async (id: number) => (await read(`/api/clients/${id}`)).body.last_event_at;
    expect(await newest(loud)).toBe(new Date(minute).toISOString());
    expect(await newest(former)).toBe(`${new Date(day).toISOString().slice(0, 19)}.000Z`);
    expect(await newest(quiet)).toBeNull();
  });
});

describe("by role", () => {
  test("a manager sees and changes its own clients, a foreign one is an unknown one, byte for byte", async () => {
    const foreign = await newClient();
    const { body: own } = await read("/api/clients?limit=100", "manager");
    const ids = own.data.map(({ id }: { id: number }) => id);
    expect(ids.length).toBeGreaterThan(0);
    expect(ids).not.toContain(foreign.id);
    const never = 2_000_000_000;
    const asked = { token: tokens.manager!, headers: { "x-request-id": "same" } };
    const requests = [
      { path: "", method: "GET" },
      { path: "", method: "PATCH", body: { name: "Mine" } },
      { path: "/segments", method: "GET" },
      { path: "/segments", method: "POST", body: { code: "AB", name: "x" } },
      { path: "/segments/MX", method: "PATCH", body: { name: "x" } },
    ];
    for (const { path, ...request } of requests) {
      const [hidden, unknown] = await Promise.all(
        [foreign.id, never].map((id) => ask(`/api/clients/${id}${path}`, { ...asked, ...request })),
      );
      expect([hidden!.status, unknown!.status], path).toEqual([404, 404]);
      expect(hidden!.text.replaceAll(String(foreign.id), "N")).toBe(unknown!.text.replaceAll(String(never), "N"));
      expect([...hidden!.headers.keys()]).toEqual([...unknown!.headers.keys()]);
    }
    expect((await read(`/api/clients/${foreign.id}`)).body.version).toBe(1);
  });

  test("what a role is not shown is not read: a manager and a viewer see no tokens", async () => {
    const id = demo.clients[0].id as number;
    expect((await read(`/api/clients/${id}`)).body.ingest_tokens.length).toBeGreaterThan(0);
    expect((await read(`/api/clients/${id}`, "viewer")).body).not.toHaveProperty("ingest_tokens");
  });

  test("a manager may not decide about money, reach and end of a client", async () => {
    const { body } = await read("/api/clients?limit=1", "manager");
    const { id, name } = body.data[0];
    for (const change of [{ plan: "x" }, { currency: "USD" }, { retention_months: 1 }, { status: "paused" }]) {
      const refused = await patch(`/api/clients/${id}`, change, {}, "manager");
      expect([refused.status, refused.body.errors[0].pointer]).toEqual([403, `/${Object.keys(change)[0]}`]);
    }
    expect((await patch(`/api/clients/${id}`, { name }, {}, "manager")).status).toBe(200);
  });
});

describe("segments", () => {
  test("are added, renamed and switched off, each with its version", async () => {
    const { id } = await newClient();
    const added = await post(`/api/clients/${id}/segments`, { code: "OWN", name: "Own" });
    expect([added.status, added.headers.get("location")]).toEqual([201, `/api/clients/${id}/segments/OWN`]);
    const made = { created_at: expect.stringMatching(/Z$/), updated_at: added.body.created_at };
    expect(added.body).toEqual({ code: "OWN", name: "Own", active: true, sales_30d: 0, version: 1, ...made });
    const again = await post(`/api/clients/${id}/segments`, { code: "OWN", name: "Own" });
    expect([again.status, again.body.code]).toEqual([409, "segment_exists"]);
    const off = await patch(`/api/clients/${id}/segments/OWN`, { active: false, version: 1 });
    expect([off.status, off.body, off.headers.get("etag")]).toEqual([
      200,
      { ...added.body, active: false, version: 2, updated_at: off.body.updated_at },
      '"2"',
    ]);
    expect(Date.parse(off.body.updated_at)).toBeGreaterThan(Date.parse(off.body.created_at));
    expect((await patch(`/api/clients/${id}/segments/OWN`, { name: "x", version: 1 })).body.code).toBe(
      "version_conflict",
    );
    expect((await patch(`/api/clients/${id}/segments/NONE`, { name: "x" })).status).toBe(404);
    expect(await auditOf(`segment:${id}:OWN`)).toMatchObject([
      { action: "segment.created" },
      { action: "segment.updated", before: { active: true }, after: { active: false } },
    ]);
  });

  test("two of the same code at once are one, and the other is refused", async () => {
    const { id } = await newClient();
    const both = await Promise.all(
      [1, 2, 3].map((n) => post(`/api/clients/${id}/segments`, { code: "RACE", name: `${n}` })),
    );
    expect(both.map(({ status }) => status).sort()).toEqual([201, 409, 409]);
  });
});
