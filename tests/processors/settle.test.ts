// The life of one order: first copy, second copy, refund (docs/design/money.md, "Orders").
import { describe, expect, test } from "vitest";
import { mergeCopy, moneyOf } from "../../processors/settle/copies/merge-copy.ts";
import { order } from "../../processors/settle/memory.ts";
import { emptyOrder } from "../../processors/settle/order.ts";
import { settle } from "../../processors/settle/settle.ts";
import type { EventReceived } from "../../schemas/generated.ts";
import { dayMs, hourMs, noon, partnerId } from "../support/builders.ts";
import { netByPartner, pixelSale, refund, sale, settled } from "../support/money-builders.ts";
import { bytesOf, stateFrom } from "../support/remembered.ts";

const rival = 22;
const kinds = (of: ReturnType<typeof settled>) =>
  of.conversions.map(({ data }) => `${data.kind} ${data.value_minor} to ${data.partner_id}`);

describe("the first copy of a line", () => {
  test("is stored as it came and credits its partner", () => {
    const first = sale();
    const { conversions, rows } = settled(first);
    expect(rows).toEqual([{ ...first.data.attributed, refunded_minor: 0n }]);
    expect(conversions.map(({ data }) => data)).toMatchObject([
      {
        kind: "credited",
        version: 1,
        partner_id: partnerId,
        event_id: first.id,
        cause_event_id: first.id,
        event_type: "purchase",
        order_id: "o1",
        product_id: "sku1",
        segment: "MX",
        customer: "d1",
        occurred_at: noon,
        value_minor: 100_00n,
        line_value_minor: 100_00n,
        refunded_minor: 0n,
        currency: "MXN",
        reason: null,
        review: null,
        method: "click",
      },
    ]);
  });

  test("without a credit leaves the line open", () => {
    const { conversions, rows } = settled(sale({ partner: null }));
    expect(conversions).toEqual([]);
    expect(rows).toMatchObject([{ version: 1, credit: { status: "unattributed" } }]);
  });

  test("under a fraud review is credited for review", () => {
    expect(settled(sale({ band: "review" })).conversions[0]?.data.review).toBe("fraud_review");
  });

  test("of each product is a line of its own", () => {
    expect(kinds(settled(sale(), sale({ product_id: "sku2", value_minor: 5_00n })))).toEqual([
      "credited 10000 to 21",
      "credited 500 to 21",
    ]);
  });

  test("of another order is another line", () => {
    const other = sale({ order_id: "o2" });
    expect(kinds(settled(sale(), other))).toEqual(["credited 10000 to 21", "credited 10000 to 21"]);
  });

  test("of a lead, an install or a source's own key is one line whatever its product", () => {
    const lead = { order_key: "l:hash", t: "lead_submit", order_id: null };
    expect(
      settled(sale({ ...lead, product_id: "loan" }), sale({ ...lead, product_id: null })).conversions,
    ).toHaveLength(1);
  });

  test("of a custom event bears the event's name", () => {
    const custom = sale({ t: "custom", custom_name: "trial_start", order_key: "e:1", order_id: null });
    expect(settled(custom).conversions[0]?.data.event_type).toBe("trial_start");
  });

  test("worth nothing, or without a value, is credited all the same", () => {
    expect(kinds(settled(sale({ value_minor: 0n })))).toEqual(["credited 0 to 21"]);
    expect(settled(sale({ value_minor: null, currency: null })).conversions[0]?.data).toMatchObject({
      value_minor: 0n,
      currency: "MXN",
    });
  });

  test("carries the time of the sale", () => {
    expect(settled(sale({ at: noon - dayMs, receivedAt: noon })).conversions[0]?.at).toBe(noon - dayMs);
  });

  test("may be of a product whose name is a property of every object", () => {
    expect(kinds(settled(sale({ product_id: "__proto__" }), sale({ product_id: "constructor" })))).toHaveLength(2);
  });
});

