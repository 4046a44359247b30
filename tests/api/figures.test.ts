// Figures of campaigns and partners over HTTP: the rows of the sinks, counted by hand.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { apiSuite } from "../support/api-suite.ts";
import { attributed, clickCredit, noon } from "../support/builders.ts";
import { type SoldLine, settleRollups, storeEvents, storeLine } from "../support/sold.ts";

const { env, pool, send, read, fresh } = apiSuite({ TRACKING_URL: "https://go.example" });
const clickhouse = openClickhouse(env.CLICKHOUSE_URL!);
const stores = { pool, clickhouse };
afterAll(() => clickhouse.close());

const minuteMs = 60_000;
/**
 * The requests are about campaign `one` of `shop`; another campaign and another client exist too.
 */
let shop: { client: number; a: number; b: number; one: number; two: number };
let foreign: { client: number; partner: number; campaign: number };

/** The first requests of a process may come before its stores answer in time. */
const posted = (path: string, body: object): Promise<any> =>
  until(`${path} is answered`, 20_000, async () => {
    const answer = await send("POST", path, body);
    if (answer.status === 503) throw new Error(answer.text);
    expect(answer.status, answer.text).toBeLessThan(300);
    return answer.body;
  });
const newClient = async (name: string) => (await posted("/api/clients", { name, slug: fresh("f") })).id;
const newPartner = async (client: number, name: string) =>
  (await posted("/api/partners", { name, email: `${fresh("f")}@p.example`, client_ids: [client] })).id;
const newCampaign = async (client_id: number, partners: readonly number[]): Promise<number> => {
  const { id } = await posted("/api/campaigns", {
    client_id,
    name: "Summer",
    destination_url: "https://shop.example/",
  });
  await posted(`/api/campaigns/${id}/launch`, { partners });
  return id;
};

const click = (n: number, over: object, credit: object) =>
  attributed(
    {
      ...{
        client_id: shop.client,
        event_id: `00000000-0000-8000-9000-${(shop.client * 100 + n).toString(16).padStart(12, "0")}`,
      },
      ...{ t: "click", source: "batch", ip: "203.0.113.9", ua: "Firefox", value_minor: null, currency: null },
      ...over,
    } as object,
    { credit: clickCredit({ link_id: 900, partner_id: shop.a, campaign_id: shop.one, ...credit }) },
  );

beforeAll(async () => {
  const client = await newClient("shop");
  const [a, b] = [await newPartner(client, "anna"), await newPartner(client, "bert")];
  shop = { client, a, b, one: await newCampaign(client, [a, b]), two: await newCampaign(client, [a]) };
  const other = await newClient("foreign");
  const partner = await newPartner(other, "carl");
  foreign = { client: other, partner, campaign: await newCampaign(other, [partner]) };

  const line = (n: number, more: Partial<SoldLine>): SoldLine => ({
    ...{ client_id: shop.client, partner_id: shop.a, campaign_id: shop.one, n, at: noon, order_id: `o${n}` },
    ...{ value: 100_00n, commission: 10_00n },
    ...more,
  });
  // The last millisecond of May in Mexico City, and the first of June.
  const june = Date.UTC(2026, 5, 1, 6);
  for (const one of [
    line(1, { order_id: "o1" }),
    line(2, { order_id: "o1", segment: "VD", value: 50_00n, commission: 5_00n, refunded: 20_00n, taken_back: 2_00n }),
    line(3, { partner_id: shop.b, at: june - 1, value: 200_00n, commission: 20_00n }),
    line(4, { partner_id: shop.b, at: june, value: 80_00n, commission: 8_00n, currency: "USD", segment: null }),
    line(5, { t: "lead_submit", value: 0n, commission: 7_00n, isHeld: true }),
    line(6, { value: 30_00n, commission: 3_00n, refunded: 30_00n, taken_back: 3_00n }),
    line(7, { campaign_id: shop.two, value: 1_000_00n, commission: 100_00n }),
  ])
    await storeLine(stores, one);
  const sold = { client_id: shop.client, ts: noon, value_minor: 999_00n };
  await storeEvents(
    stores,
    attributed({ ...sold, event_id: "00000000-0000-8000-8000-0000000000a1", order_id: "none of them" }),
    // A second copy of the first line counts nowhere.
    attributed(
      { ...sold, event_id: "00000000-0000-8000-8000-0000000000a2", order_id: "o1" },
      {
        credit: clickCredit({ partner_id: shop.a, campaign_id: shop.one }),
        merged_into: "00000000-0000-8000-8000-0000000000a3",
      },
    ),
    click(1, { ts: noon }, {}),
    click(2, { ts: noon + 10 * minuteMs }, {}),
    click(3, { ts: noon, source: "pixel" }, {}),
    click(4, { ts: noon, t: "click_filtered" }, { partner_id: shop.b }),
  );
  await storeLine(stores, {
    ...line(8, { client_id: foreign.client, partner_id: foreign.partner, campaign_id: foreign.campaign }),
  });
  await settleRollups(stores);
});
const range = "from=2026-06-01&to=2026-06-15";

