// Orders, sales without a partner, and the explanation of an event over HTTP: what each role reads,
// on real stores.
import { parse } from "csv-parse/sync";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { sentEventId } from "../../domain/ids.ts";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { createToken } from "../../modules/access/tokens/tokens.ts";
import { report } from "../../modules/figures/reports/report.ts";
import { orderOfRef, orderRef } from "../../modules/money/orders/order-ref.ts";
import { order as memory } from "../../processors/settle/memory.ts";
import { emptyOrder } from "../../processors/settle/order.ts";
import { settle } from "../../processors/settle/settle.ts";
import type { Claim, Credit, EventReceived } from "../../schemas/generated.ts";
import { eventRows } from "../../sinks/analytics/rows.ts";
import { events } from "../../sinks/analytics/table.ts";
import { conversionRows } from "../../sinks/conversions/rows.ts";
import { conversions } from "../../sinks/conversions/table.ts";
import { ledgerRows } from "../../sinks/ledger/rows.ts";
import { ledger } from "../../sinks/ledger/table.ts";
import { saleRows } from "../../sinks/product-sales/rows.ts";
import { productSales } from "../../sinks/product-sales/table.ts";
import { clickhouseStore } from "../../sinks/stores/clickhouse.ts";
import { postgresStore } from "../../sinks/stores/postgres.ts";
import type { Recorded, Table } from "../../stream/flow.ts";
import { topics } from "../../topics.ts";
import { apiSuite } from "../support/api-suite.ts";
import { attributed, conversion, credit, recorded } from "../support/builders.ts";
import { entry, sale } from "../support/money-builders.ts";
import { bytesOf } from "../support/remembered.ts";

const { env, owner, pool, as, read, send, fresh } = apiSuite();
const clickhouse = openClickhouse(env.CLICKHOUSE_URL!);
/** A client that the manager does not see, and one that it does. */
let hidden: number;
let own: number;
const hour = 3_600_000;
const now = Date.now();

beforeAll(async () => {
  hidden = await newClient();
  own = (await read("/api/clients", "manager")).body.data[0].id;
});
afterAll(() => clickhouse.close());

const newClient = async (): Promise<number> => {
  const answer = await send("POST", "/api/clients", { name: "Sales", slug: fresh("sales") });
  expect(answer.status, answer.text).toBe(201);
  return answer.body.id;
};
const write = <Row>(table: Table<Row>, client: number, rows: readonly Row[]) =>
  postgresStore(pool).within({ tenants: [client], token: "" }, (each) => table.write(rows, each));

