// Plans of a month over HTTP, on a real database: saved, approved, reopened, compared with the
// ledger, and shown to partners line by line.
import { describe, expect, test } from "vitest";
import { monthOf, monthsAfter, startOfDay } from "../../../domain/calendar.ts";
import { sql } from "../../../infra/postgres/sql.ts";
import { firstDayOf } from "../../../modules/catalog/budgets/pace.ts";
import { apiSuite } from "../../support/api-suite.ts";
import { owe, sell } from "../../support/owe.ts";

const { demo, owner, ask, send, read, fresh } = apiSuite();

const now = monthOf(Date.now());
const ahead = (months: number) => {
  const [year, month] = monthsAfter(firstDayOf(now), months).split("-").map(Number);
  return { year: year!, month: month! };
};
const first = firstDayOf(now);
const inMonth = new Date(startOfDay(first) + 3_600_000);

/** A new client with some partners. */
const shop = async (partners = 1) => {
  const { id: client } = (await send("POST", "/api/clients", { name: "A shop", slug: fresh("plan") })).body;
  const ids: number[] = [];
  for (let n = 0; n < partners; n += 1) {
    const given = { name: `Partner ${n}`, email: `${fresh("p")}@partner.example`, client_ids: [client] };
    ids.push((await send("POST", "/api/partners", given)).body.id);
  }
  const key = { client_id: client, ...now };
  const post = (what: string, more: object = {}, role = "admin", headers = {}) =>
    send("POST", `/api/planner/${what}`, { ...key, ...more }, role, headers);
  const show = (month: object = now, role = "admin") =>
    read(`/api/planner?${new URLSearchParams({ client_id: `${client}`, ...month } as never)}`, role);
  return { client, partners: ids, partner: ids[0]!, key, post, show };
};
const line = (partner_id: number, more: object = {}) => ({ partner_id, budget: "1000.00", ...more });
const contract = (partner: number, client_id: number, more: object = {}) =>
  send("POST", `/api/partners/${partner}/segment-commissions`, {
    ...{ client_id, event_type: "purchase", type: "percent", rate: "10", effective_from: first, ...more },
  });