describe("a campaign", () => {
  test("says what it sold, credited and earned, and who clicked", async () => {
    const { status, body, text } = await read(`/api/campaigns/${shop.one}/stats?${range}`);
    expect(status, text).toBe(200);
    expect(body.totals).toEqual({
      ...{ clicks: 1, filtered_clicks: 1, repeat_clicks: 1, conversions: 4, orders: 3 },
      ...{ gross: "180.00", refunded: "50.00", net: "130.00", aov: "90.00", refund_rate: 0.2778, roas: 6.5 },
      ...{ commission: "20.00", epc: "20.0000", conversion_rate: 4, approval_rate: 0, currency: "MXN" },
      other_currencies: [
        {
          ...{ gross: "80.00", refunded: "0.00", net: "80.00", aov: "80.00", refund_rate: 0, roas: 10 },
          ...{ commission: "8.00", epc: "8.0000", currency: "USD" },
        },
      ],
    });
    expect(
      body.by_partner.map((one: any) => [one.partner_id, one.name, one.clicks, one.conversions, one.gross]),
    ).toEqual([
      [shop.a, "anna", 1, 3, "180.00"],
      [shop.b, "bert", 0, 1, "0.00"],
    ]);
    const byName = (rows: any[], name: string) =>
      rows.map((one) => [one[name], one.conversions, one.orders, one.commission]).sort();
    expect(byName(body.by_event_type, "event_type")).toEqual([
      ["lead_submit", 1, 0, "7.00"],
      ["purchase", 3, 3, "13.00"],
    ]);
    expect(byName(body.by_segment, "segment")).toEqual([
      [null, 1, 1, "0.00"],
      ["MX", 2, 2, "17.00"],
      ["VD", 1, 1, "3.00"],
    ]);
    expect(body.previous).toEqual({
      ...{ clicks: null, conversions: 3, orders: 2, gross: -0.1, refunded: null, net: -0.35, commission: 0 },
    });
    expect([body.basis, body.timezone, body.provisional_until]).toEqual(["sale_date", "America/Mexico_City", null]);
  });

  test("has a figure for each day, zeros too, and they add up to its stats", async () => {
    const { body } = await read(`/api/campaigns/${shop.one}/daily?from=2026-05-31&to=2026-06-15`);
    expect(body.data).toHaveLength(16);
    const shown = body.data.filter((one: any) => one.orders + one.clicks + one.conversions > 0);
    expect(
      shown.map((one: any) => [one.day, one.clicks, one.conversions, one.orders, one.gross, one.commission]),
    ).toEqual([
      ["2026-05-31", 0, 1, 1, "200.00", "20.00"],
      ["2026-06-01", 0, 1, 1, "0.00", "0.00"],
      ["2026-06-15", 1, 3, 2, "180.00", "20.00"],
    ]);
    expect(body.data[1].other_currencies).toEqual([
      { currency: "USD", gross: "80.00", refunded: "0.00", commission: "8.00" },
    ]);
    const { body: stats } = await read(`/api/campaigns/${shop.one}/stats?from=2026-05-31&to=2026-06-15`);
    const sum = (name: string) => body.data.reduce((all: number, one: any) => all + Number(one[name]), 0);
    for (const name of ["clicks", "conversions", "orders", "gross", "refunded", "commission"])
      expect(sum(name), name).toBe(Number(stats.totals[name]));
  });

  test("shows no day to come, and zeros where nothing was", async () => {
    const today = new Date(Date.now() - 6 * 3_600_000).toISOString().slice(0, 10);
    const { body } = await read(`/api/campaigns/${shop.two}/daily`);
    expect([body.data.length, body.data.at(-1).day, body.data.at(-1).gross]).toEqual([30, today, "0.00"]);
    const later = await read(`/api/campaigns/${shop.two}/daily?from=${today}&to=2100-01-01`);
    expect(later.body.code).toBe("range_too_long");
  });

  test("lists its orders with partner, money and fraud, and as a file", async () => {
    const { body, text } = await read(`/api/campaigns/${shop.one}/orders?${range}&sort=-value`);
    expect(
      body.data?.map((one: any) => one.value),
      text,
    ).toEqual(["100.00", "80.00", "50.00", "30.00", "0.00"]);
    expect(body.data[2]).toMatchObject({
      ...{ order_id: "o1", day: "2026-06-15", partner: "anna", partner_id: shop.a, segment: "VD", status: "credited" },
      ...{ refund: "partial", value: "50.00", refunded: "20.00", commission: "3.00", currency: "MXN", rate: "10" },
      ...{ commission_status: "pending", campaign: "Summer", fraud: { score: 0, band: "ok", reasons: [] } },
    });
    expect(body.data[3]).toMatchObject({ status: "reversed", refund: "full", commission: "0.00" });
    const pages: string[] = [];
    for (let cursor = ""; ; ) {
      const page = await read(`/api/campaigns/${shop.one}/orders?${range}&limit=2${cursor}`);
      pages.push(...page.body.data.map((one: any) => one.id));
      if (page.body.next_cursor === null) break;
      cursor = `&cursor=${encodeURIComponent(page.body.next_cursor)}`;
    }
    expect([pages.length, new Set(pages).size]).toEqual([5, 5]);
    const file = await read(`/api/campaigns/${shop.one}/orders?${range}&format=csv`);
    expect(file.text.split("\r\n")).toHaveLength(7);
    expect(file.text).toContain(
      "o1,2026-06-15,2026-06-15T18:00:00.000Z,anna,VD,sku1,1,50.00,20.00,MXN,credited,3.00,pending",
    );
    const none = await read(`/api/campaigns/${shop.one}/orders?${range}&partner_id=${shop.b}&status=reversed`);
    expect(none.body.data).toEqual([]);
  });

  test("of another client is as unknown as one that does not exist", async () => {
    for (const what of ["stats", "daily", "orders"]) {
      const foreignOne = await read(`/api/campaigns/${foreign.campaign}/${what}`, "manager");
      const unknown = await read(`/api/campaigns/2147483647/${what}`, "manager");
      expect([foreignOne.status, foreignOne.body.code]).toEqual([404, unknown.body.code]);
      for (const role of ["partner", "client"])
        expect((await read(`/api/campaigns/${shop.one}/${what}`, role)).status, role).toBe(403);
    }
  });
});

