// How a failure changes a letter: when it is retried, when it is parked, and which failures belong
// together.
import { describe, expect, test } from "vitest";
import {
  type Failure,
  indexFailures,
  isOver,
  type KnownLetters,
  type Letter,
  letterIdOf,
  MOST_ATTEMPTS,
  waitBefore,
} from "../../modules/log/dead-letters/letter.ts";
import { noon } from "../support/builders.ts";

const nothing: KnownLetters = { letters: [], failures: new Set() };
const never = () => 0;
const failure = (over: Partial<Failure> = {}): Failure => ({
  failure_id: `${over.stage ?? "analytics"} ${over.source?.offset ?? 5}`,
  kind: "s2s",
  root: "00000000-0000-8000-8000-00000000000a",
  subject: "00000000-0000-8000-8000-00000000000b",
  subject_of_before: null,
  stage: "analytics",
  code: "refused_by_store",
  message: "no",
  source: { topic: "events.attributed", partition: 1, offset: 5 },
  kept: { topic: "s2s.dlq", partition: 0, offset: 9 },
  event_id: "e1",
  order_id: null,
  client_id: 7,
  sender: null,
  is_stranger: false,
  first_failed_at: noon,
  failed_at: noon,
  ...over,
});
const at = (offset: number, over: Partial<Failure> = {}) =>
  failure({ source: { topic: "events.attributed", partition: 1, offset }, ...over });
const only = (known: KnownLetters, ...failures: readonly Failure[]): Letter => {
  const { letters } = indexFailures(known, failures, never);
  expect(letters).toHaveLength(1);
  return letters[0]!;
};
const knowing = (letter: Letter): KnownLetters => ({ letters: [letter], failures: new Set() });
const retrying = (letter: Letter): Letter => ({
  ...letter,
  state: "retrying",
  next_attempt_at: null,
  lease_until: noon + 60_000,
  sent_at: noon,
});

describe("the waits", () => {
  test("are 1, 5 and 25 minutes, 2 and 12 hours, then every 12 hours", () =>
    expect([0, 1, 2, 3, 4, 5, 9].map((attempts) => waitBefore(attempts, 0) / 60_000)).toEqual([
      1, 5, 25, 120, 720, 720, 720,
    ]));
  test("are up to a fifth longer, never shorter", () => {
    expect(waitBefore(0, 0.999_999)).toBeLessThanOrEqual(72_000);
    expect(waitBefore(0, 0.5)).toBe(66_000);
  });
});

describe("a letter", () => {
  test("waits a minute after its first failure", () =>
    expect(only(nothing, failure())).toMatchObject({ state: "waiting", attempts: 0, next_attempt_at: noon + 60_000 }));
  test("that fails again waits longer, and keeps its first failure and the place of its bytes", () => {
    const first = only(nothing, failure());
    const again = only(
      knowing(retrying(first)),
      at(6, { failed_at: noon + 70_000, kept: { topic: "s2s.dlq", partition: 0, offset: 77 } }),
    );
    expect(again).toMatchObject({
      letter_id: first.letter_id,
      state: "waiting",
      attempts: 1,
      next_attempt_at: noon + 70_000 + 300_000,
    });
    expect([again.first_failed_at, again.kept.offset]).toEqual([noon, 9]);
  });
  test("is parked at the tenth failed attempt, and parked again when a person tries it in vain", () => {
    let letter = only(nothing, failure());
    const states: string[] = [];
    for (let n = 1; n <= MOST_ATTEMPTS + 1; n += 1) {
      letter = only(knowing(retrying(letter)), at(5 + n));
      states.push(letter.state);
    }
    expect(states).toEqual([...Array.from({ length: 9 }, () => "waiting"), "parked", "parked"]);
    expect(letter).toMatchObject({ attempts: 11, next_attempt_at: null });
  });
  test("that was set aside waits for a person, each time", () => {
    const aside = only(nothing, failure({ code: "set_aside" }));
    expect(aside).toMatchObject({ state: "parked", next_attempt_at: null, attempts: 0 });
    expect(only(knowing(retrying(aside)), at(6, { code: "set_aside" }))).toMatchObject({
      state: "parked",
      attempts: 1,
    });
  });
  test("that had been taken for passed is opened again by a late failure", () => {
    const passed: Letter = {
      ...only(nothing, failure()),
      state: "reprocessed",
      next_attempt_at: null,
      closed_at: noon,
    };
    expect(only(knowing(passed), at(6))).toMatchObject({ state: "waiting", attempts: 1, closed_at: null });
  });
  test("that waits takes in a second copy of its event and waits on as before", () => {
    const first = only(nothing, failure());
    expect(only(knowing(first), at(6, { root: "00000000-0000-8000-8000-0000000000ff", code: "other" }))).toMatchObject({
      letter_id: first.letter_id,
      attempts: 0,
      next_attempt_at: first.next_attempt_at,
      code: "other",
    });
  });
  test("that was given up stays so; the same event sent again and refused is another letter", () => {
    const given: Letter = {
      ...only(nothing, failure()),
      state: "discarded",
      next_attempt_at: null,
      closed_at: noon,
      closed_by: "x",
      close_reason: "y",
    };
    expect(only(knowing(given), at(6))).toEqual(given);
    const other = only(knowing(given), at(7, { root: "00000000-0000-8000-8000-0000000000fe" }));
    expect([other.state, other.letter_id === given.letter_id]).toEqual(["waiting", false]);
  });
});

