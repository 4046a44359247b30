// An operator and the nightly pass decide about orders on real servers, and the ledger follows.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { dayOf, startOfDay } from "../../domain/calendar.ts";
import { clickIdKey, mint } from "../../domain/click-id.ts";
import { sentEventId } from "../../domain/ids.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { writeReference } from "../../modules/catalog/reference/writer.ts";
import type { Claim } from "../../schemas/generated.ts";
import { asker } from "../support/ask.ts";
import { until } from "../support/e2e-product.ts";
import { type JoinedProduct, joinProduct } from "../support/joined-product.ts";

const HOUR = 3_600_000;
let product: JoinedProduct;
let shop: { readonly id: number; readonly slug: string; readonly token: string };
let links: readonly {
  readonly code: string;
  readonly link_id: number;
  readonly client_id: number;
  readonly partner_id: number;
}[];
const start = Date.now();

beforeAll(async () => {
  product = await joinProduct("decisions");
  shop = product.client("casa-verde");
  links = (product.stack.run.demo as { links: typeof links }).links.filter(({ client_id }) => client_id === shop.id);
});
afterAll(() => product?.clear());

const clickId = (linkId: number, at: number, n: number): string =>
  mint(
    linkId,
    at,
    new Uint8Array([0, 0, 0, 0, 0, 0, n >> 8, n & 255]),
    clickIdKey(product.stack.env.TRIBUTARY_SECRET!, 1),
  );
const send = async (events: readonly object[]): Promise<void> => {
  const answer = await fetch(`${product.ingestUrl}/ingest/batch`, {
    method: "POST",
    headers: { authorization: `Bearer ${shop.token}`, "content-type": "application/json" },
    body: JSON.stringify({ events }),
  });
  expect([answer.status, await answer.json()]).toMatchObject([200, { accepted: events.length }]);
};
const purchase = (order: string, over: object = {}) => ({
  event_id: `purchase-${order}`,
  t: "purchase",
  ts: start,
  cid: shop.id,
  did: `device-${order}`,
  props: { order_id: order, product_id: "maceta", quantity: 1, revenue: "1000.00", currency: "MXN" },
  ...over,
});
interface Entry {
  readonly kind: string;
  readonly partner_id: number;
  readonly amount: number;
  readonly lines: string;
}
const ledgerOf = (order: string) =>
  product.rows<Entry>(`
    select e.kind, e.partner_id, e.amount_minor::int as amount,
      (select string_agg(account || ' ' || amount_minor, ', ' order by line) from ledger_lines l
        where l.client_id = e.client_id and l.entry_id = e.entry_id) as lines
    from ledger_entries e join conversions c using (client_id, conversion_id)
    where c.client_id = ${shop.id} and c.order_id = '${order}' order by e.stored_at, e.conversion_version`);
const booked = (order: string, count: number) =>
  until(`${count} entries of ${order} are booked`, 30_000, async () => {
    const entries = await ledgerOf(order);
    if (entries.length !== count) throw new Error(`there are ${entries.length}: ${JSON.stringify(entries)}`);
    return entries;
  });
const current = (order: string) =>
  until(`the row of ${order} is stored`, 30_000, async () => {
    const [row] = await product.clickhouse<{
      version: number;
      partner_id: number | null;
      credit_method: string | null;
      fraud_band: string;
    }>(`select version, partner_id, credit_method, fraud_band from events_current
      where client_id = ${shop.id} and order_id = '${order}'`);
    if (row === undefined) throw new Error("it is not there");
    return row;
  });
const decide = async (...args: readonly string[]) => {
  const ran = await product.tributary("decide", ...args, "--client", shop.slug, "--reason", "agreed by phone").done;
  expect(ran.code, ran.stderr).toBe(0);
  return ran;
};

