// Refunds that a person enters: of an order, of one of its products, or of an event without an
// order.
import { describe, expect, test } from "vitest";
import { claimOf, linesOf, type RefundDecision, type Subject } from "../../modules/money/decisions/decide.ts";
import { leftOf, refundable } from "../../modules/money/decisions/refundable.ts";
import { orderKeyOf } from "../../processors/attribute/claims.ts";
import { conflict } from "../../processors/settle/conflict.ts";
import { emptyOrder, type Line, type OrderState } from "../../processors/settle/order.ts";
import { settle } from "../../processors/settle/settle.ts";
import type { Claim, Conversion, EventAttributed } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { topics } from "../../topics.ts";
import { clientId, hourMs, noon, recorded } from "../support/builders.ts";
import { sale, refund as shopRefund } from "../support/money-builders.ts";

const UUID = "00000000-0000-8000-8000-0000000000aa";
const settling = () => {
  let state: OrderState = emptyOrder;
  const rows: EventAttributed[] = [];
  const conversions: Conversion[] = [];
  return {
    meet: (claim: Recorded<Claim>) => {
      const outcome = settle(claim, state, null);
      if (outcome.kind !== "emit") throw new Error(`settle emits, this was a ${outcome.kind}`);
      ({ state } = outcome);
      const written = outcome.events.flatMap((one) => (one.output === "attributed" ? [one.data] : []));
      rows.push(...written);
      conversions.push(...outcome.events.flatMap((one) => (one.output === "conversions" ? [one.data] : [])));
      return written.map((row) => recorded(topics.eventsAttributed, row));
    },
    rows,
    conversions,
    now: () => state,
    left: () => leftOf(state.lines).map(({ minor, currency }) => `${minor} ${currency}`),
  };
};
const decided = (subject: Subject, over: Partial<RefundDecision> = {}): Recorded<Claim> => {
  const said = { decision_id: UUID, client_id: clientId, actor: "user:1", reason: "sent back", at: noon + hourMs };
  const data = claimOf({
    ...said,
    subject,
    kind: "refund",
    amount: null,
    cause: "item_returned",
    refund_id: null,
    ...over,
  });
  return recorded(topics.claims, data, { at: noon + hourMs, receivedAt: noon + hourMs });
};
const pesos = (minor: bigint) => ({ minor, currency: "MXN" });

describe("what has no order", () => {
  const alone = { order_id: null, product_id: null, product_line: null };
  test.each([
    ["a lead", { t: "lead_submit", lead_key: "k1", ...alone }],
    ["an install", { t: "install", did: "phone", ...alone }],
    ["a custom sale", { t: "custom", custom_name: "trial", ...alone }],
  ])("%s is given back by its event, in parts, and what is left once more", (_, given) => {
    const settled = settling();
    const event_id = "00000000-0000-8000-8000-000000000001";
    const first = sale({ event_id, sender_event_id: "sent-1", ...given });
    const order_key = orderKeyOf(first.data.attributed.event);
    settled.meet({ ...first, data: { ...first.data, order_key } });
    const line = { order_key, event: first.data.attributed.event, copy: null };
    settled.meet(decided({ line }, { amount: pesos(30_00n) }));
    expect(settled.left()).toEqual(["7000 MXN"]);
    settled.meet(decided({ line }, { decision_id: UUID.replace("aa", "bb") }));
    expect(settled.left()).toEqual(["0 MXN"]);
    expect(settled.conversions.map(({ kind, value_minor, reason }) => [kind, value_minor, reason])).toEqual([
      ["credited", 100_00n, null],
      ["reversed", 30_00n, "item_returned"],
      ["reversed", 70_00n, "item_returned"],
    ]);
    const { event } = settled.rows.find((row) => row.event.event_id === UUID)!;
    expect([event.t, event.order_id, event.value_minor, JSON.parse(event.props).refunded_event_id]).toEqual([
      ...["refund", null, 30_00n, "sent-1"],
    ]);
  });
});

describe("an order", () => {
  const order = { order_id: "o1" };
  const twoLines = () => {
    const settled = settling();
    settled.meet(sale({ product_id: "a" }));
    settled.meet(sale({ product_id: "b", value_minor: 50_00n }));
    return settled;
  };

  test("is given back whole, or one product of it", () => {
    const [whole, one] = [twoLines(), twoLines()];
    whole.meet(decided(order));
    expect(whole.left()).toEqual(["0 MXN"]);
    one.meet(decided({ ...order, product_id: "b" }));
    expect(one.now().lines.map(({ product_key, is_returned }) => [product_key, is_returned])).toEqual([
      ["a", false],
      ["b", true],
    ]);
  });

  test("has one refund, though the shop reports the same one under its id", () => {
    const settled = twoLines();
    settled.meet(decided(order, { amount: pesos(20_00n), refund_id: "R-7" }));
    settled.meet(
      shopRefund({
        value_minor: 20_00n,
        currency: "MXN",
        props: JSON.stringify({ currency: "MXN", refund_id: "R-7" }),
      }),
    );
    expect(settled.left()).toEqual(["13000 MXN"]);
  });

  test("made again the refund is the same one, at another time too", () => {
    const settled = twoLines();
    const first = decided(order, { amount: pesos(20_00n) });
    const outputs = settled.meet(first);
    expect(conflict(decided(order, { amount: pesos(20_00n), at: noon + 2 * hourMs }), outputs)).toBeNull();
    expect(conflict(decided(order, { amount: pesos(21_00n) }), outputs)).toMatchObject({ reason: "id_conflict" });
  });
});

