// A rule is saved after its sales: it is tried on history and then applied there by a job that
// survives its process.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openPool } from "../../infra/postgres/sql.ts";
import { createToken } from "../../modules/access/tokens/tokens.ts";
import { writeReference } from "../../modules/catalog/reference/writer.ts";
import { asker } from "../support/ask.ts";
import { crediting } from "../support/builders.ts";
import { until } from "../support/e2e-product.ts";
import { type Shop, shopOf } from "../support/e2e-shop.ts";
import { type JoinedProduct, joinProduct } from "../support/joined-product.ts";

let product: JoinedProduct;
let shop: Shop;
let partners: readonly number[];
const tokens: Record<string, string> = {};
const ask = asker(() => product.stack.run.apps.api!.url);
const post = (path: string, body: object, headers = {}, role = "admin") =>
  ask(path, { method: "POST", token: tokens[role], body, headers });

beforeAll(async () => {
  product = await joinProduct("backfill");
  for (const role of ["admin", "manager", "viewer"]) tokens[role] = await product.token(`${role}@demo.tributary.test`);
  shop = shopOf(product, "casa-verde");
  ({ partners } = shop);
  await shop.send([
    ...Array.from({ length: 30 }, (_, n) => shop.purchase(`A-${n}`, "ABRIL")),
    ...Array.from({ length: 5 }, (_, n) => shop.purchase(`N-${n}`)),
    ...Array.from({ length: 4 }, (_, n) => visit(n)),
  ]);
  await product.quiet(60_000);
});
afterAll(() => product?.clear());

const visit = (n: number) => ({
  ...{ event_id: `visit-${n}`, t: "page_view", ts: Date.now(), cid: shop.id, did: `device-v${n}` },
  ...{ url: "https://www.casa-verde.example/abril", props: { coupon: "ABRIL" } },
});
/** The draft on trial: the coupon credits the first partner. */
const trying = () => ({ when: coupon, ...crediting(partners[0]!) });
const coupon = { field: "coupon", op: "eq", value: "ABRIL" };
const ruleOf = (partner: number, when: object = coupon) => ({
  ...{ name: "April", when, status: "inactive" },
  ...crediting(partner),
});
const versions = () =>
  product.clickhouse<{ order_id: string | null; t: string; version: number; partner_id: number | null }>(
    `select order_id, t, version, partner_id from events_current
      where client_id = ${shop.id} and t in ('purchase', 'page_view') order by t, order_id`,
  );
const earned = () =>
  product.rows<{ partner_id: number; amount: number; reasons: number }>(`
    select partner_id, sum(amount_minor)::int as amount,
      count(*) filter (where reason = 'recalc_not_asked')::int as reasons
    from ledger_entries where client_id = ${shop.id} group by 1 order by 1`);
const ended = async (job: string) => {
  let body: any;
  await until(`${job} has ended`, 60_000, async () => {
    ({ body } = await ask(`/api/jobs/${job}`, { token: tokens.admin }));
    expect(["completed", "failed"]).toContain(body.status);
  });
  await product.quiet(30_000);
  return body;
};
const saved = async (partner: number) => {
  const { body } = await post("/api/rules", { client_id: shop.id, ...ruleOf(partner) });
  return body.id as number;
};
/** A rule of a client that is archived by now. */
const ruleOfArchivedClient = async (): Promise<number> => {
  const { body: client } = await post("/api/clients", { name: "Archived", slug: "archived-shop" });
  const partner = { name: "Partner", email: "archived@partner.example", client_ids: [client.id] };
  const { body: made } = await post("/api/partners", partner);
  const { body: rule } = await post("/api/rules", { client_id: client.id, ...ruleOf(made.id) });
  await ask(`/api/clients/${client.id}`, { method: "DELETE", token: tokens.admin! });
  return rule.id;
};
let first: number;

