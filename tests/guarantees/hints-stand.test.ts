// Law R14: a hint is read once and recorded on the event, so a credit does not change when the hint
// would have another value later.

import { Redis } from "ioredis";
import { afterAll, expect, test } from "vitest";
import { clickIdKey, mint } from "../../domain/click-id.ts";
import { reference } from "../../domain/reference/reference.ts";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import { redisHints, redisIdentityClicks } from "../../modules/catalog/facts/hints.ts";
import { clickKeys, clickKeysOf, identityClicks } from "../../processors/attribute/facts.ts";
import { identityKeys, identityKeysOf } from "../../processors/enrich/facts.ts";
import { places, placesOf } from "../../processors/enrich/places.ts";
import { hints } from "../../processors/score/facts.ts";
import type { EventReceived } from "../../schemas/generated.ts";
import { redisStore } from "../../sinks/stores/redis.ts";
import { type VelocityRow, velocity } from "../../sinks/velocity/table.ts";
import { drive } from "../../stream/testing/drive.ts";
import { topics } from "../../topics.ts";
import { pipeline } from "../../topology.ts";
import {
  client,
  hourMs,
  link,
  linkId,
  noon,
  partner,
  purchase,
  reads,
  received,
  referenceWith,
} from "../support/builders.ts";
import { sharedStack } from "../support/shared-stack.ts";

const redis = new Redis(sharedStack().env.REDIS_URL!);
afterAll(() => redis.disconnect());

const secret = "the secret of this law";
const key = clickIdKey(secret, 1);
const clickOn = (onLink: number, before: number): string => mint(onLink, noon - before, new Uint8Array(8), key);
let made = 0;

/**
 * The whole pipeline in memory, with hints on a real Redis that the velocity sink fills on demand.
 */
const shop = (isLinked: boolean) => {
  const prefix = `r14:${process.pid}:${Date.now()}:${++made}`;
  const known = referenceWith({
    clients: [client({ identity_link: isLinked })],
    partners: [partner(), partner({ partner_id: 22 })],
    links: [link(), link({ link_id: 42, partner_id: 22, code: "other" })],
  });
  const driven = drive(pipeline, {
    wire: inMemoryWire,
    read: reads(
      [reference, known],
      [clickKeys, clickKeysOf([key])],
      [identityKeys, identityKeysOf(secret)],
      [places, placesOf(null)],
      [hints, redisHints(redis, prefix)],
      [identityClicks, redisIdentityClicks(redis, prefix)],
    ),
  });
  const store = redisStore(redis, prefix);
  return {
    ...driven,
    post: (...events: readonly Partial<EventReceived>[]) =>
      driven.send(
        topics.eventsRaw,
        ...events.map((event) => ({ data: received(event), at: event.ts ?? noon, receivedAt: noon })),
      ),
    sink: () =>
      store.within({ tenants: [], token: "" }, (write) =>
        velocity.write(driven.rows("velocity") as readonly VelocityRow[], write),
      ),
    saleOf: (id: string) =>
      driven.read(topics.eventsAttributed).findLast(({ data }) => data.event.event_id === id)!.data,
  };
};
const uuid = (n: number): string => `00000000-0000-8000-8000-${String(n).padStart(12, "0")}`;
const shown = { props: JSON.stringify({ user_id: "ana" }) };
const clicked = (n: number, did: string, onLink: number, before: number): Partial<EventReceived> => ({
  t: "click",
  event_id: uuid(n),
  did,
  click_id: clickOn(onLink, before),
  ts: noon - before,
  ...shown,
});
const sale = (n: number, over: Partial<EventReceived> = {}) =>
  purchase({ event_id: uuid(n), did: "laptop", order_id: `o${n}`, ...shown, ...over });

test(
  "a sale keeps the credit of the click that was linked when it came, also when newer clicks are " +
    "linked and everything is read again",
  async () => {
    const run = shop(true);
    await run.post(clicked(1, "phone", linkId, 2 * hourMs));
    await run.sink();
    await run.post(sale(2));
    const given = run.saleOf(uuid(2)).credit;
    expect(given).toMatchObject({ method: "identity", partner_id: 21, clicked_at: noon - 2 * hourMs });

    await run.post(clicked(3, "tablet", 42, hourMs));
    await run.sink();
    await run.rewind("enrich");
    await run.rewind("attribute");
    expect(run.saleOf(uuid(2)).credit).toEqual(given);
    const claims = run.read(topics.claims).filter(({ id }) => id === uuid(2));
    expect(claims.length).toBeGreaterThan(1);
    for (const { data } of claims) expect(data.attributed.credit).toEqual(given);
    await run.post(sale(4));
    expect(run.saleOf(uuid(4)).credit).toMatchObject({ method: "identity", partner_id: 22 });
  },
);

test("a sale that found no linked click stays without credit when one is linked later", async () => {
  const run = shop(true);
  await run.post(sale(2));
  await run.post(clicked(1, "phone", linkId, hourMs));
  await run.sink();
  await run.rewind("enrich");
  for (const { data } of run.read(topics.claims))
    expect(data.attributed.credit).toMatchObject({ status: "unattributed", reason: "no_click" });
});

test("where the client did not switch it on, no partner is credited through identity", async () => {
  const run = shop(false);
  await run.post(clicked(1, "phone", linkId, hourMs));
  await run.sink();
  await run.post(sale(2));
  expect(run.saleOf(uuid(2)).credit).toMatchObject({ status: "unattributed", reason: "no_click", candidates: [] });
});

test(
  "the 21st conversion of an address in an hour is suspect, and stays so; the 20th stays as good " + "as it was",
  async () => {
    const run = shop(false);
    const buy = (n: number) => sale(n, { ip: "198.51.100.7", ip_source: "event" });
    await run.post(...Array.from({ length: 19 }, (_, n) => buy(100 + n)));
    await run.sink();
    await run.post(buy(120));
    await run.sink();
    await run.post(buy(121));
    await run.sink();
    const before = [120, 121].map((n) => run.saleOf(uuid(n)).fraud);
    expect(
      before.map(({ hints: hint, reasons }) => [hint?.address_conversions, reasons.map(({ code }) => code)]),
    ).toEqual([
      [19, []],
      [20, ["conversions_per_address"]],
    ]);
    await run.rewind("enrich");
    expect([120, 121].map((n) => run.saleOf(uuid(n)).fraud)).toEqual(before);
    const rescored = run.read(topics.eventsScored).filter(({ id }) => id === uuid(120));
    expect(new Set(rescored.map(({ data }) => JSON.stringify(data.fraud))).size).toBe(1);
  },
);