describe("a plan", () => {
  test("is there before it is saved: a draft of version 0 that suggests the month before", async () => {
    const { client, partner, post, show } = await shop();
    const empty = await show();
    expect(empty.status, empty.text).toBe(200);
    expect(empty.body).toEqual({
      ...{ as_of: expect.stringMatching(/Z$/), freshness: "stale", timezone: "America/Mexico_City" },
      ...{ provisional_until: expect.stringMatching(/Z$/), client_id: client, ...now, status: "draft", version: 0 },
      ...{ month_state: "open", currency: "MXN", lines: [], relo_budget: null, suggestions: [], history: [] },
      totals: {
        ...{ budget: "0.00", target_conversions: 0, conversions: 0, commission: "0.00", share_used: null, pace: null },
        ...{ forecast: empty.body.totals.forecast, forecast_over: false },
      },
    });
    await post("save", { lines: [line(partner, { segment: "MX", rate: 12.5, target_conversions: 3 })] });
    const next = (await show(ahead(1))).body;
    expect(next).toMatchObject({ version: 0, month_state: "future", lines: [] });
    const suggested = { partner_id: partner, segment: "MX", budget: "1000.00", target_conversions: 3, rate: "12.5" };
    expect(next.suggestions).toEqual([{ ...suggested, partner: "Partner 0" }]);
    expect((await show()).body.suggestions).toEqual([]);
  });

  test("is replaced whole, version by version, and its history says what each step did", async () => {
    const { client, partners, post, show } = await shop(3);
    const [a, b, c] = partners as [number, number, number];
    const one = await post("save", { lines: [line(a), line(a, { segment: "MX", budget: "0" })] });
    expect([one.status, one.headers.get("etag"), one.body.version], one.text).toEqual([200, '"1"', 1]);
    expect(one.body.totals).toMatchObject({ budget: "1000.00", target_conversions: 0 });
    const two = await post("save", {
      lines: [line(b), line(a, { budget: "1500", target_conversions: 9 })],
      version: 1,
    });
    expect(two.body.lines).toMatchObject([
      { partner_id: b, budget: "1000.00", partner: "Partner 1" },
      { partner_id: a, budget: "1500.00", target_conversions: 9 },
    ]);
    const late = await post("save", { lines: [line(c)], version: 1 });
    expect([late.status, late.body.code, late.body.current_version]).toEqual([409, "version_conflict", 2]);
    const { body } = await show();
    expect(body.lines.map(({ partner_id }: any) => partner_id)).toEqual([b, a]);
    expect(body.history).toMatchObject([
      { version: 2, status: "draft", reason: null, changes: { added: 1, changed: 1, removed: 1 } },
      { version: 1, status: "draft", by: "admin@demo.tributary.test", changes: { added: 2, changed: 0, removed: 0 } },
    ]);
    expect((await show(now, "viewer")).body.history[0].by).toBe("a***@demo.tributary.test");
    const { rows } = await owner.query(
      sql`select action, entity, before, after from audit where client_id = ${client} and action like 'planner.%'
        order by audit_id`,
    );
    expect(rows).toMatchObject([
      { action: "planner.saved", before: null, after: { version: 1, lines: [{ partner_id: a }, { segment: "MX" }] } },
      { before: { version: 1 }, after: { version: 2, status: "draft" } },
    ]);
    expect(rows[0].entity).toBe(`planner:${client}/${first.slice(0, 7)}`);
  });

  test("names the place of what is wrong, and keeps nothing of it", async () => {
    const { client, partner, key, post, show } = await shop();
    const other = await shop();
    const refused = async (body: object, pointer: string, status = 400) => {
      const answer = await post("save", { lines: [line(partner)], ...body });
      expect([answer.status, answer.body.errors?.[0].pointer], answer.text).toEqual([status, pointer]);
    };
    for (const budget of ["-1", "1.001", "", "1e3", "NaN", "9".repeat(25)])
      await refused({ lines: [line(partner, { budget })] }, "/lines/0/budget");
    await refused({ lines: [line(partner), line(partner)] }, "/lines/1");
    await refused({ lines: [line(partner, { segment: "ZZ" })] }, "/lines/0/segment");
    await refused({ lines: [line(partner, { rate: "100.1" })] }, "/lines/0/rate");
    await refused({ lines: [line(partner, { target_conversions: -1 })] }, "/lines/0/target_conversions");
    await refused({ lines: [line(partner, { commission: "1" })] }, "/lines/0/commission");
    await refused({ lines: [line(other.partner)] }, "/lines/0/partner_id");
    await refused({ lines: [line(2_000_000_000)] }, "/lines/0/partner_id");
    await refused({ lines: Array.from({ length: 501 }, () => line(partner)) }, "/lines");
    await refused({ ...ahead(25) }, "/month");
    await refused({ ...ahead(-3) }, "/month", 409);
    expect((await post("save")).body.errors[0].pointer).toBe("/lines");
    expect((await show()).body).toMatchObject({ version: 0, history: [] });
    await send("DELETE", `/api/partners/${partner}`);
    await refused({}, "/lines/0/partner_id", 409);
    await send("DELETE", `/api/clients/${client}`);
    expect((await post("save", { lines: [] })).body.code).toBe("client_archived");
    expect((await show()).status).toBe(200);
    expect((await ask("/api/planner?client_id=1", { token: "none" })).status).toBe(401);
    expect((await read(`/api/planner?client_id=${key.client_id}`)).status).toBe(400);
  });

  test("of five hundred lines is saved in one request", async () => {
    const { client, partners, post } = await shop(3);
    const codes = ["MX", "VD", "DA", "HA", "IT", "NW"];
    for (let n = 0; n < 160; n += 1) codes.push(`S${n}`);
    await owner.query(sql`
      insert into segments (client_id, code, name, active, version, change_id, valid_from)
      select client_id, made, made, true, 1, change_id, valid_from from segments, unnest(${codes.slice(6)}::text[]) made
      where client_id = ${client} and segments.code = 'MX'`);
    const lines = partners.flatMap((partner) => codes.map((segment) => line(partner, { segment, rate: "1.5" })));
    const { status, body, text } = await post("save", { lines: [...lines, line(partners[0]!), line(partners[1]!)] });
    expect([status, body.lines?.length], text.slice(0, 300)).toEqual([200, 500]);
    expect(body.totals.budget).toBe("500000.00");
  });

  test("is compared with what came of its lines, and a line of all segments takes the rest", async () => {
    const { client, partners, post, show } = await shop(2);
    const [a, b] = partners as [number, number];
    const entry = { client, partner: a, held: 0n, currency: "MXN", period: now };
    await owe(owner, { ...entry, payable: 25_000n, segment: "MX" });
    await owe(owner, { ...entry, payable: 10_000n, held: 5_000n, segment: "VD" });
    await owe(owner, { ...entry, payable: 5_000n });
    await owe(owner, { ...entry, payable: 70_000n, currency: "USD" });
    await owe(owner, { ...entry, payable: 90_000n, period: ahead(-1) });
    await owe(owner, { ...entry, partner: b, payable: 11_000n });
    for (const segment of ["MX", "VD", null])
      await sell(owner, { client, partner: a, at: inMonth, segment, commission: 1n });
    await sell(owner, {
      client,
      partner: a,
      at: new Date(inMonth.getTime() - 7_200_000),
      segment: "MX",
      commission: 1n,
    });
    await post("save", { lines: [line(a), line(a, { segment: "MX", budget: "200" }), line(b, { budget: "0" })] });
    await send("POST", `/api/clients/${client}/relo-budgets`, { ...now, amount: "2000.00" });
    await contract(a, client, { rate: "7.25" });
    await contract(a, client, { segment: "MX", rate: null, type: "flat", amount: "5" });
    const { body } = await show();
    expect(body.lines).toMatchObject([
      { conversions: 2, commission: "200.00", share_used: 0.2, contract_rate: "7.25" },
      { conversions: 1, commission: "250.00", share_used: 1.25, contract_rate: null },
      { conversions: 0, commission: "110.00", share_used: null, pace: null, contract_rate: null },
    ]);
    expect(body.lines[1].pace).toBeGreaterThan(1.24);
    expect(body.totals).toMatchObject({ budget: "1200.00", conversions: 3, commission: "560.00", share_used: 0.4667 });
    expect(body.relo_budget).toMatchObject({ amount: "2000.00", spent: "560.00", share: 0.28 });
    for (const one of [...body.lines, body.totals])
      expect(one.forecast_over).toBe(one.forecast !== null && Number(one.forecast) > Number(one.budget));
  });
});

