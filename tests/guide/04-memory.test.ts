// Chapter 4: memory. What a stage remembers, and why every event counts once, however often it
// comes.
import { describe, expect, test } from "vitest";
import { letterHeaders } from "../../stream/dead-letters.ts";
import { topics } from "../../topics.ts";
import { hourMs, noon, secondMs } from "../support/builders.ts";
import { click, clickBefore, purchase, refund, type Shop, shop, type Written } from "../support/shop.ts";

// The log delivers at least once: a worker that dies between its work and its commit leaves a batch
// that is read again. Senders retry and operators rewind. So events do come twice, and the question
// is what the second time does.

/** The messages of a topic as bytes, without repeats. */
const contents = ({ messages }: Shop, topic: { readonly name: string }): ReadonlySet<string> =>
  new Set(messages(topic.name).map(({ value }) => value!.toString("hex")));
const recalled = ({ counts }: Shop, stage: string): number =>
  counts
    .flatMap(({ stages }) => stages.filter((counted) => counted.stage === stage))
    .reduce((sum, counted) => sum + counted.recalled, 0);
/** The amount that the partner is owed in the end. */
const balance = ({ entries }: Shop): bigint => entries().reduce((sum, { amount_minor }) => sum + amount_minor, 0n);

const clicked = clickBefore(hourMs);
const sale = purchase({ svc_click_id: clicked });

describe("fast memory explains", () => {
  // attribute remembers the last clicks of each device, in Redis. They earn nothing; they answer
  // the partner who asks "they clicked, why no credit?"
  test("a purchase that lost its click id on the way earns nothing, but its click is named", async () => {
    const { post, stored } = shop();
    await post([click(clicked, { ts: noon - hourMs }), purchase()]);
    expect(stored().at(-1)!.credit).toMatchObject({
      status: "unattributed",
      reason: "no_click",
      candidates: [{ method: "click", reference: clicked, partner_id: 21, outcome: "not_carried" }],
    });
  });

  // A remembered value has a version for each event that changed it, and an event reads the newest
  // version before its own place in the log. So a stage that is rewound reads its past unchanged,
  // without anything that it learnt later.
  test("read again, a purchase does not meet a click that came after it", async () => {
    const made = shop();
    await made.post([purchase()]);
    await made.post([click(clicked, { ts: noon - hourMs })], { receivedAt: noon + secondMs });
    await made.rewind("attribute");
    expect(made.messages("claims")).toHaveLength(2);
    expect(contents(made, topics.claims).size).toBe(1);
    expect(made.read(topics.claims).map(({ data }) => data.attributed.credit.candidates)).toEqual([[], []]);
  });
});