describe("a copy of a whole order", () => {
  const [first, copy] = [sale({ product_id: "a" }), sale({ product_id: null, value_minor: 150_00n })];
  const both = () => {
    const settled = settling();
    settled.meet(first);
    settled.meet(sale({ product_id: "b", value_minor: 50_00n }));
    settled.meet(copy);
    return settled;
  };
  const event = first.data.attributed.event;
  const subject = { line: { order_key: "o:o1", event, copy: copy.data.attributed.event } };

  test("names each of its lines, not the first alone", () => {
    const { lines } = both().now();
    expect(linesOf(subject, lines)).toEqual(lines);
    expect(linesOf({ line: { ...subject.line, copy: null } }, lines)).toEqual([lines[0]]);
  });

  test("that a line has forgotten names the line of its first copy", () => {
    const forgotten = both()
      .now()
      .lines.map((line) => ({ ...line, copied: [] }));
    expect(linesOf(subject, forgotten)).toEqual([forgotten[0]]);
  });

  test("takes from each of them, in one refund and in one decision", () => {
    const settled = both();
    settled.meet(decided(subject, { amount: pesos(30_00n) }));
    expect(settled.now().lines.map(({ refunded_minor }) => refunded_minor)).toEqual([20_00n, 10_00n]);
    const said = { decision_id: UUID.replace("aa", "cc"), client_id: clientId, actor: "user:1", reason: "a mistake" };
    const at = noon + 2 * hourMs;
    const data = claimOf({ ...said, at, subject, kind: "take_back", partner_id: null, campaign_id: null });
    settled.meet(recorded(topics.claims, data, { at, receivedAt: at }));
    expect(settled.now().lines.map(({ partner_id }) => partner_id)).toEqual([null, null]);
  });
});

describe("what can be given back", () => {
  const line = (over: Partial<Line>): Line =>
    ({ value_minor: 100_00n, refunded_minor: 0n, currency: "MXN", is_returned: false, ...over }) as Line;
  const asked = (lines: readonly Line[], given: Omit<Parameters<typeof refundable>[1], "decision_id"> = {}) => {
    const answer = refundable({ lines, refunds: [] }, { decision_id: UUID, ...given });
    return answer.kind === "ok" ? (answer.amount?.minor ?? "all") : [answer.field, answer.code];
  };
  const [pesosLine, yenLine] = [line({}), line({ currency: "JPY", value_minor: 500n })];
  test.each([
    ["all of it", [pesosLine], {}, "all"],
    ["an amount in the currency of the sale", [pesosLine], { amount: "99.99" }, 99_99n],
    ["the last cent", [line({ refunded_minor: 99_99n })], { amount: "0.01" }, 1n],
    ["no more than is left", [line({ refunded_minor: 99_99n })], { amount: "0.02" }, [null, "refund_exceeds"]],
    ["nothing twice", [line({ is_returned: true })], {}, [null, "already_refunded"]],
    ["nothing of nothing", [pesosLine], { amount: "0.00" }, ["amount", "bad_amount"]],
    ["no negative amount", [pesosLine], { amount: "-1" }, ["amount", "bad_amount"]],
    ["no fraction of a cent", [pesosLine], { amount: "1.001" }, ["amount", "bad_amount"]],
    ["no fraction of a yen", [yenLine], { amount: "1.5" }, ["amount", "bad_amount"]],
    ["no other currency", [pesosLine], { amount: "1", currency: "USD" }, ["currency", "not_of_sale"]],
    ["of several currencies one that is named", [pesosLine, yenLine], { amount: "1" }, ["currency", "required"]],
    ["and that one", [pesosLine, yenLine], { amount: "500", currency: "JPY" }, 500n],
    ["a line that is worth nothing", [line({ value_minor: 0n })], {}, "all"],
  ])("%s", (_, lines, given, expected) => expect(asked(lines, given)).toEqual(expected));

  test("a refund that was taken already stays what it is", () => {
    const settled = settling();
    settled.meet(sale());
    settled.meet(decided({ order_id: "o1" }, { amount: pesos(100_00n) }));
    const given = { decision_id: UUID, amount: "100.00" };
    expect(refundable(settled.now(), given)).toEqual({ kind: "ok", amount: pesos(100_00n) });
    expect(refundable(settled.now(), { ...given, decision_id: "another" })).toMatchObject({ code: "already_refunded" });
  });
});
