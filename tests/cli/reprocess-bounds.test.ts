// A window of some seconds reads what its orders need, however much the log holds, and comes to the
// result of a world in which the rules had been right.
import { expect, test } from "vitest";
import type { ReferenceRows, Rule } from "../../domain/reference/reference.ts";
import { decisionOnLine } from "../../processors/settle/decision-claim.ts";
import type { EventAttributed } from "../../schemas/generated.ts";
import type { UnixMs } from "../../stream/flow.ts";
import { topics } from "../../topics.ts";
import { clientId, contract, crediting, dayMs, hourMs, noon, partner, rule } from "../support/builders.ts";
import { type Reprocessed, reprocessed } from "../support/reprocessing.ts";
import { click, clickBefore, pageView, purchase, refund } from "../support/shop.ts";

const [wrong, good] = [21, 22];
const everybody: Partial<ReferenceRows> = {
  partners: [wrong, good].map((partner_id) => partner({ partner_id })),
  contracts: [wrong, good].map((partner_id) => contract({ contract_id: 40 + partner_id, partner_id })),
};
const mistaken = [
  rule({ rule_id: 51, when: { field: "coupon", op: "eq", value: "TEN" }, ...crediting(wrong) }),
  rule({ rule_id: 52, when: { field: "url.path", op: "eq", value: "/a" }, ...crediting(wrong) }),
];
const corrected = mistaken.map(
  (one): Rule => ({ ...one, version: 2, recorded_at: noon + 40 * dayMs, ...crediting(good) }),
);
const before: Partial<ReferenceRows> = { ...everybody, rules: mistaken };
const after: Partial<ReferenceRows> = { ...everybody, rules: [...mistaken, ...corrected] };

/** Half a minute, in which o1, o2 and a visit were received. */
const window = { from: noon - 14_000, to: noon + 14_000, now: noon + 60 * dayMs };
const minute = 60_000;
/** The log was away, and the edge sent these when it was back. */
const late = new Set(["sale-o2", "visit-a"]);
const lateBy = (world: Reprocessed) => {
  const ids = new Set(
    [...world.current().values()]
      .filter(({ event }) => late.has(event.sender_event_id!))
      .map(({ event }) => event.event_id),
  );
  return (eventId: string): number => (ids.has(eventId) ? 5 * hourMs + 12 * minute : 0);
};

const sell = (world: Reprocessed, order: string, name: string, at: UnixMs, did: string): Promise<void> =>
  world.post([purchase({ event_id: name, did, ts: at }, { order_id: order, coupon: "TEN" })], { receivedAt: at });

/** What happened, with visits every `visitsEvery` of 60 days. */
const happened = async (rows: Partial<ReferenceRows>, visitsEvery: number): Promise<Reprocessed> => {
  const world = reprocessed(rows);
  const visits: { readonly at: UnixMs; readonly n: number }[] = [];
  for (let at = noon - 30 * dayMs, n = 0; at < noon + 30 * dayMs; at += visitsEvery, n++) visits.push({ at, n });
  const visit = async (isBefore: boolean): Promise<void> => {
    for (const { at, n } of visits.filter((one) => one.at < noon === isBefore))
      await world.post([pageView({ event_id: `v${n}`, did: `d${n % 7}`, ts: at })], { receivedAt: at });
  };
  const clicked = noon - 29 * dayMs;
  await world.post([click(clickBefore(29 * dayMs), { event_id: "click", did: "buyer", ts: clicked })], {
    receivedAt: clicked,
  });
  await visit(true);
  await sell(world, "o1", "copy-before", noon - 40 * hourMs, "server");
  await sell(world, "o1", "sale-o1", noon, "buyer");
  await sell(world, "o2", "sale-o2", noon + 1_000, "buyer");
  await world.post([pageView({ event_id: "visit-a", did: "reader", ts: noon, url: "https://shop.example/a" })], {
    receivedAt: noon + 2_000,
  });
  await sell(world, "o2", "copy-after", noon + 30 * hourMs, "server");
  await sell(world, "o3", "sale-o3", noon + 2 * hourMs, "buyer");
  await visit(false);
  await world.post([refund({ event_id: "back", ts: noon + 20 * dayMs }, { order_id: "o2", amount: "30.00" })], {
    receivedAt: noon + 20 * dayMs,
  });
  const at = noon + 25 * dayMs;
  const said = { kind: "release", actor: "user:ana", partner_id: null, campaign_id: null, reason: "by phone" } as const;
  await world.send(topics.claims, {
    data: decisionOnLine(
      clientId,
      { event_id: "00000000-0000-8000-8000-000000000012", t: "purchase", order_id: "o2", product_id: "sku1" },
      {
        ...said,
        decision_id: "00000000-0000-8000-8000-000000000012",
        at,
        flags: [],
        review_from: 101,
        reject_from: 101,
      },
    ),
    at,
  });
  return world;
};