describe("a second copy", () => {
  test("counts never again, and is stored merged into the first, without a credit", () => {
    const first = sale();
    const { conversions, rows } = settled(first, pixelSale());
    expect(conversions).toHaveLength(1);
    expect(rows).toHaveLength(2);
    expect(rows[1]).toMatchObject({
      version: 1,
      merged_into: first.id,
      credit: {
        status: "unattributed",
        reason: "duplicate_order",
        partner_id: null,
        candidates: [{ outcome: "duplicate_order" }],
      },
    });
  });

  test("fills what the first one lacked, one version up", () => {
    const first = sale({ url: null, sid: null });
    const { conversions, rows } = settled(first, pixelSale({ url: "https://shop.example/thanks", sid: "s1" }));
    expect(conversions).toHaveLength(1);
    expect(rows.map((row) => [row.event.event_id === first.id, row.version, row.event.url, row.event.sid])).toEqual([
      [true, 1, null, null],
      [true, 2, "https://shop.example/thanks", "s1"],
      [false, 1, "https://shop.example/thanks", "s1"],
    ]);
  });

  test("never changes what the first one said", () => {
    const { rows } = settled(sale({ url: "https://shop.example/a" }), pixelSale({ url: "https://shop.example/b" }));
    expect(rows.map((row) => row.event.url)).toEqual(["https://shop.example/a", "https://shop.example/b"]);
  });

  test("of the server brings its money: the line is reversed and credited again", () => {
    const first = pixelSale();
    const { conversions, rows } = settled(first, sale({ value_minor: 116_00n }));
    expect(
      conversions.map(({ data }) => [data.kind, data.version, data.value_minor, data.refunded_minor, data.reason]),
    ).toEqual([
      ["credited", 1, 100_00n, 0n, null],
      ["reversed", 2, 100_00n, 100_00n, "changed_money"],
      ["credited", 1, 116_00n, 0n, null],
    ]);
    expect(conversions[0]?.data.conversion_id).toBe(conversions[1]?.data.conversion_id);
    expect(conversions[2]?.data.conversion_id).not.toBe(conversions[0]?.data.conversion_id);
    expect(conversions[2]?.data.event_id).toBe(first.id);
    expect(rows[1]).toMatchObject({ version: 2, event: { event_id: first.id, value_minor: 116_00n } });
  });

  test("of the pixel leaves the server's money alone", () => {
    expect(kinds(settled(sale(), pixelSale({ value_minor: 1_00n })))).toEqual(["credited 10000 to 21"]);
  });

  test("of another server amends the money, by a reversal and a credit under one cause", () => {
    const last = sale({ value_minor: 80_00n, quantity: 2, receivedAt: noon + 90 * hourMs });
    const { conversions, rows } = settled(pixelSale(), sale({ value_minor: 90_00n }), last);
    expect(conversions.map(({ data }) => [data.kind, data.value_minor, data.reason])).toEqual([
      ["credited", 100_00n, null],
      ["reversed", 100_00n, "changed_money"],
      ["credited", 90_00n, null],
      ["reversed", 90_00n, "amended"],
      ["credited", 80_00n, null],
    ]);
    expect(conversions.slice(3).map(({ data }) => data.cause_event_id)).toEqual([last.id, last.id]);
    expect(rows.at(-2)).toMatchObject({ version: 3, event: { value_minor: 80_00n, quantity: 2 } });
  });

  test("that amends after 48 hours brings its amount alone: no credit, no review and no other field", () => {
    const first = sale({ sid: null });
    const late = sale({
      value_minor: 90_00n,
      sid: "s1",
      partner: rival,
      band: "review",
      receivedAt: noon + 49 * hourMs,
    });
    const { conversions, rows } = settled(first, late);
    expect(conversions.at(-1)?.data).toMatchObject({ partner_id: 21, review: null, value_minor: 90_00n });
    expect(conversions.at(-1)?.data.known_at).toBe(noon);
    expect(rows[1]).toMatchObject({ version: 2, event: { event_id: first.id, sid: null, value_minor: 90_00n } });
  });

  test("of the amount that is known changes nothing, and an older one that comes after it does not either", () => {
    const same = sale({ quantity: 3, at: noon + 2 * hourMs, receivedAt: noon + 50 * hourMs });
    const older = sale({ value_minor: 90_00n, at: noon + hourMs, receivedAt: noon + 60 * hourMs });
    const { conversions, rows } = settled(sale(), same, older);
    expect(conversions).toHaveLength(1);
    expect(rows.map(({ version }) => version)).toEqual([1, 1, 1]);
  });

  test("of the pixel brings the money that the server did not know", () => {
    expect(netByPartner(settled(sale({ value_minor: null }), pixelSale({ value_minor: 70_00n })).conversions)).toEqual({
      21: 70_00n,
    });
  });

  test("with another currency reverses and credits again", () => {
    const { conversions } = settled(pixelSale({ currency: "USD" }), sale({ currency: "MXN" }));
    expect(conversions.map(({ data }) => `${data.kind} ${data.currency}`)).toEqual([
      "credited USD",
      "reversed USD",
      "credited MXN",
    ]);
  });

  test("that knows the segment reverses and credits again, for the segment chooses the contract", () => {
    const { conversions } = settled(pixelSale({ product_line: null }), sale({ product_line: "VD" }));
    expect(conversions.map(({ data }) => `${data.kind} ${data.segment}`)).toEqual([
      "credited null",
      "reversed null",
      "credited VD",
    ]);
  });

  test("with a valid credit takes an open line", () => {
    const first = sale({ partner: null });
    const copy = pixelSale({ partner: rival });
    const { conversions, rows } = settled(first, copy);
    expect(conversions.map(({ data }) => data)).toMatchObject([
      { kind: "credited", partner_id: rival, event_id: first.id, cause_event_id: copy.id, value_minor: 100_00n },
    ]);
    expect(rows[1]).toMatchObject({
      version: 2,
      event: { event_id: first.id },
      credit: { status: "attributed", partner_id: rival },
    });
    expect(rows[2]).toMatchObject({ merged_into: first.id, credit: { status: "unattributed" } });
  });

  test("under a fraud review takes an open line for review", () => {
    expect(settled(sale({ partner: null }), pixelSale({ band: "review" })).conversions[0]?.data.review).toBe(
      "fraud_review",
    );
  });

  test("without a credit leaves the line with its partner", () => {
    expect(kinds(settled(sale(), pixelSale({ partner: null })))).toEqual(["credited 10000 to 21"]);
  });

  test("of another partner never changes the partner, but puts the line under review", () => {
    const { conversions } = settled(sale(), pixelSale({ partner: rival }));
    expect(conversions.map(({ data }) => [data.kind, data.partner_id, data.reason, data.review])).toEqual([
      ["credited", partnerId, null, null],
      ["reversed", partnerId, "claimed_by_another_partner", null],
      ["credited", partnerId, null, "claimed_by_another_partner"],
    ]);
  });

  test("of a third partner changes nothing any more", () => {
    expect(settled(sale(), pixelSale({ partner: rival }), pixelSale({ partner: 23 })).conversions).toHaveLength(3);
  });

  test.each([
    ["48 hours after the first is merged", 48 * hourMs, 2],
    ["a millisecond later is only kept", 48 * hourMs + 1, 1],
  ])("%s", (_, afterMs, version) => {
    const first = sale({ partner: null, sid: null });
    const { conversions, rows } = settled(first, pixelSale({ sid: "s1", receivedAt: noon + afterMs }));
    expect(Math.max(...rows.filter((row) => row.event.event_id === first.id).map((row) => row.version))).toBe(version);
    expect(conversions).toHaveLength(version - 1);
    expect(rows.at(-1)?.merged_into).toBe(first.id);
  });

  test("that brings nothing changes no row that was remembered before a field was known", () => {
    const { attributed: row } = sale().data;
    const { import_id: _, ...event } = row.event;
    const before = { ...row, event: event as EventReceived };
    const copied = (copy: EventReceived) => {
      const money = moneyOf(before.event, copy, { has_server_money: true, has_currency: true, mayAmend: false });
      return mergeCopy(before, { ...row, event: copy }, { ...money, product_line: event.product_line }, false);
    };
    expect(copied(row.event)).toBe(before);
    expect(copied({ ...row.event, import_id: "imp_1" })).toMatchObject({
      version: 2,
      event: { import_id: "imp_1" },
    });
  });

  test("sent twice is answered with its record", () => {
    const copy = pixelSale({ sid: "s1" });
    const { rows } = settled(sale(), copy, copy);
    expect(rows.slice(1, 3)).toEqual(rows.slice(3, 5));
  });
});