describe("a rule that is tried", () => {
  test("says what it would be credited with in money, and writes nothing", async () => {
    const before = [await versions(), await earned()];
    const rule = trying();
    const { status, body } = await post("/api/rules/simulate", { client_id: shop.id, rule });
    expect([status, body.evaluated, body.matched, body.truncated]).toEqual([200, 39, 34, false]);
    expect(body.by_event_type).toEqual({ page_view: 4, purchase: 30 });
    expect(body.by_partner).toEqual([{ partner_id: null, matched: 34 }]);
    expect(body.money).toHaveLength(1);
    const [{ delta, before: had, after, closed, partner_id }] = body.money;
    expect([partner_id, had, after, closed, body.commission_delta]).toEqual([partners[0], "0.00", delta, false, delta]);
    expect(Number(delta)).toBeGreaterThan(0);
    expect(body.samples).toHaveLength(20);
    expect(body.samples[0]).toMatchObject({ after: { partner_id: partners[0], because: "rule" } });
    expect(body).toMatchObject({ ok: true, dry_run: true, job_id: null, rule_id: null, would_lose_to: [] });
    expect([await versions(), await earned()]).toEqual(before);
  });

  test("competes with the active rules unless it is tried alone", async () => {
    const pool = openPool(product.stack.env.POSTGRES_URL!, { max: 1 });
    const { idOf } = await writeReference(pool, "test", {
      rules: [
        {
          ...{ rule_id: -1, client_id: shop.id, name: "Stronger", priority: 5 },
          when: { all: [{ field: "coupon", op: "eq", value: "ABRIL" }] },
          ...crediting(partners[1]!),
        },
      ],
    });
    const stronger = idOf("rules", -1);
    const rule = trying();
    const { body } = await post("/api/rules/simulate", { client_id: shop.id, rule });
    expect([body.matched, body.would_lose_to]).toEqual([0, [{ rule_id: stronger, count: 34 }]]);
    const alone = await post("/api/rules/simulate", { client_id: shop.id, rule, mode: "alone" });
    expect([alone.body.matched, alone.body.would_lose_to]).toEqual([34, []]);
    const higher = await post("/api/rules/simulate", { client_id: shop.id, rule: { ...rule, priority: 6 } });
    expect(higher.body.matched).toBe(34);
    await writeReference(pool, "test", { rules: [{ rule_id: stronger, status: "inactive" }] });
    await pool.end();
  });

  test("reports a budget that holds today and would be broken", async () => {
    const { year, month } = { year: new Date().getUTCFullYear(), month: new Date().getUTCMonth() + 1 };
    await product.rows(`insert into relo_budgets (client_id, year, month, amount_minor, currency)
      values (${shop.id}, ${year}, ${month}, 100, 'MXN')`);
    const rule = trying();
    const { body } = await post("/api/rules/simulate", { client_id: shop.id, rule });
    expect(body.budgets_breached).toMatchObject([{ year, month, segment: null, budget: "1.00", currency: "MXN" }]);
  });

  test("covers the days and the types that are asked for, and no more than 90 days", async () => {
    const rule = trying();
    const simulate = (more: object, role?: string) =>
      post("/api/rules/simulate", { client_id: shop.id, rule, ...more }, {}, role);
    expect((await simulate({ event_types: ["page_view"] })).body).toMatchObject({
      evaluated: 4,
      matched: 4,
      money: [],
    });
    expect((await simulate({ event_types: ["refund", "nothing"] })).body).toMatchObject({ evaluated: 0, matched: 0 });
    const past = (await simulate({ from: "2020-01-01", to: "2020-03-30" })).body;
    expect([past.from, past.to, past.evaluated]).toEqual(["2020-01-01", "2020-03-30", 0]);
    for (const [more, code] of [
      [{ from: "2020-01-01", to: "2020-03-31" }, "range_too_long"],
      [{ from: "2020-01-02", to: "2020-01-01" }, "bad_range"],
    ] as const)
      expect((await simulate(more)).body.code).toBe(code);
    for (const more of [{ from: "yesterday" }, { event_types: [] }, { mode: "x" }, { rule_id: 1 }, { rule: undefined }])
      expect((await simulate(more)).status, JSON.stringify(more)).toBe(400);
    expect((await simulate({}, "viewer")).status).toBe(403);
    expect((await simulate({ client_id: 2_000_000_000 })).status).toBe(404);
  });
});