const outboxOf = async (client: number) =>
  (
    await owner.query(sql`
      select record ->> 'type' as type, record ->> 'entity' as entity, (record ->> 'version')::int as version
      from outbox where client_id = ${client} and record ->> 'type' like 'planner.%' order by outbox_id`)
  ).rows;

describe("an approval", () => {
  test("freezes the plan until it is opened again, and says what changed since the one before", async () => {
    const { client, partners, post, show } = await shop(2);
    const [a, b] = partners as [number, number];
    const code = async (what: string, more: object = {}) => (await post(what, more)).body.code;
    expect(await code("approve")).toBe("plan_empty");
    expect((await post("reopen")).body).toMatchObject({ code: "invalid_transition", from: "draft", to: "draft" });
    await post("save", { lines: [line(a), line(b)] });
    const approved = await post("approve", { version: 1 });
    expect([approved.status, approved.body.status, approved.body.version], approved.text).toEqual([200, "approved", 1]);
    expect(approved.body.changes).toEqual([
      { partner_id: a, segment: null, before: null, after: { budget: "1000.00", target_conversions: 0, rate: null } },
      expect.objectContaining({ partner_id: b }),
    ]);
    expect(await code("save", { lines: [] })).toBe("plan_approved");
    expect((await post("approve")).body).toMatchObject({ code: "invalid_transition", allowed: ["draft"] });
    expect(await code("reopen", { version: 7 })).toBe("version_conflict");
    const reopened = await post("reopen", { reason: "More for radio" });
    expect(reopened.body, reopened.text).toMatchObject({ status: "draft", version: 2, lines: [{}, {}] });
    await post("save", { lines: [line(a, { budget: "1200" })] });
    expect((await post("approve")).body.changes).toEqual([
      {
        partner_id: a,
        segment: null,
        before: expect.anything(),
        after: expect.objectContaining({ budget: "1200.00" }),
      },
      { partner_id: b, segment: null, before: expect.anything(), after: null },
    ]);
    expect((await show()).body.history).toMatchObject([
      { version: 3, status: "approved", changes: { added: 0, changed: 1, removed: 1 } },
      { version: 3, status: "draft" },
      { version: 2, status: "draft", reason: "More for radio", changes: { added: 0, changed: 0, removed: 0 } },
      { version: 1, status: "approved", changes: { added: 2, changed: 0, removed: 0 } },
      { version: 1, status: "draft" },
    ]);
    expect(await outboxOf(client)).toEqual(
      (
        [
          ["approved", 1],
          ["reopened", 2],
          ["approved", 3],
        ] as const
      ).map(([move, version]) => {
        return { type: `planner.${move}`, entity: `planner:${first.slice(0, 7)}`, version };
      }),
    );
    const { rows: actions } = await owner.query(
      sql`select action from audit where client_id = ${client} and action like 'planner.%' order by audit_id`,
    );
    expect(actions.map(({ action }) => action.slice(8))).toEqual([
      ...["saved", "approved", "reopened", "saved", "approved"],
    ]);
  });

  test("mails each partner its own lines without a rate, and managers what it came to", async () => {
    const { client, partners, post } = await shop(2);
    const [a, b] = partners as [number, number];
    const manager = `${fresh("m")}@people.example`;
    await owner.query(sql`insert into users (email, name, role, client_ids, locale)
      values (${manager}, 'Mara', 'client_manager', ${[client]}, 'en')`);
    await contract(a, client, { segment: "MX", rate: "33.3" });
    await post("save", { lines: [line(a, { segment: "MX", rate: "33.3", budget: "777" }), line(b)] });
    const key = { "idempotency-key": fresh("approve") };
    for (const _ of [1, 2]) expect((await post("approve", {}, "admin", key)).status).toBe(200);
    await post("reopen", { reason: "Other prices" });
    const { rows } = await owner.query(
      sql`select recipient, template, locale, facts from mails where happening like ${`plan-%:${client}:%`}
        order by mail_id`,
    );
    const text = JSON.stringify(rows.filter(({ template }) => !template.endsWith("_managers")));
    expect(text).not.toContain("33.3");
    const templates = ["plan_approved", "plan_approved", "plan_approved_managers"];
    expect(rows.map(({ template }) => template)).toEqual([
      ...templates,
      ...templates.map((one) => one.replace("approved", "reopened")),
    ]);
    expect(rows[0]).toMatchObject({ locale: "es", facts: { lines: [{ segment: "MX", budget: "777.00 MXN" }] } });
    expect(rows[1].facts.lines).toEqual([{ segment: null, budget: "1000.00 MXN", target_conversions: 0 }]);
    expect(rows[2]).toMatchObject({
      ...{ recipient: manager, locale: "en" },
      facts: { added: 2, lines: [{ budget: "1777.00 MXN" }] },
    });
    expect(rows[5].facts.reason).toBe("Other prices");
  });

  test("needs the rate of the contract that is in force on the 1st", async () => {
    const { client, partners, post } = await shop(2);
    const [a, b] = partners as [number, number];
    await contract(a, client);
    await contract(a, client, { segment: "MX", type: "flat", rate: null, amount: "5" });
    const lines = [
      line(a, { rate: "10.0" }),
      line(a, { segment: "VD", rate: "9" }),
      line(a, { segment: "MX", rate: "10" }),
    ];
    await post("save", { lines: [...lines, line(b, { rate: "1" }), line(b, { segment: "MX" })] });
    const refused = await post("approve");
    expect([refused.status, refused.body.code], refused.text).toEqual([409, "rate_mismatch"]);
    expect(refused.body.lines).toEqual([
      { partner_id: a, segment: "VD", rate: "9", contract_rate: "10" },
      { partner_id: a, segment: "MX", rate: "10", contract_rate: null },
      { partner_id: b, segment: null, rate: "1", contract_rate: null },
    ]);
    await post("save", { lines: [line(a, { rate: "10" })] });
    expect((await post("approve")).status).toBe(200);
  });

  test("freezes the contracts of its partners for its month, and no others", async () => {
    const { client, partners, post } = await shop(2);
    const [a, b] = partners as [number, number];
    const month = ahead(1);
    const next = firstDayOf(month);
    await contract(a, client);
    await contract(a, client, { effective_from: next, rate: "12" });
    await post("save", { ...month, lines: [line(a, { segment: "MX" })] });
    await post("approve", month);
    const refused = async (more: object, pointer = "/effective_from") => {
      const { status, body, text } = await contract(a, client, more);
      expect([status, body.code, body.errors?.[0].pointer], text).toEqual([409, "month_approved", pointer]);
    };
    await refused({ effective_from: next, rate: "11" });
    await refused({ segment: "MX" });
    await refused({ event_type: "lead_submit", rate: "3" });
    const middle = `${next.slice(0, 8)}15`;
    await refused({ effective_from: next, rate: "12", effective_to: middle }, "/effective_to");
    const taken = async (of: Promise<{ status: number; text: string }>) => {
      const { status, text } = await of;
      expect(status, text).toBeLessThan(300);
    };
    await taken(contract(a, client, { effective_from: next, rate: "12" }));
    await taken(contract(a, client, { segment: "VD" }));
    await taken(contract(a, client, { segment: "MX", effective_to: next }));
    await taken(contract(b, client, { segment: "MX" }));
    await taken(contract(a, client, { effective_from: firstDayOf(ahead(2)), rate: "13" }));
    // The contract of the planned month goes before it.
    await taken(contract(a, client, { rate: "4" }));
    const campaign = { client_id: client, name: "Summer", destination_url: "https://shop.example/" };
    const { id } = (await send("POST", "/api/campaigns", campaign)).body;
    const terms = { partner_id: a, event_type: "install", type: "flat", amount: "1", effective_from: first };
    const launch = () => send("POST", `/api/campaigns/${id}/launch`, { partners: [a], commissions: [terms] });
    const { status, body } = await launch();
    expect([status, body.code, body.errors[0].pointer]).toEqual([
      ...[409, "month_approved", "/commissions/0/effective_from"],
    ]);
    await post("reopen", month);
    await taken(launch());
    await taken(contract(a, client, { effective_from: next, rate: "11" }));
  });

  test("of many at once is one", async () => {
    const { client, partner, post } = await shop();
    await post("save", { lines: [line(partner)] });
    const race = await Promise.all(Array.from({ length: 6 }, () => post("approve")));
    expect(race.map(({ status }) => status).sort()).toEqual([200, ...Array(5).fill(409)]);
    expect(await outboxOf(client)).toHaveLength(1);
    const saves = await Promise.all(
      Array.from({ length: 6 }, () => post("save", { ...ahead(2), lines: [line(partner)], version: undefined })),
    );
    expect(saves.map(({ body }) => body.version).sort()).toEqual([1, 2, 3, 4, 5, 6]);
  });
});