describe("an operator", () => {
  test("takes an e-mail from a device that two people share: its next sale is of no one known", async () => {
    const did = "a shared device";
    await send([
      { event_id: "signup-1", t: "signup", ts: start, cid: shop.id, did, props: { email: "ana@casa-verde.example" } },
    ]);
    const edges = () =>
      product.rows<{ did: string; identifier: string; method: string; unlinked_at: number | null }>(`
        select did, identifier, method, unlinked_at from identity_edges
        where evidence_event_id = '${sentEventId(shop.id, "signup-1")}' and kind = 'email'`);
    const [edge] = await until("the edge is stored", 30_000, async () => {
      const found = await edges();
      expect(found).toHaveLength(1);
      return found;
    });
    const about = ["unlink", "--device", edge!.did] as const;
    const shown = await decide(...about);
    expect(shown.stdout).toMatch(new RegExp(`email +${edge!.identifier} +email_on_event +100 %`));
    expect(shown.stderr).toContain("nothing was decided");
    const said = await decide(...about, "--identifier", edge!.identifier, "--yes", "--json");
    await until("the edge has ended", 30_000, async () =>
      expect(await edges()).toMatchObject([{ method: "email_on_event", unlinked_at: expect.any(Number) }]),
    );
    await send([purchase("S-1", { did })]);
    await current("S-1");
    expect(
      await product.clickhouse(`select person from events_current where client_id = ${shop.id} and order_id = 'S-1'`),
    ).toEqual([{ person: null }]);
    const { stdout } = await product.tributary("explain", JSON.parse(said.stdout).decision_id).done;
    expect(stdout).toContain("identity_unlinked");
    const { stdout: done } = await product.tributary("operations", "--json").done;
    expect(done).toContain(`unlink email ${edge!.identifier}`);
  });

  test("assigns an unattributed order and its commission appears, moves it and the old one is reversed", async () => {
    const [first, second] = [links[0]!.partner_id, links[1]!.partner_id];
    await send([purchase("A-1")]);
    await until("the order is unattributed", 30_000, async () => expect((await current("A-1")).partner_id).toBeNull());

    const shown = await decide("assign", "--order", "A-1", "--partner", String(first));
    expect(shown.stdout).toContain("no_click");
    expect(shown.stderr).toContain("nothing was decided");
    // The planned bookings, to the cent.
    expect(shown.stdout).toMatch(
      /partner +currency +commission now +change +then\n.*\n.* MXN +0\.00 +120\.00 +120\.00/,
    );
    const assigned = JSON.parse(
      (await decide("assign", "--order", "A-1", "--partner", String(first), "--yes", "--json")).stdout,
    );
    expect(assigned.status).toBe("applied");
    expect(assigned.money).toEqual([
      { partner_id: first, currency: "MXN", before: "0.00", change: "120.00", after: "120.00" },
    ]);
    const { stdout: done } = await product.tributary("operations", "--json").done;
    expect(done).toMatch(/assign of order A-1, client \d+/);
    expect(done).toContain("agreed by phone");
    expect(await booked("A-1", 1)).toEqual([
      { kind: "earned", partner_id: first, amount: 12_000, lines: "expense:client 12000, payable:partner -12000" },
    ]);

    const again = [
      "reattribute",
      "--order",
      "A-1",
      "--partner",
      String(second),
      "--yes",
      "--json",
      "--id",
      randomUUID(),
    ];
    await decide(...again);
    await decide(...again);
    const entries = await booked("A-1", 3);
    expect(entries.map(({ kind, partner_id, amount }) => [kind, partner_id, amount])).toEqual(
      expect.arrayContaining([
        ["earned", first, 12_000],
        ["reversal", first, -12_000],
        ["earned", second, 6_500],
      ]),
    );
    await until("the event shows its third version", 30_000, async () =>
      expect(await current("A-1")).toMatchObject({ version: 3, partner_id: second, credit_method: "decision" }),
    );
  });

  test("releases a held commission", async () => {
    await send([
      purchase("A-2", {
        ua: "Googlebot/2.1 (+http://www.google.com/bot.html)",
        svc_click_id: clickId(links[0]!.link_id, start - HOUR, 1),
      }),
    ]);
    const [held] = await booked("A-2", 1);
    expect(held!.lines).toBe("expense:client 12000, held:partner -12000");
    await decide("release", "--order", "A-2", "--yes");
    const entries = await booked("A-2", 2);
    expect(entries.map(({ kind, lines }) => [kind, lines])).toContainEqual([
      "adjustment",
      "held:partner 12000, payable:partner -12000",
    ]);
    expect(
      await product.rows(
        "select m.status, m.amount_minor::int as amount from commissions m join conversions c using " +
          `(client_id, conversion_id) where m.client_id = ${shop.id} and order_id = 'A-2'`,
      ),
    ).toEqual([{ status: "pending", amount: 12_000 }]);
  });

  test("decides before the sale is heard of when that is asked for, and confirms fraud", async () => {
    const mistyped = ["decide", "reject", "--order", "A-3", "--client", shop.slug, "--reason", "x", "--yes"];
    const refused = await product.tributary(...mistyped).done;
    expect([refused.code, refused.stderr]).toEqual([
      3,
      expect.stringContaining(`order A-3 of ${shop.slug} is unknown`),
    ]);
    await decide("reject", "--order", "A-3", "--wait-for-sale", "--yes");
    await send([purchase("A-3", { svc_click_id: clickId(links[0]!.link_id, start - HOUR, 2) })]);
    await until("the sale is stored as it was decided", 30_000, async () =>
      expect(await current("A-3")).toMatchObject({ version: 2, partner_id: null }),
    );
    await product.quiet(30_000);
    expect(await ledgerOf("A-3")).toEqual([]);
  });

  test("gives back a part of an order, and then all that is left of it, once", async () => {
    await send([purchase("A-4", { svc_click_id: clickId(links[0]!.link_id, start - HOUR, 4) })]);
    await booked("A-4", 1);
    const back = (...args: readonly string[]) =>
      decide("refund", "--order", "A-4", "--cause", "item_returned", ...args);
    await back("--amount", "250.00", "--yes");
    expect((await booked("A-4", 2)).reduce((sum, { amount }) => sum + amount, 0)).toBe(9_000);
    const rest = ["--yes", "--id", randomUUID()];
    await back(...rest);
    await back(...rest);
    expect((await booked("A-4", 3)).reduce((sum, { amount }) => sum + amount, 0)).toBe(0);
    await until("its refunds are stored", 30_000, async () =>
      expect(
        await product.rows(
          `select value_minor::int as value, partner_id from product_sales
           where client_id = ${shop.id} and order_id = 'A-4' and t = 'refund'
           order by 1`,
        ),
      ).toEqual([
        { value: 25_000, partner_id: null },
        { value: null, partner_id: null },
      ]),
    );
    const more = await product.tributary(
      ...["decide", "refund", "--client", shop.slug, "--order", "A-4", "--reason", "x", "--yes"],
    ).done;
    expect([more.code, more.stderr]).toEqual([3, expect.stringContaining("all of it has been given back")]);
  });

  test("lists the partners when it names none of them", async () => {
    const ran = await product.tributary(
      "decide",
      "assign",
      "--client",
      shop.slug,
      "--order",
      "A-1",
      "--partner",
      "999999",
      "--reason",
      "x",
    ).done;
    expect(ran.code).toBe(2);
    expect(ran.stderr).toContain(`does not work for ${shop.slug}`);
  });
});