test("a rule of another client is not found", async () => {
  const other = product.client("aurora-music");
  const foreign = await saved(partners[0]!);
  for (const rule_id of [foreign, 2_000_000_000]) {
    const answer = await post("/api/rules/simulate", { client_id: other.id, rule_id });
    expect(answer.status).toBe(404);
  }
});

describe("a backfill", () => {
  test("is a dry run by default, and says what would move", async () => {
    first = await saved(partners[0]!);
    const before = [await versions(), await earned()];
    const { status, body } = await post(`/api/rules/${first}/backfill`, { trigger_recalc: true });
    expect([status, body.dry_run, body.matched, body.job_id, body.rule_id]).toEqual([200, true, 34, null, first]);
    expect(Number(body.commission_delta)).toBeGreaterThan(0);
    const free = (await post(`/api/rules/${first}/backfill`, {})).body;
    expect([free.matched, free.commission_delta, free.affected_periods], "it moves no money").toEqual([34, "0.00", []]);
    expect(body.affected_periods).toMatchObject([{ partner_id: partners[0], closed: false }]);
    expect([await versions(), await earned()]).toEqual(before);
    for (const wrong of [{ dry_run: "false" }, { trigger_recalc: 0 }, { from: "2020-01-01" }, { unknown: 1 }])
      expect((await post(`/api/rules/${first}/backfill`, wrong)).status).toBe(400);
    expect((await post(`/api/rules/${first}/backfill`, { version: 7 })).body.code).toBe("version_conflict");
    expect((await post(`/api/rules/${first}/backfill`, {}, {}, "manager")).status).toBe(403);
    expect((await post("/api/rules/2000000000/backfill", {})).status).toBe(404);
  });

  test("takes no body as one without fields, at both hosts", async () => {
    const asked = (url: string, bearer: string, more: RequestInit) =>
      fetch(url, { method: "POST", ...more, headers: { authorization: `Bearer ${bearer}`, ...more.headers } });
    const form = { "content-type": "application/x-www-form-urlencoded" };
    const api = `${product.stack.run.apps.api!.url}/api/rules/${first}/backfill`;
    const admin = product.stack.run.demo.admin_token as string;
    const ingest = `${product.ingestUrl}/admin/rules/${first}/backfill`;
    for (const [url, bearer] of [
      [api, tokens.admin!],
      [ingest, admin],
    ] as const)
      for (const more of [{}, { body: "", headers: form }]) {
        const answer = await asked(url, bearer, more);
        expect([answer.status, await answer.json()], url).toMatchObject([200, { dry_run: true, matched: 34 }]);
      }
  });

  test("is asked for at the ingest host too, with a token of an administrator", async () => {
    const pool = openPool(product.stack.env.POSTGRES_URL!, { max: 1 });
    const { token } = await createToken(pool, { kind: "admin", label: "backfills" });
    await pool.end();
    const asked = (body: unknown, bearer = token, rule = first) =>
      fetch(`${product.ingestUrl}/admin/rules/${rule}/backfill`, {
        method: "POST",
        headers: { authorization: `Bearer ${bearer}`, "content-type": "application/json" },
        body: JSON.stringify(body),
      });
    await until("the token is known", 30_000, async () => expect((await asked({})).status).toBe(200));
    for (const same of [{}, { trigger_recalc: true }])
      expect(await (await asked(same)).json()).toEqual((await post(`/api/rules/${first}/backfill`, same)).body);
    for (const [body, pointer] of [
      [{ dry_run: "false" }, "/dry_run"],
      [{ x: 1 }, "/x"],
      [{ from: "2020-01-01" }, "/from"],
    ] as const) {
      const answer = await asked(body);
      expect([answer.status, await answer.json()]).toMatchObject([400, { errors: [{ pointer }] }]);
    }
    expect((await asked({ version: 7 })).status).toBe(409);
    expect((await asked({}, shop.token)).status).toBe(401);
    expect((await asked({}, token, 2_000_000_000)).status).toBe(404);
    const days = { from: "2026-01-01", to: "2026-01-02", dry_run: false };
    const real = await asked(days);
    const { job_id } = (await real.json()) as { job_id: string };
    expect([real.status, (await ended(job_id)).result]).toMatchObject([202, { evaluated: 0, decisions: 0 }]);
    expect((await post(`/api/rules/${first}/backfill`, days)).body.job_id).toBe(job_id);
    // Neither host accepts a job for an archived client.
    const archived = await ruleOfArchivedClient();
    const answers = [await asked(days, token, archived), await post(`/api/rules/${archived}/backfill`, days)];
    expect(answers.map(({ status }) => status)).toEqual([409, 409]);
    expect(await (answers[0] as Response).json()).toMatchObject({ code: "client_archived" });
  });

  test("credits what it meets without money, once, and with money when that is asked for", async () => {
    const { status, body } = await post(`/api/rules/${first}/backfill`, { dry_run: false });
    expect([status, body]).toMatchObject([202, { ok: true, dry_run: false, rule_version: 1 }]);
    const job = await ended(body.job_id);
    expect(job).toMatchObject({ status: "completed", progress: { done: 39, total: 39 } });
    expect(job.result).toMatchObject({ matched: 34, decisions: 34, applied: 34, overtaken: 0, left_to_recalc: 0 });
    expect([job.result.commission_delta, job.result.affected_periods], "as the dry run says").toEqual(["0.00", []]);
    const rows = await versions();
    expect(rows.filter(({ version }) => version === 2)).toHaveLength(34);
    expect(rows.every(({ version, partner_id }) => (version === 2) === (partner_id === partners[0]))).toBe(true);
    expect(await earned()).toEqual([{ partner_id: partners[0], amount: 0, reasons: 30 }]);

    const again = await post(`/api/rules/${first}/backfill`, { dry_run: false });
    expect(again.body.job_id).toBe(body.job_id);
    const other = await post(`/api/rules/${first}/backfill`, { dry_run: false, event_types: ["purchase"] });
    expect((await ended(other.body.job_id)).result).toMatchObject({ matched: 30, decisions: 0 });

    const dry = (await post(`/api/rules/${first}/backfill`, { trigger_recalc: true })).body;
    const paid = await post(`/api/rules/${first}/backfill`, { dry_run: false, trigger_recalc: true });
    expect((await ended(paid.body.job_id)).result).toMatchObject({
      decisions: 30,
      commission_delta: dry.commission_delta,
    });
    expect((await earned())[0]!.amount).toBe(Math.round(Number(dry.commission_delta) * 100));
    expect((await versions()).filter(({ version }) => version > 2)).toEqual([]);
  });

  test("of another rule moves what rules hold, and leaves it where money may not move", async () => {
    const second = await saved(partners[1]!);
    const before = await earned();
    const free = await post(`/api/rules/${second}/backfill`, { dry_run: false, event_types: ["purchase"] });
    expect((await ended(free.body.job_id)).result).toMatchObject({ matched: 30, decisions: 0, left_to_recalc: 30 });
    expect(await earned()).toEqual(before);
    const paid = await post(`/api/rules/${second}/backfill`, {
      ...{ dry_run: false, trigger_recalc: true, event_types: ["purchase"] },
    });
    expect((await ended(paid.body.job_id)).result).toMatchObject({ decisions: 30, applied: 30 });
    const after = await earned();
    expect(after.find(({ partner_id }) => partner_id === partners[0])!.amount).toBe(0);
    expect(after.find(({ partner_id }) => partner_id === partners[1])!.amount).toBeGreaterThan(0);
  });
});