describe("a refund", () => {
  test("without an amount takes back all of the order from the partner who holds it", () => {
    const returned = refund({ props: '{"reason":"item_returned"}', at: noon + dayMs });
    const { conversions, rows } = settled(sale(), sale({ product_id: "sku2", value_minor: 5_00n }), returned);
    expect(conversions.slice(2).map(({ data }) => data)).toMatchObject([
      {
        kind: "reversed",
        version: 2,
        product_id: "sku1",
        value_minor: 100_00n,
        refunded_minor: 100_00n,
        reason: "item_returned",
        cause_event_id: returned.id,
      },
      { kind: "reversed", version: 2, product_id: "sku2", value_minor: 5_00n, refunded_minor: 5_00n },
    ]);
    expect(rows[2]).toEqual(returned.data.attributed);
    expect(
      rows.slice(3).map(({ event, version, refunded_minor }) => [event.product_id, version, refunded_minor]),
    ).toEqual([
      ["sku1", 2, 100_00n],
      ["sku2", 2, 5_00n],
    ]);
  });

  test("carries the time of its sale", () => {
    const { conversions } = settled(sale({ at: noon - dayMs }), refund({ at: noon }));
    expect(conversions[1]).toMatchObject({ at: noon - dayMs, data: { occurred_at: noon - dayMs } });
  });

  test("of a part leaves the conversion credited, with what was refunded growing", () => {
    const { conversions } = settled(sale(), refund({ value_minor: 30_00n }), refund({ value_minor: 20_00n }));
    expect(conversions.map(({ data }) => [data.kind, data.version, data.value_minor, data.refunded_minor])).toEqual([
      ["credited", 1, 100_00n, 0n],
      ["reversed", 2, 30_00n, 30_00n],
      ["reversed", 3, 20_00n, 50_00n],
    ]);
  });

  test("of a product finds its line", () => {
    const { conversions } = settled(
      sale(),
      sale({ product_id: "sku2" }),
      refund({ product_id: "sku2", value_minor: 10_00n }),
    );
    expect(conversions[2]?.data).toMatchObject({ product_id: "sku2", value_minor: 10_00n });
  });

  test("without a product is spread over the lines by largest remainder", () => {
    const lines = ["a", "b", "c"].map((product_id) => sale({ product_id, value_minor: 10_00n }));
    const { conversions } = settled(...lines, refund({ value_minor: 10_00n }));
    expect(conversions.slice(3).map(({ data }) => data.value_minor)).toEqual([3_34n, 3_33n, 3_33n]);
  });

  test("is clamped to the sale", () => {
    expect(netByPartner(settled(sale(), refund({ value_minor: 150_00n })).conversions)).toEqual({ 21: 0n });
    expect(kinds(settled(sale(), refund(), refund({ value_minor: 1n })))).toEqual([
      "credited 10000 to 21",
      "reversed 10000 to 21",
    ]);
  });

  test("before its sale waits, and is settled when the sale comes", () => {
    expect(kinds(settled(refund({ value_minor: 30_00n }), sale()))).toEqual([
      "credited 10000 to 21",
      "reversed 3000 to 21",
    ]);
    expect(kinds(settled(refund(), sale(), sale({ product_id: "sku2" })))).toEqual([
      "credited 10000 to 21",
      "reversed 10000 to 21",
      "credited 10000 to 21",
      "reversed 10000 to 21",
    ]);
  });

  test("larger than the lines so far waits for the others with the rest", () => {
    const { conversions } = settled(sale(), refund({ value_minor: 150_00n }), sale({ product_id: "sku2" }));
    expect(netByPartner(conversions)).toEqual({ 21: 50_00n });
  });

  test("of an open line is remembered for the credit that comes later", () => {
    const { conversions } = settled(sale({ partner: null }), refund({ value_minor: 30_00n }), pixelSale());
    expect(conversions.map(({ data }) => `${data.kind} ${data.value_minor}`)).toEqual([
      "credited 10000",
      "reversed 3000",
    ]);
  });

  test("survives a change of money", () => {
    const { conversions } = settled(pixelSale(), refund({ value_minor: 30_00n }), sale({ value_minor: 120_00n }));
    expect(conversions.map(({ data }) => [data.kind, data.value_minor, data.refunded_minor])).toEqual([
      ["credited", 100_00n, 0n],
      ["reversed", 30_00n, 30_00n],
      ["reversed", 70_00n, 100_00n],
      ["credited", 120_00n, 0n],
      ["reversed", 30_00n, 30_00n],
    ]);
  });

  test("of all leaves nothing to credit again when the money changes", () => {
    expect(kinds(settled(pixelSale(), refund(), sale({ value_minor: 120_00n })))).toEqual([
      "credited 10000 to 21",
      "reversed 10000 to 21",
    ]);
  });

  test("in another currency than the sale finds nothing by amount, and everything when it is of all", () => {
    expect(kinds(settled(sale(), refund({ value_minor: 1_00n, currency: "USD" })))).toEqual(["credited 10000 to 21"]);
    expect(netByPartner(settled(sale(), refund({ currency: "USD" })).conversions)).toEqual({ 21: 0n });
  });

  test("without a currency is in that of the sale, whichever comes first", () => {
    const dollars = sale({ currency: "USD" });
    const yen = sale({ currency: "JPY", value_minor: 100n });
    const five = refund({ value_minor: 5_00n });
    expect(netByPartner(settled(dollars, five).conversions)).toEqual({ 21: 95_00n });
    expect(netByPartner(settled(five, dollars).conversions)).toEqual({ 21: 95_00n });
    expect(netByPartner(settled(yen, five).conversions)).toEqual({ 21: 95n });
    expect(netByPartner(settled(five, yen).conversions)).toEqual({ 21: 95n });
    expect(kinds(settled(dollars, refund({ value_minor: 5_00n, props: '{"currency":"MXN"}' })))).toHaveLength(1);
  });

  test("of a line worth nothing reverses it once", () => {
    const free = sale({ value_minor: 0n });
    expect(kinds(settled(free, refund(), refund()))).toEqual(["credited 0 to 21", "reversed 0 to 21"]);
    expect(kinds(settled(free, refund({ product_id: "sku1", value_minor: 5_00n })))).toEqual([
      "credited 0 to 21",
      "reversed 0 to 21",
    ]);
    expect(kinds(settled(free, refund({ value_minor: 5_00n })))).toEqual(["credited 0 to 21"]);
    expect(kinds(settled(refund(), free))).toEqual(["credited 0 to 21", "reversed 0 to 21"]);
  });

  test("of nothing takes nothing", () => {
    expect(kinds(settled(sale(), refund({ value_minor: 0n })))).toEqual(["credited 10000 to 21"]);
  });

  test("without a line is stored, and nothing else happens", () => {
    const { conversions, rows } = settled(refund());
    expect([conversions.length, rows.length]).toEqual([0, 1]);
  });

  test("sent twice takes back once", () => {
    const returned = refund({ value_minor: 30_00n });
    const { conversions } = settled(sale(), returned, returned);
    expect(new Set(conversions.map(({ id }) => id)).size).toBe(2);
    expect(conversions[1]).toEqual(conversions[2]);
  });

  test.each([
    ['{"reason":"chargeback"}', "chargeback"],
    ['{"reason":"changed my mind"}', "other"],
    ["{}", "other"],
    ["null", "other"],
    ["not json", "other"],
  ])("with props %s has the reason %s", (props, reason) => {
    expect(settled(sale(), refund({ props })).conversions[1]?.data.reason).toBe(reason);
  });
});

describe("the memory of an order", () => {
  test("comes back from its bytes as it was", () => {
    const outcomes = settle(sale({ value_minor: 2n ** 63n - 1n }), emptyOrder, null);
    if (outcomes.kind !== "emit") throw new Error("a sale is emitted");
    const more = settle(refund({ product_id: "later", value_minor: 7n }), outcomes.state, null);
    if (more.kind !== "emit") throw new Error("a refund is emitted");
    const [change] = bytesOf(order, ["k"], emptyOrder, more.state);
    expect(stateFrom(order, ["k"], [change?.value])).toEqual(more.state);
  });

  test("in a form that is not known is an error, never an empty order", () => {
    expect(() => stateFrom(order, ["k"], [Buffer.from('{"format":4}')])).toThrow(/format 4/);
  });
});