const creditsOf = (world: Reprocessed): readonly (readonly [string, EventAttributed["credit"]])[] =>
  [...world.current().values()]
    .filter(({ event }) => ["sale-o2", "visit-a"].includes(event.sender_event_id!))
    .map(
      ({ event, credit }) =>
        [event.sender_event_id!, { ...credit, rule_version: null, reference_as_of: null }] as const,
    )
    .map(([name, credit]) => [name, { ...credit, candidates: credit.candidates.map((one) => ({ ...one })) }] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1));

const read = async (world: Reprocessed) => {
  const messages = new Map<string, number>();
  const difference = await world.difference(after, {
    ...window,
    lateBy: lateBy(world),
    onMessage: (topic) => messages.set(topic, (messages.get(topic) ?? 0) + 1),
  });
  return { difference, messages };
};

test("half a minute is read in the same few messages, however many the log holds around it", async () => {
  const [few, many] = [await happened(before, 12 * hourMs), await happened(before, 3 * hourMs)];
  for (const world of [few, many]) world.learn(after);
  expect(many.messages(topics.eventsRaw.name).length).toBeGreaterThan(480);
  const [ofFew, ofMany] = [await read(few), await read(many)];
  // The five hours and some minutes in which the late ones may lie hold some visits.
  expect(ofMany.messages.get(topics.eventsRaw.name)).toBeLessThan(15);
  expect(ofMany.messages.get(topics.claims.name)).toBe(ofFew.messages.get(topics.claims.name));
  expect(ofMany.messages.get(topics.claims.name)).toBe(6);
  expect(ofMany.difference.cost).toMatchObject({ events: 3, orders: 2, claims: 6, copies: 2 });
  expect(ofMany.difference.changes.map(({ decision_id }) => decision_id)).toEqual(
    ofFew.difference.changes.map(({ decision_id }) => decision_id),
  );
});

test("and the result is that of a world with the right rules, by what came long before and after it", async () => {
  const world = await happened(before, 12 * hourMs);
  const right = await happened(
    { ...everybody, rules: mistaken.map((one) => ({ ...one, ...crediting(good) })) },
    12 * hourMs,
  );
  world.learn(after);
  const { difference } = await read(world);
  expect(difference.changes.map(({ sender_event_id }) => sender_event_id).sort()).toEqual(["sale-o2", "visit-a"]);
  expect(difference.lines).toMatchObject({ lines: 1, not_read: 0, not_settled: 0 });
  await world.write(difference);
  expect(creditsOf(world)).toEqual(creditsOf(right));
  // A click of a month before is named among what the sale was not credited for.
  expect(creditsOf(world)[0]![1].candidates.map(({ method }) => method)).toContain("click");
  expect(world.earnings()).toMatchObject({ [`${good} 2026-6 MXN`]: 7_00n });
  expect((await read(world)).difference.changes).toEqual([]);
});