describe("durable memory decides once", () => {
  // Where money is decided, the outcome of each event is remembered too, in Postgres and before it
  // is produced (tests/guarantees/order.test.ts). A repeated event gets its recorded outcome byte
  // for byte, and nothing is decided again.
  test("the same purchase sent twice leaves the same bytes twice, and one conversion", async () => {
    const made = shop();
    await made.post([sale]);
    await made.post([sale], { receivedAt: noon + hourMs });
    expect(made.messages("claims")).toHaveLength(2);
    expect([contents(made, topics.conversions).size, contents(made, topics.ledgerEntries).size]).toEqual([1, 1]);
    expect(recalled(made, "settle")).toBe(1);
  });
  // Under another id this would be a second copy, whose amount would win because it comes from the
  // server (below). Under the same id it is an error of the sender, and the copy is set aside.
  test("sent again under its id with another amount, it is still what it was", async () => {
    const made = shop();
    await made.post([{ ...sale, event_id: "e1" }]);
    await made.post([purchase({ svc_click_id: clicked, event_id: "e1" }, { revenue: "9999.00" })]);
    expect(made.conversions().map(({ kind, value_minor }) => [kind, value_minor])).toEqual([["credited", 100_00n]]);
    const letters = [...made.messages("s2s.dlq"), ...made.messages("pixel.dlq")];
    expect(letters.map(({ headers }) => String(headers[letterHeaders.code]))).toEqual(["id_conflict"]);
  });
  // A page may send anything under any id, so an id of a page is never that of a server. Both are
  // copies of one line of the order, and the server knows what was paid.
  test("an id that a page used first is free for the server, whose amount counts", async () => {
    const made = shop();
    await made.post([purchase({ event_id: "e1", svc_click_id: clicked }, { revenue: "0.01" })], { isClientSide: true });
    await made.post([{ ...sale, event_id: "e1" }]);
    expect(made.conversions().map(({ kind, value_minor }) => [kind, value_minor])).toEqual([
      ["credited", 1n],
      ["reversed", 1n],
      ["credited", 100_00n],
    ]);
    expect([...made.messages("s2s.dlq"), ...made.messages("pixel.dlq")]).toEqual([]);
  });
  // Rows are keyed by these ids, so writing them twice leaves the same table as writing them once.
  // That is all that "counts once" needs.
  test("every chain sent back to its first message writes what it had written", async () => {
    const made = shop();
    await made.post([click(clicked, { ts: noon - hourMs }), sale, refund({ ts: noon + 1 }, { amount: "40.00" })]);
    const ends = [topics.eventsAttributed, topics.conversions, topics.ledgerEntries];
    const before = ends.map((topic) => contents(made, topic));
    for (const stage of ["enrich", "score", "attribute", "settle", "commission"]) await made.rewind(stage);
    expect(ends.map((topic) => contents(made, topic))).toEqual(before);
  });
});

describe("the life of an order", () => {
  // Two doors may report one sale: the browser on the thank-you page, and the shop's server. They
  // are two events of one order line, so settle merges the second into the first: it is not
  // counted, but it may add what the first one lacked.
  test("a second copy is merged: one conversion, and the credit that only the browser knew of", async () => {
    const made = shop();
    await made.post([purchase({ did: "server" })]);
    await made.post([sale], { receivedAt: noon + secondMs, isClientSide: true });
    expect(made.conversions()).toMatchObject([{ kind: "credited", partner_id: 21, value_minor: 100_00n }]);
    const [first, ...later] = made.stored();
    expect(first).toMatchObject({ version: 1, credit: { reason: "no_click" } });
    expect(later).toMatchObject([
      { version: 2, event: { event_id: first!.event.event_id }, credit: { method: "click" }, merged_into: null },
      { version: 1, merged_into: first!.event.event_id },
    ]);
  });

  // Different devices write to different partitions, so a refund may arrive before its sale. It
  // then waits in the order until there is something to take back.
  test("a refund before its sale waits for it", async () => {
    const made = shop();
    await made.post([refund()]);
    expect(made.conversions()).toEqual([]);
    await made.post([sale]);
    expect(made.conversions().map(({ kind, version }) => [kind, version])).toEqual([
      ["credited", 1],
      ["reversed", 2],
    ]);
    expect(balance(made)).toBe(0n);
  });

  const part = (amount: string, ts: number): Written => refund({ ts }, { amount });
  const [little, more] = [part("25.00", noon + 1), part("15.00", noon + 2)];
  test.each([
    ["sale, little, more", [sale, little, more]],
    ["little, sale, more", [little, sale, more]],
    ["more, little, sale", [more, little, sale]],
    ["little, sale, little again, more, sale again", [little, sale, little, more, sale]],
  ])("in whatever order they come, a tenth of what was kept is owed: %s", async (_order, events) => {
    const made = shop();
    for (const [n, event] of events.entries()) await made.post([event], { receivedAt: noon + n });
    const owed = new Map(made.entries().map(({ entry_id, amount_minor }) => [entry_id, amount_minor]));
    expect([...owed.values()].reduce((sum, minor) => sum + minor, 0n)).toBe(6_00n);
  });
});