describe("the platform API", () => {
  const ask = asker(() => product.stack.run.apps.api!.url);
  const tokens: Record<string, string> = {};
  beforeAll(async () => {
    for (const role of ["admin", "manager", "partner", "viewer"])
      tokens[role] = await product.token(`${role}@demo.tributary.test`);
  });
  const post = (path: string, body: object, key?: string, role = "admin") =>
    ask(`/api/sales/${path}`, {
      method: "POST",
      token: tokens[role]!,
      body,
      ...(key && { headers: { "idempotency-key": key } }),
    });
  const settled = (order: string) =>
    until(`the order ${order} is settled`, 30_000, async () => {
      const rows = await product.rows(
        `select 1 from memory_state where stage = 'settle' and key = '${shop.id}:o:${order}'`,
      );
      if (rows.length === 0) throw new Error("it is not remembered");
    });

  test("assigns a sale once, moves it, and the order shows by whom", async () => {
    const [first, second] = [links[0]!.partner_id, links[1]!.partner_id];
    await send([purchase("API-1")]);
    await settled("API-1");
    const body = { order_id: "API-1", partner_id: first, reason: "agreed by mail" };
    const assigned = await post("assign", body, "assign-1");
    expect([assigned.status, assigned.body]).toEqual([
      200,
      { decision_id: expect.any(String), status: "applied", version: 2, closed_period: false },
    ]);
    const again = await post("assign", body, "assign-1");
    expect([again.status, again.body]).toEqual([200, assigned.body]);
    expect(await booked("API-1", 1)).toMatchObject([{ kind: "earned", partner_id: first, amount: 12_000 }]);
    const other = await post("assign", { ...body, partner_id: second });
    expect([other.status, other.body.code]).toEqual([409, "already_credited"]);

    const twice = { event_ids: ["purchase-API-1", "purchase-API-1"], partner_id: second, reason: "mistaken" };
    const both = (await post("reattribute", twice)).body.items;
    expect(both).toMatchObject([0, 1].map(() => ({ ...both[0], status: "applied", version: 3 })));
    const moved = await post("reattribute", { event_ids: ["purchase-API-1"], partner_id: second, reason: "mistaken" });
    expect([moved.status, moved.body]).toMatchObject([200, { status: "applied", version: 3 }]);
    expect((await booked("API-1", 3)).reduce((sum, { amount }) => sum + amount, 0)).toBe(6_500);
    const details = async (role: string) =>
      (await ask("/api/orders/API-1/details", { token: tokens[role]! })).body.decisions;
    expect(await details("admin")).toMatchObject([
      { kind: "assign", by: "admin@demo.tributary.test", reason: "agreed by mail", from: [], to: first },
      { kind: "reattribute", by: "admin@demo.tributary.test", from: [first], to: second },
      { kind: "reattribute", from: [second], to: second },
    ]);
    expect((await details("viewer"))[0].by).toBe("a***@demo.tributary.test");
  });

  test("answers the second of two who assign a sale at once that the first one's decision holds", async () => {
    const partners = [links[0]!.partner_id, links[1]!.partner_id];
    const orders = Array.from({ length: 4 }, (_, n) => `RACE-${n}`);
    await send([...orders, "RACE-A"].map((order) => purchase(order)));
    for (const order of [...orders, "RACE-A"]) await settled(order);
    const assign = (order_id: string, n: number) =>
      post("assign", { order_id, partner_id: partners[n], reason: "agreed" }, `${order_id}-${n}`);
    for (const order of orders) {
      const answers = await Promise.all([0, 1].map((n) => assign(order, n)));
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 409]);
      const winner = answers.findIndex(({ status }) => status === 200);
      expect([answers[winner]!.body.status, answers[1 - winner]!.body.code]).toEqual(["applied", "already_credited"]);
      await until("the row shows it", 30_000, async () =>
        expect((await current(order)).partner_id).toBe(partners[winner]),
      );
      expect((await assign(order, 1 - winner)).body.code).toBe("already_credited");
    }
    // Both were decided: neither was refused because of the other.
    const decided = await product.rows<{ n: number }>(`select count(*)::int as n from audit
      where action = 'sale.assigned' and entity like 'order:%:RACE-%' group by entity order by n desc`);
    expect(decided[0]!.n).toBe(2);
    const both = await Promise.all(
      partners.map((partner_id) => {
        const items = [{ order_id: "RACE-A", partner_id }];
        return post("bulk-attribute", { client_id: shop.id, items, reason: "agreed" });
      }),
    );
    const results = both.map(({ body }) => [body.results[0].status, body.results[0].code]);
    expect(results).toContainEqual(["applied", null]);
  });

  test("ends a fraud review either way", async () => {
    const bot = { ua: "Googlebot/2.1 (+http://www.google.com/bot.html)" };
    const credited = (n: number) => ({ ...bot, svc_click_id: clickId(links[0]!.link_id, start - HOUR, n) });
    await send([purchase("API-2", credited(51)), purchase("API-3", credited(52)), purchase("API-7", credited(53))]);
    for (const order of ["API-2", "API-3", "API-7"])
      expect((await booked(order, 1))[0]!.lines).toContain("held:partner");
    const released = await post("reattribute", { order_id: "API-2", review: "release", reason: "a real person" });
    expect(released.body.status).toBe("applied");
    expect((await booked("API-2", 2)).map(({ lines }) => lines)).toContain(
      "held:partner 12000, payable:partner -12000",
    );
    // The review has ended, so a second release would change nothing.
    const again = { order_id: "API-2", review: "release", reason: "a real person" };
    expect((await post("reattribute", again)).body).toMatchObject({ status: 409, code: "no_review" });
    const both = await Promise.all(
      [1, 2].map((n) =>
        post("reattribute", { event_ids: ["purchase-API-7"], review: "release", reason: `person ${n}` }),
      ),
    );
    expect(both.map(({ body }) => body.code ?? body.status).sort()).toEqual(["applied", "no_review"]);
    await post("reattribute", { order_id: "API-3", review: "reject", reason: "a bot" });
    expect((await booked("API-3", 2)).reduce((sum, { amount }) => sum + amount, 0)).toBe(0);
  });

  test("answers each of many in its place", async () => {
    const [first] = links.map(({ partner_id }) => partner_id);
    await send([purchase("API-4"), purchase("API-5")]);
    for (const order of ["API-4", "API-5"]) await settled(order);
    await post("assign", { order_id: "API-5", partner_id: first, reason: "x" });
    const items = [
      { order_id: "API-4", partner_id: first },
      { order_id: "API-4", partner_id: first },
      { order_id: "API-5", partner_id: first },
      { event_id: "never-sent", partner_id: first },
      { event_id: "purchase-A-1", partner_id: 2_000_000_000 },
    ];
    const { status, body } = await post("bulk-attribute", { client_id: shop.id, items, reason: "a list" });
    expect(status).toBe(200);
    expect(body.results.map((one: any) => [one.index, one.status, one.code])).toEqual([
      [0, "applied", null],
      [1, "rejected", "duplicate_item"],
      [2, "unchanged", null],
      [3, "rejected", "not_found"],
      [4, "rejected", "partner_not_of_client"],
    ]);
    expect(await booked("API-4", 1)).toMatchObject([{ kind: "earned", partner_id: first }]);
  });

  describe("of what has no order", () => {
    const [lead, install, trial] = ["lead_submit", "install", "trial"];
    const events = {
      lead: { t: lead, props: { client_lead_id: "L-1", lead_value: "200.00", currency: "MXN" } },
      // An install has no amount, so its partner earns a fixed one.
      install: { t: install, props: {} },
      trial: { t: "custom", props: { custom_name: trial, revenue: "200.00", currency: "MXN" } },
    };
    const ledgerOfEvent = (event: string, count: number) =>
      until(`${count} entries of ${event} are booked`, 30_000, async () => {
        const entries = await product.rows<{ partner_id: number; amount: number; lines: string }>(`
          select e.partner_id, e.amount_minor::int as amount,
            (select string_agg(account || ' ' || amount_minor, ', ' order by line) from ledger_lines l
              where l.client_id = e.client_id and l.entry_id = e.entry_id) as lines
          from ledger_entries e join conversions c using (client_id, conversion_id)
          where c.event_id = '${sentEventId(shop.id, event)}' order by e.stored_at, e.conversion_version`);
        if (entries.length !== count) throw new Error(`there are ${entries.length}: ${JSON.stringify(entries)}`);
        return entries;
      });
    const total = (entries: readonly { readonly amount: number }[]) =>
      entries.reduce((sum, { amount }) => sum + amount, 0);
    const isKnown = (event_id: string) =>
      until(`${event_id} is stored`, 30_000, async () => {
        const answer = await ask(`/api/events/${event_id}/explain?client_id=${shop.id}`, { token: tokens.admin! });
        expect(answer.status).toBe(200);
      });
    const sent = (event_id: string, kind: keyof typeof events, over: object = {}) => ({
      ...{ event_id, ts: start, cid: shop.id, did: `device-${event_id}`, ...events[kind], ...over },
    });

    beforeAll(async () => {
      const pool = openPool(product.stack.env.POSTGRES_URL!, { max: 1 });
      const terms = { client_id: shop.id, effective_from: dayOf(start - 40 * 24 * HOUR) };
      const pays = (event_type: string) =>
        event_type === install ? { type: "flat", amount: "20.00" } : { type: "percent", rate: "10" };
      const { recorded_at } = await writeReference(pool, "test", {
        contracts: links
          .slice(0, 2)
          .flatMap(({ partner_id }) =>
            [lead, install, trial].map((event_type) => ({ ...terms, ...pays(event_type), partner_id, event_type })),
          ),
      } as never);
      await pool.end();
      // A sale is priced by the contracts that were known when it was received.
      await until("the contracts are in force", 30_000, () => expect(Date.now()).toBeGreaterThan(recorded_at));
    });

    test.each(["lead", "install", "trial"] as const)(
      "a %s is assigned, moved and given back by its event",
      async (kind) => {
        const [first, second] = [links[0]!.partner_id, links[1]!.partner_id];
        const event_id = `api-${kind}`;
        const props = kind === "lead" ? { ...events.lead.props, client_lead_id: "L-1" } : events[kind].props;
        await send([sent(event_id, kind, { props })]);
        await isKnown(event_id);
        const assigned = await post("assign", { event_id, partner_id: first, reason: "by phone" });
        expect([assigned.status, assigned.body.status], assigned.text).toEqual([200, "applied"]);
        expect(await ledgerOfEvent(event_id, 1)).toMatchObject([{ partner_id: first, amount: 2_000 }]);
        await post("reattribute", { event_ids: [event_id], partner_id: second, reason: "mistaken" });
        expect(total(await ledgerOfEvent(event_id, 3))).toBe(2_000);
        const part = await post("refund", { event_id, amount: "50.00", reason: "a part of it" });
        const isWorth = kind !== "install";
        if (isWorth) {
          expect([part.status, part.body.status], part.text).toEqual([200, "applied"]);
          expect(total(await ledgerOfEvent(event_id, 4))).toBe(1_500);
        } else
          expect([part.status, part.body.code, part.body.detail]).toEqual([
            ...[409, "refund_exceeds", "0.00 MXN is left of it"],
          ]);
        const ran = await decide("refund", "--event", event_id, "--yes", "--json");
        expect(JSON.parse(ran.stdout).status).toBe("applied");
        expect(total(await ledgerOfEvent(event_id, isWorth ? 5 : 4))).toBe(0);
        const { decisions } = (await ask(`/api/events/${event_id}/explain`, { token: tokens.admin! })).body;
        expect(decisions.map((one: any) => [one.kind, one.amount])).toEqual([
          ["assign", null],
          ["reattribute", null],
          ...(isWorth ? [["refund", "50.00"]] : []),
          ["refund", "all"],
        ]);
        const more = await post("refund", { event_id, reason: "again" });
        expect([more.status, more.body.code]).toEqual([409, "already_refunded"]);
      },
    );

    test("a refund of a lead waits for the keeper, and the one after a killed keeper brings it there", async () => {
      const [event_id, refunded] = ["stray-lead", "stray-refund"];
      const props = { ...events.lead.props, client_lead_id: event_id };
      await send([sent(event_id, "lead", { props, svc_click_id: clickId(links[0]!.link_id, start - HOUR, 70) })]);
      expect(total(await ledgerOfEvent(event_id, 1))).toBe(2_000);
      await isKnown(event_id);
      const asked = { refunded_event_id: event_id, amount: "50.00", currency: "MXN" };
      await send([{ event_id: refunded, t: "refund", ts: start, cid: shop.id, did: "shop", props: asked }]);
      await until("the refund waits", 30_000, async () => {
        const ran = await product.tributary("waiting", "--client", shop.slug, "--older-than", "0", "--json").done;
        expect(ran.stdout).toContain("no_such_event");
      });
      expect(total(await ledgerOfEvent(event_id, 1))).toBe(2_000);

      await product.replaced("keeper", 60_000);
      expect(total(await ledgerOfEvent(event_id, 2))).toBe(1_500);
      const claims = (await product.events<Claim>("claims")).map(({ data }) => data);
      expect(claims.filter(({ moved, client_id }) => moved !== null && client_id === shop.id)).toHaveLength(2);
    });

    test("a held lead is released by the API, and another one is rejected by the command line", async () => {
      const bot = { ua: "Googlebot/2.1 (+http://www.google.com/bot.html)" };
      for (const [n, event_id] of ["held-1", "held-2"].entries()) {
        const props = { ...events.lead.props, client_lead_id: event_id };
        await send([
          sent(event_id, "lead", { ...bot, props, svc_click_id: clickId(links[0]!.link_id, start - HOUR, 60 + n) }),
        ]);
        expect((await ledgerOfEvent(event_id, 1))[0]!.lines).toContain("held:partner");
        await isKnown(event_id);
      }
      const released = await post("reattribute", { event_ids: ["held-1"], review: "release", reason: "a person" });
      expect([released.status, released.body.status]).toEqual([200, "applied"]);
      expect((await ledgerOfEvent("held-1", 2)).map(({ lines }) => lines)).toContain(
        "held:partner 2000, payable:partner -2000",
      );
      await decide("reject", "--event", "held-2", "--yes");
      expect(total(await ledgerOfEvent("held-2", 2))).toBe(0);
    });
  });

  test("gives back a product of an order once, though the request comes again, and says what is left", async () => {
    const lines = ["maceta", "tierra"].map((product_id) =>
      purchase("API-6", {
        event_id: `purchase-API-6-${product_id}`,
        svc_click_id: clickId(links[0]!.link_id, start - HOUR, 70),
        props: { order_id: "API-6", product_id, quantity: 1, revenue: "100.00", currency: "MXN" },
      }),
    );
    await send(lines);
    await booked("API-6", 2);
    const body = { order_id: "API-6", product_id: "tierra", amount: "40.00", cause: "item_returned", reason: "broken" };
    const [one, same] = [await post("refund", body, "refund-1"), await post("refund", body, "refund-1")];
    expect([one.status, one.body.status, same.body.decision_id]).toEqual([200, "applied", one.body.decision_id]);
    const more = await post("refund", { ...body, amount: "60.01" });
    expect([more.status, more.body.code, more.body.detail]).toEqual([409, "refund_exceeds", "60.00 MXN is left of it"]);
    await until("the order shows its refund", 30_000, async () => {
      const { body: order } = await ask("/api/orders/API-6/details", { token: tokens.admin! });
      expect([order.gross, order.refunded, order.net, order.refunds.length]).toEqual(["200.00", "40.00", "160.00", 1]);
      expect(order.decisions).toMatchObject([{ kind: "refund", amount: "40.00", currency: "MXN", to: null }]);
    });
  });

  test("refuses what cannot be decided, and writes nothing of it", async () => {
    const audited = async () =>
      (await product.rows<{ n: number }>("select count(*)::int as n from audit where action <> 'user.bound'"))[0]!.n;
    const before = await audited();
    const partner_id = links[0]!.partner_id;
    const refused = async (path: string, body: object, role = "admin") => {
      const answer = await post(path, { reason: "x", ...body }, undefined, role);
      return [answer.status, answer.body.errors?.[0]?.code ?? answer.body.code];
    };
    expect(await refused("assign", { order_id: "none", partner_id })).toEqual([404, "not_found"]);
    expect(await refused("assign", { event_id: "none", partner_id })).toEqual([404, "not_found"]);
    expect(await refused("refund", { order_id: "none" })).toEqual([404, "not_found"]);
    expect(await refused("refund", { order_id: "API-1", product_id: "other" })).toEqual([404, "not_found"]);
    expect(await refused("refund", { order_id: "API-1", product_id: "none" })).toEqual([400, "placeholder"]);
    expect(await refused("refund", { order_id: "API-1", amount: "0" })).toEqual([400, "bad_amount"]);
    expect(await refused("refund", { order_id: "API-1", currency: "MXN" })).toEqual([400, "required"]);
    expect(await refused("refund", { event_id: "purchase-API-1", product_id: "maceta" })).toEqual([400, "one_of"]);
    expect(await refused("reattribute", { order_id: "API-1", campaign_id: 1, review: "release" })).toEqual([
      400,
      "required",
    ]);
    expect(await refused("assign", { partner_id })).toEqual([400, "one_of"]);
    expect(await refused("assign", { order_id: "API-1", event_id: "x", partner_id })).toEqual([400, "one_of"]);
    expect(await refused("reattribute", { order_id: "API-1" })).toEqual([400, "required"]);
    expect(await refused("reattribute", { order_id: "API-1", partner_id: 2_000_000_000 })).toEqual([
      ...[400, "partner_not_of_client"],
    ]);
    expect(await refused("reattribute", { order_id: "API-1", partner_id, campaign_id: 2_000_000_000 })).toEqual([
      ...[400, "campaign_not_of_client"],
    ]);
    for (const role of ["partner", "viewer"])
      for (const path of ["assign", "reattribute", "bulk-attribute", "refund"])
        expect((await refused(path, { order_id: "API-1", partner_id }, role))[0], `${role} ${path}`).toBe(403);
    expect(await audited()).toBe(before);
  });
});