interface Over {
  readonly event?: Partial<EventReceived>;
  readonly credit?: Partial<Credit>;
  readonly merged_into?: string | null;
  readonly refunded_minor?: bigint | null;
  readonly at?: number;
  /** The event is only in Postgres, as one of years ago. */
  readonly isForgotten?: boolean;
}
const sold = async (client: number, sent: string, over: Over = {}): Promise<string> => {
  const event_id = sentEventId(client, sent);
  const at = over.at ?? now - hour;
  const event = { client_id: client, event_id, sender_event_id: sent, ts: at, source: "batch", ...over.event };
  const { merged_into = null, refunded_minor = null } = over;
  const data = attributed(event, { credit: credit(over.credit), merged_into, refunded_minor });
  const one = recorded(topics.eventsAttributed, data, { at });
  await write(productSales, client, saleRows(one));
  if (over.isForgotten) return event_id;
  const rows = eventRows(one);
  await clickhouseStore(clickhouse).insert(events, rows, event_id);
  return event_id;
};
/** A credited conversion of the event, with its commission. */
const earned = async (client: number, event_id: string, partner_id: number, order_id: string): Promise<void> => {
  const ids = { client_id: client, partner_id, conversion_id: `cnv_${event_id.replaceAll("-", "")}` };
  const occurred_at = now - hour;
  const made = conversion({ ...ids, event_id, cause_event_id: event_id, order_id, occurred_at, change_id: event_id });
  await write(conversions, client, conversionRows(recorded(topics.conversions, made)));
  const booked = entry({ ...ids, entry_id: `led_${event_id}`, change_id: event_id, occurred_at });
  await write(ledger, client, ledgerRows(recorded(topics.ledgerEntries, booked)));
};
/** The order as settle remembers it after its first claim. */
const settled = async (client: number, claim: Recorded<Claim>): Promise<void> => {
  const outcome = settle(claim, emptyOrder, null);
  if (outcome.kind !== "emit") throw new Error(`settle emits, this was a ${outcome.kind}`);
  const key = `${client}:${claim.data.order_key}`;
  const [bytes] = bytesOf(memory, [key], emptyOrder, outcome.state);
  await pool.query(
    `insert into memory_state (stage, key, version, event_id, topic, partition, "offset", value)
     values ('settle', $1, 1, 'e', 'claims', 0, 0, $2)`,
    [key, bytes!.value],
  );
};
const lost = { method: "rule", reference: "5", partner_id: 21, campaign_id: null, outcome: "partner_inactive" };
describe("sales without a partner", () => {
  test("are listed with the best candidate and why it lost, beside their sums", async () => {
    const order = fresh("o");
    const event_id = await sold(hidden, order, {
      event: { order_id: order },
      credit: { candidates: [lost] },
      refunded_minor: 10_00n,
    });
    const other = fresh("o");
    const event = { order_id: other, value_minor: 300_00n };
    await sold(hidden, other, {
      event,
      credit: { status: "attributed", reason: null, method: "click", partner_id: 21 },
    });
    const again = fresh("o");
    await sold(hidden, again, { event: { order_id: order }, merged_into: event_id });
    const { status, body } = await read(`/api/sales/unattributed?client_id=${hidden}`);
    expect([status, body.data]).toEqual([
      200,
      [
        {
          ...{ id: `sal_${event_id}`, client_id: hidden, order_id: order, event_id, source: "batch" },
          day: expect.stringMatching(/^\d{4}-\d\d-\d\d$/),
          occurred_at: new Date(now - hour).toISOString(),
          ...{ value: "100.00", refunded: "10.00", currency: "MXN", segment: "MX", product_id: "sku1" },
          reason: "no_click",
          best_candidate: { partner_id: 21, method: "rule", why_lost: "partner_inactive" },
        },
      ],
    ]);
    expect(body.summary).toEqual({
      ...{ count: 1, share: 0.5, value: "100.00", revenue_share: 0.25, currency: "MXN" },
      by_reason: [{ reason: "no_click", count: 1, value: "100.00" }],
      other_currencies: [],
    });
  });

  test("whose money their receipt dates have what their events say too", async () => {
    const client = await newClient();
    const order = fresh("o");
    const event = { order_id: order, ts: now - 150 * 24 * hour };
    const event_id = await sold(client, order, { event, credit: { candidates: [lost] } });
    const { body } = await read(`/api/sales/unattributed?client_id=${client}`);
    expect(body.data).toMatchObject([
      {
        ...{ event_id, source: "batch", occurred_at: new Date(now - hour).toISOString() },
        best_candidate: { partner_id: 21, why_lost: "partner_inactive" },
      },
    ]);
  });

  test("are filtered by reason and by value in the digits of their currency, and sorted by value", async () => {
    const client = await newClient();
    for (const [n, value_minor] of [150n, 5_00n, 900_00n].entries()) {
      const order = fresh("o");
      const over = { order_id: order, value_minor, currency: n === 0 ? "JPY" : "MXN" };
      await sold(client, order, { event: over, credit: { reason: n === 1 ? "bad_click_id" : "no_click" } });
    }
    const listed = async (query: string) =>
      (await read(`/api/sales/unattributed?client_id=${client}&${query}`)).body.data.map(
        ({ value, currency }: { value: string; currency: string }) => `${value} ${currency}`,
      );
    expect(await listed("sort=-value")).toEqual(["900.00 MXN", "5.00 MXN", "150 JPY"]);
    expect(await listed("min_value=100&sort=value")).toEqual(["150 JPY", "900.00 MXN"]);
    expect(await listed("reason=bad_click_id")).toEqual(["5.00 MXN"]);
    const { summary } = (await read(`/api/sales/unattributed?client_id=${client}`)).body;
    expect(summary).toMatchObject({
      ...{ count: 3, share: 1, value: "905.00", currency: "MXN" },
      other_currencies: [{ currency: "JPY", value: "150", revenue_share: 1 }],
    });
    expect((await read(`/api/sales/unattributed?client_id=${client}&min_value=1e3`)).status).toBe(400);
  });

  test("come page by page, each once, though many are worth the same", async () => {
    const reason = fresh("r");
    const made: string[] = [];
    for (let n = 0; n < 5; n += 1) {
      const order = fresh("o");
      made.push(order);
      await sold(hidden, order, { event: { order_id: order }, credit: { reason } });
    }
    const all = `/api/sales/unattributed?client_id=${hidden}&limit=2&reason=${reason}`;
    for (const sort of ["-value", "value", "-occurred_at", "occurred_at"]) {
      const seen: string[] = [];
      for (let cursor: string | null = ""; cursor !== null; ) {
        const { body } = await read(`${all}&sort=${sort}${cursor === "" ? "" : `&cursor=${cursor}`}`);
        seen.push(...body.data.map(({ order_id }: { order_id: string }) => order_id));
        cursor = body.next_cursor;
        expect(body.summary.count).toBe(5);
      }
      expect([...seen].sort(), sort).toEqual([...made].sort());
    }
    const { next_cursor } = (await read(all)).body;
    const other = await read(`/api/sales/unattributed?client_id=${hidden}&limit=2&cursor=${next_cursor}`);
    expect([other.status, other.body.code]).toEqual([400, "bad_cursor"]);
  });

  test("are a file too, in which no text is a formula", async () => {
    const client = await newClient();
    const order = fresh("o");
    await sold(client, order, { event: { order_id: "=1+1" } });
    const { status, headers, text } = await read(`/api/sales/unattributed?client_id=${client}&format=csv`);
    expect([status, headers.get("content-type")]).toEqual([200, "text/csv; charset=utf-8"]);
    const [row] = parse(text, { bom: true, columns: true, record_delimiter: "\r\n" }) as Record<string, string>[];
    expect(row).toMatchObject({ order_id: "'=1+1", value: "100.00", source: "batch", client_id: String(client) });
  });

  test("of a client that is hidden are not listed, and naming it is naming none", async () => {
    const order = fresh("o");
    await sold(hidden, order, { event: { order_id: order } });
    const { body } = await read("/api/sales/unattributed?limit=100", "manager");
    expect(body.data.map(({ order_id }: { order_id: string }) => order_id)).not.toContain(order);
    await sameAsUnknown((client) => `/api/sales/unattributed?client_id=${client}`, hidden, 2_000_000_000);
  });
});