describe("what is planned for a partner", () => {
  const own = demo.clients[0].id as number;
  test("is shown to it once it is approved, and never a rate", async () => {
    const { partner_id: partner } = (await read("/api/auth/me", "partner")).body;
    const month = ahead(7);
    const query = `?year=${month.year}&month=${month.month}`;
    const path = `/api/partners/${partner}/segment-budgets`;
    const save = (lines: readonly object[]) =>
      send("POST", "/api/planner/save", { client_id: own, ...month, lines }, "manager");
    const saved = await save([line(partner, { segment: "MX", target_conversions: 4 })]);
    expect(saved.status, saved.text).toBe(200);
    const draft = await read(path + query, "manager");
    expect(draft.body.data, draft.text).toMatchObject([
      { client_id: own, segment: "MX", budget: "1000.00", plan_status: "draft", rate: null, share_used: 0, pace: null },
    ]);
    expect((await read(path + query, "partner")).body).toMatchObject({ ...month, data: [] });
    await send("POST", "/api/planner/approve", { client_id: own, ...month });
    const mine = await read(`${path}${query}&client_id=${own}`, "partner");
    expect(mine.body.data).toEqual([
      {
        ...{ client_id: own, segment: "MX", budget: "1000.00", target_conversions: 4 },
        currency: saved.body.currency,
        ...{ conversions: 0, commission: "0.00", share_used: 0, pace: null, forecast: null },
      },
    ]);
    expect((await read(path + query, "viewer")).body.data).toMatchObject([{ plan_status: "approved", rate: null }]);
    await send("POST", "/api/planner/reopen", { client_id: own, ...month });
    expect((await read(path + query, "partner")).body.data).toEqual([]);
    expect((await read(path, "partner")).body).toMatchObject(now);
  });

  test("is nothing of another partner, and no plan of a client of others", async () => {
    const { client, partner, post, key } = await shop();
    await post("save", { lines: [line(partner)] });
    await post("approve");
    const plain = ({ text }: { text: string }) => text.replace(/"(instance|request_id)":"[^"]*"/g, "");
    const none = 2_000_000_000;
    for (const [role, path] of [
      ["partner", (id: number) => `/api/partners/${id === none ? none : partner}/segment-budgets`],
      ["manager", (id: number) => `/api/partners/${id === none ? none : partner}/segment-budgets`],
      ["manager", (id: number) => `/api/planner?client_id=${id}&year=${key.year}&month=${key.month}`],
    ] as const) {
      const [theirs, unknown] = [await read(path(client), role), await read(path(none), role)];
      expect([theirs.status, unknown.status]).toEqual([404, 404]);
      expect(plain(theirs)).toBe(plain(unknown));
    }
    expect((await post("save", { lines: [] }, "manager")).status).toBe(404);
    for (const role of ["manager", "viewer", "partner", "client"])
      expect((await post("approve", {}, role)).status).toBe(403);
    for (const role of ["partner", "client"])
      expect((await read(`/api/planner?client_id=${client}&year=2026&month=1`, role)).status).toBe(403);
  });
});