describe("the nightly pass", () => {
  test("holds the commissions of a partner who floods, and decides nothing when it runs again", async () => {
    const pool = openPool(product.stack.env.POSTGRES_URL!, { max: 1 });
    await writeReference(pool, "test", {
      clients: [{ client_id: shop.id, fraud: { nightly: { flood_clicks: 100, flood_conversions_ppm: 20_000 } } }],
    });
    await pool.end();
    const day = dayOf(startOfDay(dayOf(start)) - HOUR);
    const at = startOfDay(day) + HOUR;
    const { link_id, partner_id } = links[1]!;
    await send(
      Array.from({ length: 101 }, (_, n) => ({
        event_id: `flood-${n}`,
        t: "click",
        ts: at,
        cid: shop.id,
        did: `phone-${n}`,
        svc_click_id: clickId(link_id, at, 1_000 + n),
        url: "https://www.casa-verde.example/",
      })),
    );
    await send([purchase("F-1", { ts: at + HOUR, svc_click_id: clickId(link_id, at, 1_000) })]);
    await booked("F-1", 1);

    const night = (...args: readonly string[]) =>
      product.tributary("fraud", "nightly", "--client", shop.slug, "--day", day, ...args).done;
    const shown = await until("clicks and purchase are stored", 30_000, async () => {
      const ran = await night();
      expect(ran.stdout).toContain("101 clicks in a day, 1 conversions");
      expect(ran.stdout).toContain("1 decisions about 1000.00 MXN");
      return ran;
    });
    expect(shown.stderr).toContain("nothing was decided");
    expect((await night("--yes")).stderr).toContain("1 decisions accepted");
    const entries = await booked("F-1", 3);
    expect(entries.map(({ kind, partner_id: to, lines }) => [kind, to, lines])).toContainEqual([
      "earned",
      partner_id,
      "expense:client 6500, held:partner -6500",
    ]);
    await until("the event bears the finding", 30_000, async () =>
      expect(await current("F-1")).toMatchObject({ version: 2, fraud_band: "review", partner_id }),
    );
    expect((await night("--yes")).stdout).toContain("bears the finding already");
    await decide("release", "--order", "F-1", "--yes");
    expect((await booked("F-1", 4)).map(({ kind }) => kind)).toContain("adjustment");
  });
});