describe("an order", () => {
  test("shows its lines with credit and commission, its copies and its refunds", async () => {
    const order = fresh("o");
    const first = await sold(hidden, order, {
      event: { order_id: order, click_id: "c1" },
      credit: { status: "attributed", reason: null, method: "click", partner_id: 21 },
      refunded_minor: 25_00n,
    });
    await earned(hidden, first, 21, order);
    const second = await sold(hidden, `${order}-2`, { event: { order_id: order, product_id: "sku2" } });
    const copy = await sold(hidden, `${order}-copy`, { event: { order_id: order }, merged_into: first });
    const refund = { t: "refund", order_id: order, product_id: "sku1", value_minor: 25_00n };
    const back = await sold(hidden, `${order}-back`, { event: refund });
    const { status, body } = await read(`/api/orders/${order}/details`);
    expect([status, body.id, body.gross, body.refunded, body.net]).toEqual([
      ...[200, orderRef(hidden, order), "200.00", "25.00", "175.00"],
    ]);
    expect(body.lines).toMatchObject([
      {
        ...{ event_id: first, product_id: "sku1", status: "credited", partner_id: 21, refunded: "25.00" },
        credit: { method: "click", click_id: "c1", reason: null },
        commission: { amount: "10.00", currency: "MXN", status: "pending", period: "2026-06" },
      },
      {
        event_id: second,
        product_id: "sku2",
        status: "unattributed",
        commission: null,
        credit: { reason: "no_click" },
      },
    ]);
    expect(body.copies).toMatchObject([{ event_id: copy, source: "batch", merged_into: first }]);
    expect(body.refunds).toMatchObject([{ event_id: back, product_id: "sku1", value: "25.00" }]);
    expect(body.decisions).toEqual([]);
    expect((await read(body.explain[0])).body.event.id).toBe(first);
    expect((await read(`/api/orders/${body.id}/details`)).body).toEqual(body);
  });

  test("in two currencies has sums of each, and a copied refund is shown as the copy that it is", async () => {
    const order = fresh("o");
    await sold(hidden, order, { event: { order_id: order } });
    const event = { order_id: order, product_id: "sku2", currency: "JPY", value_minor: 500n };
    await sold(hidden, `${order}-yen`, { event, refunded_minor: 500n, at: now });
    const refund = { t: "refund", order_id: order, product_id: "sku2", value_minor: 500n, currency: "JPY" };
    const first = await sold(hidden, `${order}-back`, { event: refund });
    const copy = await sold(hidden, `${order}-again`, { event: refund, merged_into: first, at: now });
    const { body } = await read(`/api/orders/${order}/details`);
    expect(body).toMatchObject({ currency: "MXN", gross: "100.00", refunded: "0.00", net: "100.00" });
    expect(body.other_currencies).toEqual([
      { currency: "JPY", gross: "500", refunded: "500", net: "0", disputed_total: false },
    ]);
    expect(body.lines.map(({ value, currency }: any) => [value, currency])).toEqual([
      ["100.00", "MXN"],
      ["500", "JPY"],
    ]);
    expect(body.refunds.map(({ event_id, value, merged_into }: any) => [event_id, value, merged_into])).toEqual([
      [first, "500", null],
      [copy, "500", first],
    ]);
  });

  test.each([
    ["larger total", 150_00n, [100_00n], ["150.00", "40.00", "110.00"]],
    ["smaller total", 80_00n, [60_00n, 40_00n], ["100.00", "40.00", "60.00"]],
    ["total that was given back wholly, and more", 30_00n, [20_00n], ["30.00", "30.00", "0.00"]],
  ])("with lines and a %s counts once, as the larger, and says that it does", async (_, total, values, sums) => {
    const [order, client] = [fresh("o"), await newClient()];
    const event = { t: "ext_purchase", order_id: order, product_id: null, value_minor: total };
    await sold(client, `${order}-total`, { event, refunded_minor: total < 40_00n ? total : 20_00n });
    for (const [n, value_minor] of values.entries()) {
      const line = { order_id: order, product_id: `sku${n}`, value_minor };
      await sold(client, `${order}-${n}`, { event: line, refunded_minor: n === 0 ? 20_00n : 0n, at: now });
    }
    const { body } = await read(`/api/orders/${order}/details`);
    expect([body.gross, body.refunded, body.net, body.disputed_total, body.lines.length]).toEqual([
      ...[...sums, true, values.length + 1],
    ]);
    const { rows } = await report(pool, client, "month");
    expect(rows).toMatchObject([{ orders: 1, disputed_total: 1, revenue: sums[0], refunded: sums[1] }]);
  });

  test("has its custom sales, which no table of sales has, also when it has nothing else", async () => {
    const order = fresh("o");
    const event = { client_id: hidden, t: "custom", custom_name: "trial", order_id: order, product_id: null };
    const event_id = sentEventId(hidden, order);
    const key = `o:${order}`;
    await settled(hidden, sale({ ...event, event_id, order_key: key, at: now - hour, partner: 21 }));
    await earned(hidden, event_id, 21, order);
    const { status, body } = await read(`/api/orders/${order}/details`);
    expect([status, body.gross, body.lines]).toMatchObject([
      200,
      "100.00",
      [{ event_id, t: "trial", value: "100.00", status: "credited", partner_id: 21, commission: { amount: "10.00" } }],
    ]);
    await sameAsUnknown((id) => `/api/orders/${id}/details`, order, `none-${order}`);
  });

  test("is found by the id that its shop gave it, whatever its spaces, accents and looks", async () => {
    const made = fresh("ñ");
    await sold(hidden, made, { event: { order_id: made.normalize("NFC") } });
    const spelt = encodeURIComponent(` ${made.normalize("NFD")} `);
    expect((await read(`/api/orders/${spelt}/details`)).body.order_id).toBe(made.normalize("NFC"));
    const odd = orderRef(1, fresh("o"));
    await sold(hidden, odd, { event: { order_id: odd } });
    expect((await read(`/api/orders/${odd}/details`)).body).toMatchObject({ client_id: hidden, order_id: odd });
  });

  test("that two clients have is asked for by its client", async () => {
    const order = fresh("o");
    for (const client of [own, hidden]) await sold(client, order, { event: { order_id: order } });
    const { status, body } = await read(`/api/orders/${order}/details`);
    expect([status, body.errors[0]]).toMatchObject([400, { pointer: "/client_id", code: "client_id_required" }]);
    expect((await read(`/api/orders/${order}/details?client_id=${own}`)).body.client_id).toBe(own);
    expect((await read(`/api/orders/${order}/details`, "manager")).body.client_id).toBe(own);
  });

  test("of a hidden client is one that does not exist, by either of its ids", async () => {
    const order = fresh("o");
    await sold(hidden, order, { event: { order_id: order } });
    await sameAsUnknown((id) => `/api/orders/${id}/details`, order, `none-${order}`);
    await sameAsUnknown((id) => `/api/orders/${id}/details`, orderRef(hidden, order), orderRef(hidden, "none"));
    await sameAsUnknown((id) => `/api/orders/${order}/details?client_id=${id}`, hidden, 2_000_000_000);
  });

  test("has an id that any order can have, and no other text is one", () => {
    for (const id of ["A-1", "ñ/%2F ?", "ord_7_x", "x".repeat(500)]) {
      const ref = orderRef(7, id);
      expect(orderOfRef(ref)).toEqual({ client_id: 7, order_id: id });
    }
    for (const text of ["A-1", "ord_7", "ord_0_QQ", "ord_7_Q", "ord_7_QR"]) expect(orderOfRef(text)).toBeUndefined();
  });
});

