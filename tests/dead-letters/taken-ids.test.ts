// Several orders under one event id: all but the first are dead letters, each one of its own.
import { describe, expect, test } from "vitest";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import { failureOf } from "../../modules/log/dead-letters/failure.ts";
import { type Failure, indexFailures, type Letter } from "../../modules/log/dead-letters/letter.ts";
import { topics } from "../../topics.ts";
import { noon } from "../support/builders.ts";
import { inMemoryLetters } from "../support/in-memory-letters.ts";
import { purchase, refund, type Shop, shop, type Written } from "../support/shop.ts";

const wire = inMemoryWire(Object.values(topics));
const failuresOf = (made: Shop): Promise<readonly Failure[]> =>
  Promise.all(
    made
      .messages("s2s.dlq")
      .map((message, offset) => failureOf(wire, message, { topic: "s2s.dlq", partition: 0, offset }, noon)),
  );
const sold = (order_id: string, props: Written = {}): Written =>
  purchase({ event_id: "p1", did: `device of ${order_id}` }, { order_id, ...props });
const losersOf = async (...events: readonly Written[]): Promise<readonly Failure[]> => {
  const made = shop({}, { wire: () => wire });
  for (const event of events) await made.post([event]);
  return failuresOf(made);
};
const ordersOf = (letters: readonly Letter[]) => letters.map(({ order_id }) => order_id);
const indexed = (known: readonly Letter[], failures: readonly Failure[]): readonly Letter[] =>
  indexFailures({ letters: known, failures: new Set() }, failures, () => 0).letters;

describe("of several events under one id", () => {
  test("each order that lost it has a letter, which names it", async () => {
    const letters = indexed([], await losersOf(sold("o1"), sold("o2"), sold("o3")));
    expect(ordersOf(letters)).toEqual(["o2", "o3"]);
    for (const { order_id, message } of letters) expect(message).toContain(`this is a purchase of order ${order_id},`);
    expect(new Set(letters.map(({ root }) => root)).size).toBe(2);
  });

  test("so has each amount and each type of one order", async () => {
    const events = [sold("o1"), sold("o1", { revenue: "150.00" }), sold("o1", { revenue: "200.00" })];
    const given = refund({ event_id: "p1" }, { amount: "100.00" });
    expect(indexed([], await losersOf(...events, given))).toHaveLength(3);
  });

  test("one that is sent again has the letter of its first refusal, though its header is lost on the way", async () => {
    const failures = await losersOf(sold("o1"), sold("o2"), sold("o3"), sold("o3"), sold("o2"));
    const letters = inMemoryLetters();
    await letters.index(failures.slice(0, 2));
    await letters.claim(10, noon + 600_000, 60_000);
    await letters.index(failures.slice(2));
    expect(letters.all().map(({ order_id, attempts }) => [order_id, attempts])).toEqual([
      ["o2", 1],
      ["o3", 1],
    ]);
  });
});

describe("a letter of before, which its event id alone names,", () => {
  const ofBefore = ([failure]: readonly Failure[], order_id: string | null): readonly Letter[] =>
    indexed([], [failure!]).map((letter) => ({ ...letter, subject: failure!.subject_of_before, order_id }));

  test("is that of its order's next refusal, and of no other order's", async () => {
    const [first, second, again] = await losersOf(sold("o1"), sold("o2"), sold("o3"), sold("o2"));
    const known = ofBefore([first!], "o2");
    expect(indexed(known, [again!]).map(({ letter_id }) => letter_id)).toEqual([known[0]!.letter_id]);
    expect(ordersOf(indexed(known, [second!]))).toEqual(["o3"]);
    expect(indexed(known, [second!])[0]!.letter_id).not.toBe(known[0]!.letter_id);
  });

  test("is found, too, if it names no order", async () => {
    const [first, again] = await losersOf(sold("o1"), sold("o2"), sold("o2"));
    const known = ofBefore([first!], null);
    expect(indexed(known, [again!]).map(({ letter_id }) => letter_id)).toEqual([known[0]!.letter_id]);
  });
});
