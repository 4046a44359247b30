// Hints on a real Redis: counted over keys, answered once, and stored with the event.
import { Redis } from "ioredis";
import { afterAll, expect, test } from "vitest";
import { unlinkEvent } from "../../domain/personal/unlink.ts";
import { redisHints, redisIdentityClicks } from "../../modules/catalog/facts/hints.ts";
import type { HintAsked } from "../../processors/score/facts.ts";
import type { EventAttributed } from "../../schemas/generated.ts";
import { redisStore } from "../../sinks/stores/redis.ts";
import { velocityRows } from "../../sinks/velocity/rows.ts";
import { velocity } from "../../sinks/velocity/table.ts";
import { topics } from "../../topics.ts";
import { attributed, clickCredit, clientId, dayMs, hourMs, noon, recorded } from "../support/builders.ts";
import { sharedStack } from "../support/shared-stack.ts";

const redis = new Redis(sharedStack().env.REDIS_URL!);
afterAll(() => redis.disconnect());
let made = 0;
/** A separate environment for each case. */
const fresh = () => {
  const prefix = `test:${process.pid}:${Date.now()}:${++made}`;
  return {
    prefix,
    store: redisStore(redis, prefix),
    hints: redisHints(redis, prefix),
    clicks: redisIdentityClicks(redis, prefix),
  };
};
const seen = (store: ReturnType<typeof redisStore>, events: readonly EventAttributed[], at = noon) =>
  store.within({ tenants: [], token: "" }, (write) =>
    velocity.write(
      events.flatMap((data) => velocityRows(recorded(topics.eventsAttributed, data, { at, receivedAt: at }))),
      write,
    ),
  );
const sale = (n: number, over: Partial<EventAttributed["event"]> = {}) =>
  attributed({ event_id: `sale ${n}`, ip: "8.8.8.8", ...over });
const asked = (over: Partial<HintAsked> = {}): HintAsked => ({
  client_id: clientId,
  event_id: "asking",
  at: noon,
  did: "d1",
  address: "8.8.8.8",
  click_id: null,
  ...over,
});

test("a device that a decision took from a person brings that person no click any more", async () => {
  const { store, clicks } = fresh();
  const email = "e".repeat(64);
  const click = attributed(
    { event_id: "click", t: "click", did: "phone", click_id: "c1" },
    { credit: clickCredit({ clicked_at: noon }), enrichment: { person: `email:${email}` } },
  );
  const asks = (event_id: string) => [
    { client_id: clientId, event_id, at: noon + hourMs, did: "laptop", person: `email:${email}` },
  ];
  await seen(store, [click]);
  expect(await clicks.lookUp(asks("before"))).toEqual(new Map([["before", "c1"]]));
  const said = { client_id: clientId, did: "phone", kind: "email", identifier: email, actor: "ana", reason: "lent" };
  await seen(store, [attributed(unlinkEvent({ decision_id: "decided", at: noon, ...said }))]);
  expect(await clicks.lookUp(asks("after"))).toEqual(new Map());
  expect(await clicks.lookUp(asks("before"))).toEqual(new Map([["before", "c1"]]));
});

test(
  "conversions of an address count once each, within their hour, by client; the asking one is left " + "out",
  async () => {
    const { store, hints } = fresh();
    await seen(store, [sale(1), sale(2), sale(2), sale(3, { client_id: 8 }), sale(4, { ip: "9.9.9.9" })]);
    await seen(store, [sale(5, { ts: noon + hourMs })], noon + hourMs);
    const answers = await hints.lookUp([
      asked(),
      asked({ event_id: "sale 1" }),
      asked({ event_id: "elsewhere", address: "1.1.1.1" }),
    ]);
    expect([...answers].map(([id, { address_conversions }]) => [id, address_conversions])).toEqual([
      ["asking", 2],
      ["sale 1", 1],
      ["elsewhere", 0],
    ]);
  },
);

test("an answer stands, whatever comes after it, and for everybody who asks", async () => {
  const { prefix, store, hints } = fresh();
  await seen(store, [sale(1)]);
  const first = await hints.lookUp([asked()]);
  await seen(store, [sale(2), sale(3)]);
  expect(await hints.lookUp([asked()])).toEqual(first);
  expect((await hints.lookUp([asked({ event_id: "later" })])).get("later")?.address_conversions).toBe(3);
  const others = await Promise.all(
    [1, 2, 3, 4].map(() => redisHints(redis, prefix).lookUp([asked({ event_id: "raced" })])),
  );
  expect(new Set(others.map((answer) => JSON.stringify([...answer]))).size).toBe(1);
});

test("other devices and the country of a click id are known; an id without a click says nothing", async () => {
  const { store, hints } = fresh();
  const clicked = { click_id: "c1" };
  await seen(store, [
    attributed({ t: "click", did: "d1", ...clicked }, { credit: clickCredit(), enrichment: { country: "ES" } }),
    ...["d1", "d2", "d3"].map((did, n) => attributed({ event_id: `${n}`, did, ...clicked }, { credit: clickCredit() })),
  ]);
  const answers = await hints.lookUp([
    asked({ ...clicked, address: null }),
    asked({ event_id: "b", click_id: "c2", address: null }),
  ]);
  expect([...answers.values()]).toEqual([
    { address_conversions: null, click_devices: 2, click_country: "ES" },
    { address_conversions: null, click_devices: 0, click_country: null },
  ]);
});

test("everything is let go after 8 days", async () => {
  const { prefix, store, hints } = fresh();
  await seen(store, [sale(1, { click_id: "c" })]);
  await hints.lookUp([asked()]);
  const keys = await redis.keys(`${prefix}*`);
  const lifetimes = await Promise.all(keys.map((key) => redis.ttl(key)));
  expect(lifetimes.length).toBeGreaterThan(1);
  for (const seconds of lifetimes) expect(seconds).toSatisfy((n: number) => n > 0 && n <= 8 * 86_400);
});

test("a lookup of no events asks Redis nothing", async () => {
  const { hints, clicks } = fresh();
  expect((await hints.lookUp([])).size + (await clicks.lookUp([])).size).toBe(0);
});

const click = (clickId: string, did: string, clickedAt: number, person: string | null = "email:x") =>
  attributed(
    { t: "click", event_id: clickId, click_id: clickId, did },
    { credit: clickCredit({ clicked_at: clickedAt }), enrichment: { person } },
  );
const sought = { client_id: clientId, event_id: "asking", at: noon, did: "laptop", person: "email:x" };

test(
  "the newest click before the event on another device of the same person is found, also when the " +
    "person was known only later",
  async () => {
    const { store, clicks } = fresh();
    await seen(store, [
      click("old", "phone", noon - dayMs),
      click("new", "phone", noon - hourMs, null),
      click("after", "tablet", noon + 1),
      click("own", "laptop", noon - 1),
      click("stranger", "other", noon - 1, "email:y"),
    ]);
    expect([...(await clicks.lookUp([sought]))]).toEqual([["asking", "new"]]);
    expect((await clicks.lookUp([{ ...sought, event_id: "b", client_id: 8 }])).size).toBe(0);
  },
);

test("that there was no such click stands as well (law R14)", async () => {
  const { store, clicks } = fresh();
  expect((await clicks.lookUp([sought])).size).toBe(0);
  await seen(store, [click("late", "phone", noon - hourMs)]);
  expect((await clicks.lookUp([sought])).size).toBe(0);
  expect((await clicks.lookUp([{ ...sought, event_id: "next" }])).get("next")).toBe("late");
});
