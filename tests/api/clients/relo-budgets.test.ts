// The budget of a client over HTTP, on a real database: set by month and segment, and compared with
// the ledger.
import { describe, expect, test } from "vitest";
import { monthOf } from "../../../domain/calendar.ts";
import { sql } from "../../../infra/postgres/sql.ts";
import { apiSuite } from "../../support/api-suite.ts";
import { owe } from "../../support/owe.ts";

const { demo, owner, tokens, ask } = apiSuite();

const own = demo.clients[0].id as number;
let made = 0;
const newClient = async (more: object = {}): Promise<number> => {
  made += 1;
  const slug = `budget-${Date.now().toString(36)}-${made}`;
  const { body } = await ask("/api/clients", {
    method: "POST",
    token: tokens.admin,
    body: { name: "A shop", slug, ...more },
  });
  return body.id;
};
const set = (client: number, body: unknown, role = "admin", headers: Readonly<Record<string, string>> = {}) =>
  ask(`/api/clients/${client}/relo-budgets`, { method: "POST", token: tokens[role], body, headers });
const list = (client: number, query = "", role = "admin") =>
  ask(`/api/clients/${client}/relo-budgets${query}`, { token: tokens[role] });

const now = monthOf(Date.now());
const monthsAhead = (months: number) => {
  const n = now.year * 12 + now.month - 1 + months;
  return { year: Math.floor(n / 12), month: (n % 12) + 1 };
};
const given = { ...now, amount: "1000.00" };

describe("a budget", () => {
  test("is set once for its month, and changed from then on", async () => {
    const client = await newClient();
    const first = await set(client, { ...given, note: " Autumn " });
    expect([first.status, first.headers.get("location"), first.headers.get("etag")]).toEqual([
      ...[201, `/api/clients/${client}/relo-budgets`, '"1"'],
    ]);
    expect(first.body).toEqual({
      ...{ id: expect.any(Number), client_id: client, ...now, segment: null, amount: "1000.00", currency: "MXN" },
      ...{ note: "Autumn", on_overspend: "alert", spent: "0.00", share: 0, pace: 0, month_state: "open", version: 1 },
      ...{ forecast: first.body.forecast, created_at: expect.stringMatching(/Z$/), updated_at: first.body.created_at },
    });
    expect([null, "0.00"]).toContain(first.body.forecast);
    // An earlier release saved it.
    await owner.query(sql`update relo_budgets set on_overspend = 'stop' where client_id = ${client}`);
    const second = await set(client, { ...given, amount: "2000" });
    expect([second.status, second.headers.get("etag")]).toEqual([200, '"2"']);
    expect(second.body).toMatchObject({
      ...{ id: first.body.id, amount: "2000.00", note: "Autumn", on_overspend: "stop" },
      created_at: first.body.created_at,
    });
    const third = await set(client, { ...given, note: null });
    expect(third.body).toMatchObject({ note: null, on_overspend: "stop", version: 3 });
    expect((await set(client, { ...given, on_overspend: "alert" })).body).toMatchObject({ on_overspend: "alert" });
    expect((await list(client)).body).toMatchObject({ data: [{ id: first.body.id, version: 4 }], has_more: false });
    const { rows } = await owner.query(
      sql`select action, client_id, before, after from audit where entity = ${`budget:${first.body.id}`}
        order by audit_id`,
    );
    expect(rows).toMatchObject([
      { action: "budget.set", client_id: client, before: null, after: { amount: "1000.00", note: "Autumn" } },
      { before: { amount: "1000.00" }, after: { amount: "2000.00", on_overspend: "stop" } },
      { before: { note: "Autumn" }, after: { note: null } },
      { before: { on_overspend: "stop" }, after: { on_overspend: "alert" } },
    ]);
  });

  test("is compared with what was booked to its month, segment and currency", async () => {
    const client = await newClient();
    const entry = { client, partner: 9, held: 0n, currency: "MXN", period: now };
    await owe(owner, { ...entry, payable: 25_000n, segment: "MX" });
    await owe(owner, { ...entry, payable: 10_000n, held: 5_000n });
    await owe(owner, { ...entry, payable: -2_500n, segment: "VD" });
    await owe(owner, { ...entry, payable: 70_000n, currency: "USD" });
    await owe(owner, { ...entry, payable: 90_000n, period: monthsAhead(-1) });
    const all = await set(client, given);
    expect(all.body).toMatchObject({ spent: "375.00", share: 0.375 });
    expect(all.body.pace).toBeGreaterThan(0.37);
    const segment = await set(client, { ...given, amount: "300.00", segment: "MX" });
    expect(segment.body).toMatchObject({ spent: "250.00", share: 0.8333, segment: "MX" });
    expect((await set(client, { ...given, segment: "VD" })).body).toMatchObject({ spent: "-25.00", share: -0.025 });
    const ahead = await set(client, { ...monthsAhead(1), amount: "10.00" });
    expect(ahead.body).toMatchObject({ spent: "0.00", pace: null, forecast: null, month_state: "future" });
    const { body } = await list(client, `?year=${now.year}&month=${now.month}&segment=MX`);
    expect(body.data).toEqual([segment.body]);
  });

  test("lies in a list by month, in pages that do not skip", async () => {
    const client = await newClient();
    for (const months of [2, 0, 1]) await set(client, { ...monthsAhead(months), amount: "1.00" });
    const months = (body: any) => body.data.map(({ year, month }: any) => ({ year, month }));
    const first = await list(client, "?limit=2");
    expect(months(first.body)).toEqual([monthsAhead(2), monthsAhead(1)]);
    const second = await list(client, `?limit=2&cursor=${first.body.next_cursor}`);
    expect(months(second.body)).toEqual([monthsAhead(0)]);
    expect(months((await list(client, "?sort=period")).body)[0]).toEqual(monthsAhead(0));
    expect((await list(client, "?sort=amount")).status).toBe(400);
    expect((await list(client, "?year=1999")).body.errors[0].pointer).toBe("/year");
    const foreign = await list(await newClient(), `?limit=2&cursor=${first.body.next_cursor}`);
    expect([foreign.status, foreign.body.code]).toEqual([400, "bad_cursor"]);
  });

  test("names the place of what is wrong, and saves nothing of it", async () => {
    const client = await newClient();
    const refused = async (body: object, pointer: string, status = 400) => {
      const answer = await set(client, { ...given, ...body });
      expect([answer.status, answer.body.errors?.[0].pointer], answer.text).toEqual([status, pointer]);
    };
    for (const amount of ["0", "-1.00", "1.001", "1e3", "", "1,000.00", "9".repeat(25), "NaN", " 1 "])
      await refused({ amount }, "/amount");
    await refused({ amount: 10 }, "/amount");
    await refused({ amount: "1".repeat(31) }, "/amount");
    await refused({ month: 13 }, "/month");
    await refused({ month: 1.5 }, "/month");
    await refused({ year: 1999 }, "/year");
    await refused({ ...monthsAhead(25) }, "/month");
    await refused({ ...monthsAhead(-3) }, "/month", 409);
    await refused({ segment: "ZZ" }, "/segment");
    await refused({ segment: "mx" }, "/segment");
    await refused({ currency: "USD" }, "/currency");
    for (const segment of ["MX", null]) await refused({ segment, on_overspend: "stop" }, "/on_overspend");
    await refused({ note: "x".repeat(1_001) }, "/note");
    await refused({ note: "a\u202eb" }, "/note");
    for (const field of ["client_id", "id", "spent", "updated_at", "budget_id"])
      await refused({ [field]: own }, `/${field}`);
    expect((await list(client)).body.data).toEqual([]);
  });

  test("of another version than the one that was seen stays as it is", async () => {
    const client = await newClient();
    expect((await set(client, { ...given, version: 1 })).body).toMatchObject({ code: "version_conflict" });
    await set(client, given);
    await set(client, { ...given, amount: "5.00", version: 1 });
    const late = await set(client, { ...given, amount: "6.00" }, "admin", { "if-match": '"1"' });
    expect([late.status, late.body.code, late.body.current_version]).toEqual([409, "version_conflict", 2]);
    expect((await list(client)).body.data).toMatchObject([{ amount: "5.00" }]);
  });

  test("is set once for one Idempotency-Key, and by one of many at once", async () => {
    const client = await newClient();
    const key = { "idempotency-key": `budget-${client}` };
    const answers = await Promise.all(Array.from({ length: 8 }, () => set(client, given, "admin", key)));
    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect((await list(client)).body.data).toMatchObject([{ version: 1 }]);
    const race = await Promise.all(
      Array.from({ length: 8 }, (_, n) => set(client, { ...given, amount: `${n + 1}`, version: 1 })),
    );
    expect(race.map(({ status }) => status).sort()).toEqual([200, ...Array(7).fill(409)]);
  });
});