test("a sale of a closed month is credited where no money moves, and left where it would", async () => {
  // A time so far back counts where the client takes late events.
  const pool = openPool(product.stack.env.POSTGRES_URL!, { max: 1 });
  const { recorded_at } = await writeReference(pool, "test", { clients: [{ client_id: shop.id, late_hours: 2_000 }] });
  await pool.end();
  await until("it is in force", 30_000, () => expect(Date.now()).toBeGreaterThan(recorded_at));
  const old = Date.now() - 75 * 86_400_000;
  await shop.send([{ ...shop.purchase("OLD-1", "ABRIL"), ts: old }]);
  await product.quiet(60_000);
  const day = new Date(old).toISOString().slice(0, 10);
  const days = { from: new Date(old - 86_400_000).toISOString().slice(0, 10), to: day };
  const before = await earned();
  const dry = (await post(`/api/rules/${first}/backfill`, { ...days, trigger_recalc: true })).body;
  expect([dry.matched, dry.affected_periods]).toMatchObject([1, [{ partner_id: partners[0], closed: true }]]);
  const paid = await post(`/api/rules/${first}/backfill`, { ...days, dry_run: false, trigger_recalc: true });
  expect((await ended(paid.body.job_id)).result).toMatchObject({ matched: 1, decisions: 0, left_in_closed_months: 1 });
  expect(await earned()).toEqual(before);
  const free = await post(`/api/rules/${first}/backfill`, { ...days, dry_run: false });
  expect((await ended(free.body.job_id)).result).toMatchObject({ decisions: 1, applied: 1 });
});