describe("a letter of a stranger that never becomes an event", () => {
  const garbage = failure({ kind: "pixel", stage: "pixel", code: "bad_json", is_stranger: true, subject: null });
  const DAYS_2 = 2 * 86_400_000;
  test("waits for two days, is not sent in between, and is over then", () => {
    const letter = only(nothing, garbage);
    expect(letter).toMatchObject({ state: "waiting", next_attempt_at: garbage.failed_at + DAYS_2 });
    expect(
      [letter.last_failed_at + DAYS_2 - 1, letter.last_failed_at + DAYS_2].map((at) => isOver(letter, at)),
    ).toEqual([false, true]);
  });
  test("waits for two days again after a person retried it, however often", () => {
    const tried: Letter = { ...only(nothing, garbage), state: "retrying", next_attempt_at: null, attempts: 20 };
    const again = { ...garbage, failure_id: "00000000-0000-8000-8000-0000000000ee", failed_at: noon + DAYS_2 };
    expect(only(knowing(tried), again)).toMatchObject({ state: "waiting", next_attempt_at: noon + 2 * DAYS_2 });
  });
  test.each([
    ["a sender with a credential", { is_stranger: false }],
    ["a client that may be onboarded", { code: "unknown_client" }],
  ])("is none of %s", (_, over) => {
    const letter = only(nothing, { ...garbage, ...over });
    expect(letter.next_attempt_at! - garbage.failed_at).toBeLessThan(120_000);
    expect(isOver(letter, noon + 10 * DAYS_2)).toBe(false);
  });
});

describe("failures", () => {
  test("indexed twice are one: produced twice, or read again", () => {
    const first = indexFailures(
      nothing,
      [failure(), failure({ kept: { topic: "s2s.dlq", partition: 0, offset: 10 } })],
      never,
    );
    expect([first.letters.length, first.failures.length]).toEqual([1, 1]);
    const known = { letters: first.letters, failures: new Set([failure().failure_id]) };
    expect(indexFailures(known, [failure()], never)).toEqual({ letters: [], failures: [] });
  });
  test("read again after their letter was given up are known already", () => {
    const copy = at(6, { root: "00000000-0000-8000-8000-0000000000fc" });
    const { letters } = indexFailures(nothing, [failure(), copy], never);
    const given: Letter = {
      ...letters[0]!,
      state: "discarded",
      next_attempt_at: null,
      closed_at: noon,
      closed_by: "x",
      close_reason: "y",
    };
    const known = { letters: [given], failures: new Set([failure().failure_id, copy.failure_id]) };
    expect([letters.length, indexFailures(known, [failure(), copy], never)]).toEqual([
      1,
      { letters: [], failures: [] },
    ]);
  });
  test("of two readers of one record are two letters", () =>
    expect(indexFailures(nothing, [failure(), failure({ stage: "product-sales" })], never).letters).toHaveLength(2));
  test("of unreadable bytes belong together by what travels in the header alone", () => {
    const [one, other] = [
      at(1, { subject: null }),
      at(2, { subject: null, root: "00000000-0000-8000-8000-0000000000fd" }),
    ];
    expect(indexFailures(nothing, [one, other], never).letters).toHaveLength(2);
    expect(indexFailures(nothing, [one, at(3, { subject: null })], never).letters).toHaveLength(1);
  });
  test("give the same id in every process", () => expect(letterIdOf(failure())).toMatch(/^dl_[0-9a-f]{32}$/));
});