describe("the explanation of an event", () => {
  test("says who was considered, what was decided and what it earned", async () => {
    const order = fresh("o");
    const won = { method: "click", reference: "c1", partner_id: 21, campaign_id: 31, outcome: "won" };
    const id = await sold(hidden, order, {
      event: { order_id: order },
      credit: { status: "attributed", reason: null, method: "click", partner_id: 21, candidates: [won, lost] },
    });
    await earned(hidden, id, 21, order);
    const { status, body } = await read(`/api/events/${order}/explain?client_id=${hidden}`);
    expect(status).toBe(200);
    expect(body).toMatchObject({
      event: { id, sender_event_id: order, client_id: hidden, t: "purchase", source: "batch", version: 1 },
      decision: {
        credit: { status: "attributed", method: "click", partner_id: 21 },
        candidates: [
          { kind: "click", won: true, why_lost: null },
          { kind: "rule", won: false, why_lost: "partner_inactive" },
        ],
      },
      versions: [{ version: 1 }],
      conversions: [{ value: "100.00", status: "credited" }],
      commissions: [{ amount: "10.00", period: "2026-06" }],
      ledger: [
        {
          amount: "10.00",
          lines: [
            { account: "expense:client", amount: "10.00" },
            { account: "payable:partner", amount: "-10.00" },
          ],
        },
      ],
      as_known_now: [{ currency: "MXN", commission: "10.00" }],
    });
    expect((await read(`/api/events/${id}/explain`)).body).toEqual(body);
  });

  test("keeps what was decided and earned of an event that is stored no more", async () => {
    const order = fresh("o");
    const id = await sold(hidden, order, { event: { order_id: order }, isForgotten: true });
    await earned(hidden, id, 21, order);
    expect((await read(`/api/events/${order}/explain?client_id=${hidden}`)).body).toMatchObject({
      ...{ event: null, decision: null, receipt: null, versions: [] },
      ledger: [{ amount: "10.00" }],
    });
  });

  test("asks for the client where two have sent that id", async () => {
    const sent = fresh("o");
    for (const client of [own, hidden]) await sold(client, sent, { event: { order_id: sent } });
    const { status, body } = await read(`/api/events/${sent}/explain`);
    expect([status, body.errors[0].code]).toEqual([400, "client_id_required"]);
    expect((await read(`/api/events/${sent}/explain`, "manager")).body.event.client_id).toBe(own);
  });

  test("of a hidden client's event is that of an unknown one, byte for byte", async () => {
    const order = fresh("o");
    const id = await sold(hidden, order, { event: { order_id: order } });
    await sameAsUnknown((one) => `/api/events/${one}/explain`, id, sentEventId(hidden, "none"));
    await sameAsUnknown((one) => `/api/events/${one}/explain`, order, `none-${order}`);
    await sameAsUnknown((one) => `/api/events/${order}/explain?client_id=${one}`, hidden, 2_000_000_000);
  });
});

