// The contracts of partners over HTTP: saving them, their versions, and which ones are in force.
import { describe, expect, test } from "vitest";
import { monthsAfter, startOfDay } from "../../domain/calendar.ts";
import { sql } from "../../infra/postgres/sql.ts";
import { apiSuite } from "../support/api-suite.ts";
import { sell } from "../support/owe.ts";

const { demo, owner, tokens, ask, send, read, fresh } = apiSuite();

const own = (): string => fresh("c");
const post = (path: string, body: unknown, headers = {}, role = "admin") => send("POST", path, body, role, headers);

/** A partner with a client of its own. */
const pair = async () => {
  const { id: client } = (await post("/api/clients", { name: "A shop", slug: own() })).body;
  const given = { name: "A partner", email: `${own()}@partner.example`, client_ids: [client] };
  const { id: partner } = (await post("/api/partners", given)).body;
  const path = `/api/partners/${partner}/segment-commissions`;
  const terms = { client_id: client, event_type: "purchase", type: "percent", rate: "10", effective_from: thisMonth };
  const save = (more: object = {}, headers = {}) => post(path, { ...terms, ...more }, headers);
  const list = async (query = "") => (await read(`${path}?${query}`)).body.data;
  return { client, partner, path, save, list };
};
const today = new Date(Date.now() - 6 * 3_600_000).toISOString().slice(0, 10);
const thisMonth = `${today.slice(0, 7)}-01`;
const next = monthsAfter(thisMonth, 1);
const locked = monthsAfter(thisMonth, -2);

