// How far an event is trusted, and why.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { clickKeys, clickKeysOf } from "../../processors/attribute/click-keys.ts";
import { clickIdKey, mint } from "../../processors/click-id.ts";
import { reference } from "../../processors/reference.ts";
import { score } from "../../processors/score/score.ts";
import { type Thresholds, thresholdsFacts } from "../../processors/score/thresholds.ts";
import { type Enrichment, type EventReceived, type Fraud, topics } from "../../schemas/generated.ts";
import { client, enriched, linkId, longAgo, noon, reads, recorded, referenceWith } from "../support/builders.ts";

const key = clickIdKey("a secret of these tests", 1);
const keys = clickKeysOf([key]);
const usual: Thresholds = { review: 40, reject: 70, clickOf: keys.clickOf };
const clickBefore = (elapsedMs: number): string => mint(linkId, noon - elapsedMs, new Uint8Array(8), key);

const fraudOf = (event: Partial<EventReceived>, enrichment: Partial<Enrichment> = {}, facts = usual): Fraud => {
  const outcome = score(recorded(topics.eventsEnriched, enriched(event, enrichment)), null, facts);
  if (outcome.kind !== "emit" || outcome.events.length !== 1) throw new Error(`score emits one event, not ${outcome.kind}`);
  expect(outcome.events[0]!.data).toMatchObject(enriched(event, enrichment));
  return outcome.events[0]!.data.fraud;
};

test("an ordinary event is trusted, without a reason", () => expect(fraudOf({})).toEqual({ score: 0, band: "ok", reasons: [] }));

describe("a bot's user agent", () => {
  test("holds for review and shows itself", () =>
    expect(fraudOf({ ua: "Googlebot/2.1" }, { is_bot: true })).toEqual({
      score: 60,
      band: "review",
      reasons: [{ code: "ua_bot", weight: 60, evidence: "Googlebot/2.1" }],
    }));
});

describe("a purchase after its click", () => {
  test("within 3 s is suspect", () =>
    expect(fraudOf({ t: "purchase", click_id: clickBefore(2_999) })).toMatchObject({
      score: 30,
      band: "ok",
      reasons: [{ code: "click_to_purchase", weight: 30, evidence: "3.0 s after the click" }],
    }));
  test("after 3 s is not", () => expect(fraudOf({ t: "purchase", click_id: clickBefore(3_000) }).score).toBe(0));
  test("by a bot is refused", () =>
    expect(fraudOf({ t: "purchase", click_id: clickBefore(500) }, { is_bot: true })).toMatchObject({ score: 90, band: "reject" }));
  test("of an app is another matter", () => expect(fraudOf({ t: "ext_purchase", click_id: clickBefore(500) }).score).toBe(0));
});

describe("an install after its click", () => {
  test("within 2 s is refused", () =>
    expect(fraudOf({ t: "install", click_id: clickBefore(1_999) })).toMatchObject({
      score: 100,
      band: "reject",
      reasons: [{ code: "click_to_install", evidence: "2.0 s after the click" }],
    }));
  test("within 10 s is held", () =>
    expect(fraudOf({ t: "install", click_id: clickBefore(2_000) })).toMatchObject({ score: 40, band: "review" }));
  test("after 10 s is not suspect", () => expect(fraudOf({ t: "install", click_id: clickBefore(10_000) }).score).toBe(0));
});

describe("a click id proves nothing", () => {
  test("with a bad MAC", () => {
    const id = clickBefore(500);
    const forged = id.slice(0, -1) + (id.endsWith("A") ? "B" : "A");
    expect(fraudOf({ t: "install", click_id: forged }).score).toBe(0);
  });
  test("of another service", () => expect(fraudOf({ t: "install", click_id: "gclid-123" }).score).toBe(0));
  test.each(["install", "purchase"])("about the %s before it", (t) => expect(fraudOf({ t, click_id: clickBefore(-1) }).score).toBe(0));
});

test("the client draws the lines", () => {
  expect(fraudOf({}, { is_bot: true }, { ...usual, review: 61 }).band).toBe("ok");
  expect(fraudOf({}, { is_bot: true }, { ...usual, review: 60 }).band).toBe("review");
  expect(fraudOf({}, { is_bot: true }, { ...usual, reject: 60 }).band).toBe("reject");
});

test("a score is 0 to 100 and the sum of its reasons below that, and the same event always has the same", () =>
  fc.assert(
    fc.property(
      fc.constantFrom("page_view", "purchase", "install", "click"),
      fc.boolean(),
      fc.option(fc.integer({ min: -5_000, max: 20_000 })),
      (t, isBot, elapsedMs) => {
        const event = { t, click_id: elapsedMs === null ? null : clickBefore(elapsedMs) };
        const fraud = fraudOf(event, { is_bot: isBot });
        expect(fraud).toEqual(fraudOf(event, { is_bot: isBot }));
        expect(fraud.score).toBeGreaterThanOrEqual(0);
        expect(fraud.score).toBe(
          Math.min(
            100,
            fraud.reasons.reduce((sum, { weight }) => sum + weight, 0),
          ),
        );
      },
    ),
  ));

test("thresholds are those in force at event time, and a client that is not known has the usual ones", async () => {
  const strict = referenceWith({
    clients: [client(), client({ fraud_review: 10, fraud_reject: 20, valid_from: noon, recorded_at: longAgo + 1 })],
  });
  const batch = [noon - 1, noon].map((at) => recorded(topics.eventsEnriched, enriched(), { at, receivedAt: noon }));
  const stranger = recorded(topics.eventsEnriched, enriched({ client_id: 999 }));
  const at = await thresholdsFacts.load([...batch, stranger], reads([reference, strict], [clickKeys, keys]));
  expect([...batch, stranger].map(at).map(({ review, reject }) => [review, reject])).toEqual([
    [40, 70],
    [10, 20],
    [40, 70],
  ]);
});