describe("decisions about an order", () => {
  const same = { "x-request-id": "same" };
  const post = async (path: string, body: object, role: string) => {
    const answer = await send("POST", `/api/sales/${path}`, { reason: "x", ...body }, role, same);
    return [answer.status, answer.body.errors?.[0]?.code ?? answer.body.code, answer.text];
  };
  const audited = async (client: number) =>
    (await owner.query("select count(*)::int as n from audit where client_id = $1", [client])).rows[0].n;

  test("about a hidden client are those about an unknown one, byte for byte, and leave nothing", async () => {
    const order = fresh("o");
    await settled(hidden, sale({ client_id: hidden, order_id: order }));
    const event_id = await sold(hidden, order, { event: { order_id: order } });
    const before = await audited(hidden);
    for (const path of ["assign", "refund", "reattribute"]) {
      const more = path === "refund" ? {} : { partner_id: 1 };
      const asked = (body: object) => post(path, { ...more, ...body }, "manager");
      const unknown = await asked({ order_id: `none-${order}` });
      expect(unknown.slice(0, 2)).toEqual([404, "not_found"]);
      expect(await asked({ order_id: order })).toEqual(unknown);
      expect(await asked({ order_id: order, client_id: hidden })).toEqual(unknown);
      expect(await asked({ order_id: order, client_id: 2_000_000_000 })).toEqual(unknown);
      const name = (id: string) => (path === "reattribute" ? { event_ids: [id] } : { event_id: id });
      expect(await asked(name(event_id))).toEqual(unknown);
      expect(await asked(name(order))).toEqual(unknown);
    }
    const bulk = (client_id: number) =>
      post("bulk-attribute", { client_id, items: [{ order_id: order, partner_id: 1 }] }, "manager");
    expect(await bulk(hidden)).toEqual(await bulk(2_000_000_000));
    expect((await bulk(hidden))[0]).toBe(404);
    expect(await audited(hidden)).toBe(before);
  });

  test("credit no partner who works for others alone, and none at all for an archived client", async () => {
    const client = await newClient();
    const order = fresh("o");
    await settled(client, sale({ client_id: client, order_id: order, partner: null }));
    const refused = async (path: string, body: object) =>
      (await post(path, { order_id: order, ...body }, "admin")).slice(0, 2);
    for (const partner_id of [1, 2_000_000_000])
      for (const path of ["assign", "reattribute"])
        expect(await refused(path, { partner_id }), path).toEqual([400, "partner_not_of_client"]);
    const { body } = await send("POST", "/api/sales/bulk-attribute", {
      ...{ client_id: client, reason: "x" },
      items: [{ order_id: order, partner_id: 1 }],
    });
    expect(body.results).toMatchObject([{ status: "rejected", code: "partner_not_of_client" }]);
    await createToken(pool, { kind: "ingest", label: "t", client_id: client });
    expect((await send("DELETE", `/api/clients/${client}`)).status).toBe(204);
    expect((await read(`/api/clients/${client}`)).body.status).toBe("archived");
    for (const [path, more] of [
      ["assign", { partner_id: 1 }],
      ["refund", {}],
    ] as const)
      expect(await refused(path, more), path).toEqual([409, "client_archived"]);
    expect((await read(`/api/sales/unattributed?client_id=${client}`)).status).toBe(200);
  });

  test.each([
    ["assign", { order_id: "x", partner_id: 1, role: "admin" }],
    ["assign", { order_id: "x", partner_id: "1" }],
    ["assign", { order_id: "x", partner_id: 1, reason: "a\u202eb" }],
    ["assign", { order_id: "", partner_id: 1 }],
    ["reattribute", { event_ids: [], partner_id: 1 }],
    ["reattribute", { event_ids: Array.from({ length: 1_001 }, (_, n) => `e${n}`), partner_id: 1 }],
    ["reattribute", { event_ids: ["x"], review: "forget" }],
    ["refund", { order_id: "x", amount: 10 }],
    ["refund", { order_id: "x", amount: "10", currency: "XXX1" }],
    ["refund", { order_id: "x", cause: "whim" }],
    ["bulk-attribute", { client_id: 1, items: [] }],
    ["bulk-attribute", { client_id: 1, items: [{ order_id: "x", event_id: "y", partner_id: 1 }] }],
    [
      "bulk-attribute",
      { client_id: 1, items: Array.from({ length: 1_001 }, () => ({ order_id: "x", partner_id: 1 })) },
    ],
  ])("%s refuses %j with the place", async (path, body) => {
    const { status, body: problem } = await send("POST", `/api/sales/${path}`, { reason: "x", ...body });
    expect([status, typeof problem.errors?.[0]?.pointer], JSON.stringify(problem)).toEqual([400, "string"]);
  });
});