describe("a contract", () => {
  test("is saved by its key: the first time it is new, then it has another version", async () => {
    const { client, partner, path, save, list } = await pair();
    const first = await save({ rate: 12.5, min: "2", cap: { period: "month", amount: "500" } });
    expect([first.status, first.headers.get("location"), first.headers.get("etag")]).toEqual([201, path, '"1"']);
    expect(first.body).toEqual({
      id: expect.any(Number),
      partner_id: partner,
      client_id: client,
      segment: null,
      event_type: "purchase",
      type: "percent",
      rate: "12.5",
      amount: null,
      tiers: null,
      tier_mode: null,
      months: null,
      per: "order",
      min: "2.00",
      max: null,
      cap: { period: "month", amount: "500.00" },
      currency: "MXN",
      status: "active",
      effective_from: thisMonth,
      effective_to: null,
      version: 1,
      recorded_at: expect.stringMatching(/Z$/),
      created_at: first.body.recorded_at,
      updated_at: first.body.recorded_at,
      in_force: true,
      not_applied_to: { conversions: 0, commission: "0.00", currency: "MXN", other_currencies: [] },
    });
    const again = await save({ rate: "8" });
    expect([again.status, again.body]).toMatchObject([200, { id: first.body.id, version: 2, rate: "8", min: null }]);
    expect(await list()).toMatchObject([{ version: 2, rate: "8" }]);
    const versions = await list("history=true&sort=effective_from");
    expect(versions).toMatchObject([
      { version: 1, rate: "12.5", in_force: false },
      { version: 2, rate: "8", in_force: true },
    ]);
    const { rows } = await owner.query(
      sql`select action, client_id, before, after from audit where entity = ${`contract:${first.body.id}`}
        order by audit_id`,
    );
    expect(rows).toMatchObject([
      { action: "contract.created", client_id: client, before: null, after: { rate: "12.5" } },
      { action: "contract.versioned", client_id: client, before: { rate: "12.5" }, after: { rate: "8" } },
    ]);
  });

  test.each([
    [
      { type: "flat", rate: null, amount: "50" },
      { amount: "50.00", currency: "MXN" },
    ],
    [
      {
        type: "tiered",
        rate: null,
        tiers: [
          { from: "0", rate: 5 },
          { from: "1000", rate: "7.5" },
        ],
      },
      {
        tiers: [
          { from: "0.00", rate: "5" },
          { from: "1000.00", rate: "7.5" },
        ],
        tier_mode: "marginal",
      },
    ],
    [
      { type: "tiered", rate: null, tier_mode: "retroactive", tiers: [{ from: "0", amount: "5" }] },
      { tiers: [{ from: "0", amount: "5.00" }], tier_mode: "retroactive" },
    ],
    [
      { type: "recurring", months: 12 },
      { rate: "10", months: 12 },
    ],
    [
      { type: "hybrid", amount: "1", max: "20" },
      { rate: "10", amount: "1.00", max: "20.00" },
    ],
  ])("of %j is answered as it was written", async (terms, shown) => {
    const { save, list } = await pair();
    const { status, body } = await save(terms);
    expect([status, body]).toMatchObject([201, shown]);
    expect(await list()).toMatchObject([shown]);
  });

  test.each([
    [{ rate: "101" }, "/rate"],
    [{ rate: null }, "/rate"],
    [{ amount: "5" }, "/amount"],
    [{ months: 3 }, "/months"],
    [{ min: "5", max: "4" }, "/max"],
    [{ min: "0.005" }, "/min"],
    [{ type: "tiered", rate: null, tiers: [{ from: "5", rate: "1" }] }, "/tiers/0/from"],
    [{ type: "gift" }, "/type"],
    [{ event_type: "page_view" }, "/event_type"],
    [{ segment: "NOPE" }, "/segment"],
    [{ effective_to: "2020-01-01" }, "/effective_to"],
    [{ effective_from: "0001-01-01" }, "/effective_from"],
    [{ client_id: 2_000_000_000 }, "/client_id"],
    [{ partner_id: 1 }, "/partner_id"],
    [{ contract_id: 1 }, "/contract_id"],
    [{ status: "archived" }, "/status"],
    [{ version: 0 }, "/version"],
  ])("is not saved with %j", async (wrong, pointer) => {
    const { save, list } = await pair();
    const { status, body } = await save(wrong);
    expect([status, body.errors?.[0].pointer]).toEqual([400, pointer]);
    expect(await list()).toEqual([]);
  });

  test("is changed by one of two who saw the same version", async () => {
    const { save } = await pair();
    await save();
    const both = await Promise.all([save({ rate: "1", version: 1 }), save({ rate: "2" }, { "if-match": '"1"' })]);
    expect(both.map(({ status }) => status).sort()).toEqual([200, 409]);
    expect(both.find(({ status }) => status === 409)!.body).toMatchObject({
      code: "version_conflict",
      current_version: 2,
    });
    expect((await save({ event_type: "install", version: 4 })).body).toMatchObject({ current_version: 0 });
  });

  test("is saved once for an Idempotency-Key", async () => {
    const { save, list } = await pair();
    const key = { "idempotency-key": own() };
    const both = [await save({}, key), await save({}, key)];
    expect(both.map(({ status }) => status)).toEqual([201, 201]);
    expect(await list("history=true")).toHaveLength(1);
  });

  test("is superseded by a newer one without a conflict, and a short offer lies inside a long one", async () => {
    const { save, list } = await pair();
    await save({ rate: "10" });
    await save({ rate: "12", effective_from: monthsAfter(next, 1), effective_to: monthsAfter(next, 2) });
    const inForce = async (at: string) => (await list(`at=${at}`)).map(({ rate }: { rate: string }) => rate);
    expect(await inForce(next)).toEqual(["10"]);
    expect(await inForce(monthsAfter(next, 1))).toEqual(["12"]);
    expect(await inForce(monthsAfter(next, 2))).toEqual(["10"]);
    expect(await inForce(monthsAfter(thisMonth, -1))).toEqual([]);
    await save({ segment: "MX", rate: "3" });
    expect((await inForce(next)).sort()).toEqual(["10", "3"]);
    expect(await list("segment=MX")).toMatchObject([{ rate: "3" }]);
    expect(await list("event_type=install")).toEqual([]);
  });

  test("says which settled conversions keep what they earned", async () => {
    const { client, partner, save } = await pair();
    const at = new Date(startOfDay(thisMonth) + 1_000);
    const sold = { client, partner, at, segment: null, commission: 150n };
    await sell(owner, sold);
    await sell(owner, { ...sold, event_type: "ext_purchase" });
    await sell(owner, { ...sold, segment: "MX", commission: 1_000n });
    await sell(owner, { ...sold, event_type: "install" });
    await sell(owner, { ...sold, at: new Date(startOfDay(thisMonth) - 1) });
    const notApplied = async (more: object) => (await save(more)).body.not_applied_to;
    expect(await notApplied({ segment: "MX" })).toMatchObject({ conversions: 1, commission: "10.00" });
    // It does not cover segments that have a contract of their own.
    expect(await notApplied({})).toEqual({
      ...{ conversions: 2, commission: "3.00", currency: "MXN" },
      other_currencies: [],
    });
    expect(await notApplied({ effective_from: next })).toMatchObject({ conversions: 0, commission: "0.00" });
  });

  test("does not begin in a locked month; one that began then can end in an open one", async () => {
    const { client, partner, save } = await pair();
    const refused = await save({ effective_from: locked });
    expect([refused.status, refused.body.code, refused.body.errors[0].pointer]).toEqual([
      409,
      "month_closed",
      "/effective_from",
    ]);
    // It was saved while that month was open.
    await owner.query(sql`
      insert into segment_commissions (contract_id, version, change_id, valid_from, client_id, partner_id, event_type,
        type, rate, status, effective_from)
      select nextval('contract_ids'), 1, max(change_id), now(), ${client}::int, ${partner}::int, 'purchase',
        'percent', 10, 'active', ${locked}::date from reference_changes`);
    const wrong = await save({ effective_from: locked, rate: "11" });
    expect([wrong.status, wrong.body.code]).toEqual([409, "month_closed"]);
    const early = await save({ effective_from: locked, effective_to: `${locked.slice(0, 8)}15` });
    expect([early.status, early.body.errors[0].pointer]).toEqual([409, "/effective_to"]);
    const ended = await save({ effective_from: locked, effective_to: next });
    expect([ended.status, ended.body]).toMatchObject([200, { effective_to: next, version: 2, rate: "10" }]);
  });

  test("pays its amounts once an order unless it says otherwise, and keeps what it had", async () => {
    const { client, partner, save } = await pair();
    const flat = { type: "flat", rate: null, amount: "25" };
    expect((await save(flat)).body).toMatchObject({ version: 1, per: "order" });
    expect((await save({ ...flat, per: "line" })).body).toMatchObject({ version: 2, per: "line" });
    expect((await save({ ...flat, amount: "30" })).body).toMatchObject({ version: 3, per: "line", amount: "30.00" });
    const wrong = await save({ ...flat, per: "basket" });
    expect([wrong.status, wrong.body.errors[0].pointer]).toEqual([400, "/per"]);
    // It was saved before contracts said so.
    await owner.query(sql`
      insert into segment_commissions (contract_id, version, change_id, valid_from, client_id, partner_id, event_type,
        type, amount_minor, currency, status, effective_from)
      select nextval('contract_ids'), 1, max(change_id), now(), ${client}::int, ${partner}::int, 'purchase',
        'flat', 2500, 'MXN', 'active', ${next}::date from reference_changes`);
    expect((await save({ ...flat, effective_from: next })).body).toMatchObject({ version: 2, per: "line" });
    expect((await save({ ...flat, effective_from: monthsAfter(next, 1) })).body).toMatchObject({
      version: 1,
      per: "order",
    });
  });

  test("keeps out what is archived and who may not", async () => {
    const { client, partner, path, save } = await pair();
    await ask(`/api/clients/${client}`, { method: "DELETE", token: tokens.admin });
    const refused = await save();
    expect([refused.status, refused.body.code]).toEqual([409, "client_archived"]);
    expect((await read(path, "viewer")).status).toBe(200);
    expect((await post(path, {}, {}, "viewer")).status).toBe(403);
    expect((await read(path, "manager")).status).toBe(404);
    expect((await read(`${path}?client_id=2000000000`)).status).toBe(404);
    for (const query of ["sort=rate", "rate=1", "at=soon", "at=0000-01-01", "history=yes"])
      expect((await read(`${path}?${query}`)).status, query).toBe(400);
    expect(partner).toBeGreaterThan(0);
  });

  test("at a client that a manager may not see is one at an unknown client, byte for byte", async () => {
    const shop = demo.clients[0].id as number;
    const { client } = await pair();
    const given = { name: "Shared", email: `${own()}@partner.example`, client_ids: [shop, client] };
    const { id } = (await post("/api/partners", given)).body;
    const terms = { event_type: "purchase", type: "percent", rate: "10", effective_from: next };
    expect((await post(`/api/partners/${id}/segment-commissions`, { ...terms, client_id: client })).status).toBe(201);
    const [hidden, unknown] = await Promise.all(
      [client, 2_000_000_000].map((client_id) =>
        post(`/api/partners/${id}/segment-commissions`, { ...terms, client_id }, { "x-request-id": "same" }, "manager"),
      ),
    );
    expect(hidden!.status).toBe(400);
    expect(hidden!.text.replaceAll(String(client), "N")).toBe(unknown!.text.replaceAll("2000000000", "N"));
    expect((await read(`/api/partners/${id}/segment-commissions`, "manager")).body.data).toEqual([]);
  });
});