describe("a partner", () => {
  test("has a dashboard of what it brought and earned", async () => {
    const { status, body, text } = await read(`/api/partners/${shop.a}/dashboard?${range}`);
    expect(status, text).toBe(200);
    expect(body.totals).toMatchObject({
      ...{ clicks: 1, conversions: 4, orders: 3, gross: "1180.00", refunded: "50.00", net: "1130.00" },
      ...{ commission: "120.00", epc: "120.0000", currency: "MXN", other_currencies: [] },
    });
    expect(body.commission_by_status).toEqual({
      ...{ pending: "113.00", under_review: "7.00", approved: "0.00", in_payment: "0.00", paid: "0.00" },
      ...{ reversed: "0.00", currency: "MXN" },
    });
    expect(body.series).toHaveLength(15);
    expect(body.series.at(-1)).toEqual({ day: "2026-06-15", clicks: 1, conversions: 4, commission: "120.00" });
    expect(body.top_links.map((one: any) => [one.campaign_id, one.clicks, one.commission])).toEqual([
      [shop.two, 0, "100.00"],
      [shop.one, 1, "20.00"],
    ]);
    expect(body.top_links[0].url).toMatch(/^https:\/\/go\.example\/c\//);
    expect(body.fraud).toEqual({ ok: 8, review: 0, reject: 0 });
    expect(body.balance).toMatchObject({ payable: "113.00", held: "7.00" });
    expect(body.why_not_paid.map((one: any) => [one.code, one.amount])).toEqual([["review", "7.00"]]);
    expect(body.next_payment).toBeNull();
  });

  test("without anything has zeros and null ratios", async () => {
    const { status, body } = await read(`/api/partners/${shop.b}/dashboard`);
    expect(status).toBe(200);
    expect(body.totals).toMatchObject({
      clicks: 0,
      conversions: 0,
      commission: "0.00",
      epc: null,
      conversion_rate: null,
    });
    expect(body.totals).toMatchObject({ aov: null, refund_rate: null, roas: null, approval_rate: null });
    expect(Object.values(body.previous).every((one) => one === null)).toBe(true);
  });

  test("lists its orders, and no payments yet", async () => {
    const { body } = await read(`/api/partners/${shop.a}/orders?${range}&sort=-commission`);
    expect(body.data.map((one: any) => one.commission)).toEqual(["100.00", "10.00", "7.00", "3.00", "0.00"]);
    const held = await read(`/api/partners/${shop.a}/orders?${range}&commission_status=on_hold`);
    expect(held.body.data.map((one: any) => [one.event_type, one.commission_status])).toEqual([
      ["lead_submit", "on_hold"],
    ]);
    const payments = await read(`/api/partners/${shop.a}/payments?year=2026&month=6`);
    expect(payments.body).toEqual({ data: [], has_more: false, next_cursor: null });
    const file = await read(`/api/partners/${shop.a}/payments?format=csv`);
    expect(file.text.trim()).toMatch(/year,month,client,amount,currency,status,paid_at$/);
  });

  test("is shown its own commissions, and never what was sold", async () => {
    const { body: me } = await read("/api/auth/me", "partner");
    const own = me.partner_id as number;
    const [client] = (await read(`/api/partners/${own}`)).body.client_ids as number[];
    const secret = 777_13n;
    const order = fresh("canary");
    await storeLine(stores, {
      ...{ client_id: client!, partner_id: own, campaign_id: null, n: 7_000 + (Date.now() % 1_000_000), at: noon },
      ...{ order_id: order, value: secret, commission: 5_00n, isHeld: true },
    });
    await settleRollups(stores);
    const names =
      /"[^"]*(revenue|gross|net|value|price|order_total|rate|gmv|refunded|aov|roas|product_id|quantity|fraud)[^"]*":/g;
    for (const path of ["dashboard", "orders", "orders?format=csv", "payments"].map(
      (one) => `/api/partners/${own}/${one}`,
    )) {
      const { status, text } = await read(
        `${path}${path.includes("?") ? "&" : "?"}${path.includes("payments") ? "" : range}`,
        "partner",
      );
      expect(status, text).toBe(200);
      expect(text).not.toMatch(/777[.,]?13/);
      const shown = [...text.matchAll(names)].map(([name]) => name);
      expect(
        shown.filter((name) => !/^"(conversion_rate|approval_rate)":$/.test(name)),
        path,
      ).toEqual([]);
    }
    const { body } = await read(`/api/partners/${own}/orders?${range}`, "partner");
    const canary = body.data.find((one: any) => one.order_id === order);
    expect(canary).toMatchObject({ commission: "5.00", commission_status: "under_review", reason: null });
    for (const asked of ["sort=-value", "sort=value"])
      expect((await read(`/api/partners/${own}/orders?${asked}`, "partner")).status).toBe(400);
    for (const what of ["dashboard", "orders", "payments"]) {
      expect((await read(`/api/partners/${shop.a}/${what}`, "partner")).status, what).toBe(404);
      expect((await read(`/api/partners/${foreign.partner}/${what}`, "manager")).status, what).toBe(404);
      expect((await read(`/api/partners/${shop.a}/${what}?client_id=${foreign.client}`)).status, what).not.toBe(500);
      expect((await read(`/api/partners/${shop.a}/${what}`, "client")).status, what).toBe(403);
    }
  });
});

describe("the system", () => {
  test("says how fresh its data are, of a client and of all", async () => {
    await until("the log answers", 20_000, async () => {
      const { body } = await read("/api/system/data-freshness");
      if (body.relational_sync_lag_sec === null && body.pipeline.status === "down") throw new Error("it has not");
    });
    const { status, body } = await read(`/api/system/data-freshness?client_id=${shop.client}`);
    expect(status).toBe(200);
    expect(body.stale).toBe(true);
    expect(body.aggregation_lag_sec).toEqual(expect.any(Number));
    expect((await read("/api/system/data-freshness?client_id=2147483647")).status).toBe(404);
    expect((await read("/api/system/data-freshness", "viewer")).status).toBe(200);
    for (const role of ["manager", "partner", "client"])
      expect((await read("/api/system/data-freshness", role)).status, role).toBe(403);
  });

  test("says what fraud costs, by band, reason, partner and day", async () => {
    const reasons = [{ code: "datacenter", weight: 80, evidence: "asn 1" }];
    const events = Array.from({ length: 24 }, (_, n) =>
      attributed(
        {
          ...{ client_id: foreign.client, event_id: `00000000-0000-8000-a000-${n.toString(16).padStart(12, "0")}` },
          ...{ t: n < 20 ? "click" : "purchase", order_id: `f${n}`, ts: noon + n * 1_000, source: "batch" },
          value_minor: 10_00n,
        },
        {
          credit: clickCredit({
            partner_id: foreign.partner,
            ...(n >= 22 ? { status: "unattributed" as const, reason: "fraud_rejected", partner_id: null } : {}),
          }),
          fraud: n % 4 === 0 ? { band: "reject", score: 80, reasons } : { band: n % 4 === 1 ? "review" : "ok" },
        },
      ),
    );
    await storeEvents(stores, ...events);
    await settleRollups(stores);
    const { status, body, text } = await read(`/api/admin/fraud-dashboard?client_id=${foreign.client}&${range}`);
    expect(status, text).toBe(200);
    // The sums cover these 24 events and the sold line.
    expect(body.bands.map((one: any) => [one.band, one.events])).toEqual([
      ["ok", 13],
      ["review", 6],
      ["reject", 6],
    ]);
    expect(body.bands.reduce((sum: number, one: any) => sum + one.share, 0)).toBeCloseTo(1, 9);
    expect(body.reasons).toEqual([{ code: "datacenter", events: 6, share: 0.24 }]);
    expect(body.by_partner).toEqual([
      {
        ...{ partner_id: foreign.partner, name: "carl", client_id: foreign.client, clicks: 20, conversions: 1 },
        ...{ review: 6, reject: 6, reject_share: 0.2609, conversion_rate: 0.05, held: [] },
      },
    ]);
    expect(body.money).toMatchObject({ rejected_value: "20.00", held: "0.00", currency: "MXN" });
    expect(body.series.at(-1)).toEqual({ day: "2026-06-15", ok: 13, review: 6, reject: 6 });
    expect((await read("/api/admin/fraud-dashboard", "manager")).status).toBe(403);
  });
});