test("as many as a request may name are looked for, each in its place", async () => {
  const client_id = await newClient();
  const names = Array.from({ length: 1_000 }, (_, n) => `nowhere-${n}`);
  const items = names.map((order_id) => ({ order_id, partner_id: 1, campaign_id: 1 }));
  const bulk = await send("POST", "/api/sales/bulk-attribute", { client_id, items, reason: "a list" });
  expect([bulk.status, bulk.body.results?.length], bulk.text.slice(0, 300)).toEqual([200, 1_000]);
  expect(bulk.body.results.at(-1)).toMatchObject({ index: 999, status: "rejected", code: "not_found" });
  const moved = await send("POST", "/api/sales/reattribute", {
    client_id,
    event_ids: names,
    partner_id: 1,
    reason: "x",
  });
  expect([moved.status, moved.body.code]).toEqual([404, "not_found"]);
});

test("partners and client users may call none of these", async () => {
  for (const role of ["partner", "client"])
    for (const path of ["/api/sales/unattributed", "/api/orders/x/details", "/api/events/x/explain"])
      expect((await read(path, role)).status, `${role} ${path}`).toBe(403);
});

/**
 * The manager gets the same answer for records that it may not see and for records that do not
 * exist.
 */
const sameAsUnknown = async <Id>(path: (id: Id) => string, foreign: Id, unknown: Id): Promise<void> => {
  const [one, other] = await Promise.all(
    [foreign, unknown].map((id) => as("manager", path(id), { headers: { "x-request-id": "same" } })),
  );
  expect([one!.status, other!.status], path(foreign)).toEqual([404, 404]);
  expect(one!.text.replace(`/${foreign}/`, "/N/")).toBe(other!.text.replace(`/${unknown}/`, "/N/"));
  expect([...one!.headers.keys()]).toEqual([...other!.headers.keys()]);
};