test("a keeper that is killed in the middle of a backfill leaves it to the next one, which ends it once", async () => {
  await shop.send(
    Array.from({ length: 1_500 }, (_, n) => ({ ...visit(n), event_id: `more-${n}`, did: `device-m${n}` })),
  );
  await shop.send(Array.from({ length: 1_500 }, (_, n) => shop.purchase(`K-${n}`, "ABRIL")));
  await product.quiet(60_000);
  const { body } = await post(`/api/rules/${first}/backfill`, {
    ...{ dry_run: false, trigger_recalc: true, event_types: ["page_view", "purchase"] },
  });
  const read = async () => (await ask(`/api/jobs/${body.job_id}`, { token: tokens.admin })).body;
  await until("the job is in the middle", 60_000, async () => {
    const { status, progress } = await read();
    expect([status, progress.done > 0 && progress.done < progress.total]).toEqual(["running", true]);
  });
  await product.replaced("keeper", 60_000);
  const left = await read();
  expect([left.status, left.progress.done < left.progress.total]).toEqual(["running", true]);
  // Ends the lease, as if a minute had passed.
  await product.rows(`update jobs set lease_until = now() - interval '1 second' where job_id = '${body.job_id}'`);
  const job = await ended(body.job_id);
  expect(job).toMatchObject({ status: "completed", result: { truncated: false } });
  expect(
    await product.rows(`select
      (select count(*)::int from audit
        where action = 'rule.backfill_completed' and request_id = '${body.job_id}') as audit,
      (select count(*)::int from mails where happening = 'backfill:${body.job_id}') as mails,
      (select count(*)::int from outbox where record ->> 'type' = 'rule.backfill_completed'
        and record ->> 'data' like '%${body.job_id}%') as outbox`),
  ).toEqual([{ audit: 1, mails: 1, outbox: 1 }]);
  expect(await product.rows(`select attempts from jobs where job_id = '${body.job_id}'`)).toEqual([{ attempts: 2 }]);
  const rows = await product.clickhouse<{ version: number; partner_id: number; n: string }>(
    `select version, partner_id, toString(count()) as n from events_current where client_id = ${shop.id}
      and (order_id like 'K-%' or sender_event_id like 'more-%') group by 1, 2`,
  );
  expect(rows).toEqual([{ version: 2, partner_id: partners[0], n: "3000" }]);
  const credited = await product.rows<{ n: number }>(
    `select count(*)::int as n from conversions
      where client_id = ${shop.id} and order_id like 'K-%' and status = 'credited'`,
  );
  expect(credited).toEqual([{ n: 1_500 }]);
});