describe("who sees and sets budgets", () => {
  test("is who is responsible for the client; a viewer reads", async () => {
    const { body: mine } = await set(own, { ...monthsAhead(20), amount: "7.00" }, "manager");
    expect(mine).toMatchObject({ client_id: own, amount: "7.00" });
    expect((await list(own, "", "viewer")).body.data).toContainEqual(mine);
    expect((await set(own, given, "viewer")).status).toBe(403);
    for (const role of ["partner", "client"])
      expect([(await list(own, "", role)).status, (await set(own, given, role)).status]).toEqual([403, 403]);
    expect((await ask(`/api/clients/${own}/relo-budgets`)).status).toBe(401);
  });

  test("a client of others answers exactly as one that does not exist", async () => {
    const foreign = await newClient();
    await set(foreign, given);
    const plain = ({ text }: { text: string }) => text.replace(/"(instance|request_id)":"[^"]*"/g, "");
    for (const act of [(id: number) => list(id, "", "manager"), (id: number) => set(id, given, "manager")]) {
      const [theirs, none] = [await act(foreign), await act(2_000_000_000)];
      expect([theirs.status, none.status]).toEqual([404, 404]);
      expect(plain(theirs)).toBe(plain(none));
    }
  });

  test("an archived client keeps its budgets and gets no other", async () => {
    const client = await newClient();
    await set(client, given);
    await ask(`/api/clients/${client}`, { method: "DELETE", token: tokens.admin });
    expect((await list(client)).body.data).toHaveLength(1);
    const late = await set(client, given);
    expect([late.status, late.body.code]).toEqual([409, "client_archived"]);
  });
});
