// A million different keys, devices and senders use no more memory than a few, and one of them
// repeated a million times costs no more than once.
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { openTaking } from "../../apps/pixel/intake.ts";
import { identifyFor, pepperOf } from "../../domain/device-id.ts";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import { Problem } from "../../infra/http/problem.ts";
import { localWindow } from "../../infra/http/rate-limit.ts";
import { refusals } from "../../infra/http/tokens.ts";
import { defaultPixel } from "../../modules/catalog/pixel/pixel-config.ts";
import { openSightings } from "../../modules/catalog/pixel/sightings.ts";
import { hostEdge } from "../../modules/intake/path/host-edge.ts";
import { checkShape } from "../../processors/admit/shape.ts";
import { topics } from "../../topics.ts";
import { pipeline } from "../../topology.ts";
import { keyring } from "../support/pixel-host.ts";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;
const heapMiB = (): number => {
  collect();
  return process.memoryUsage().heapUsed / 1024 / 1024;
};
const MILLION = 1_000_000;
const texts = { mayBeBroken: false, mayHoldEmail: false };
const unauthorized = new Problem("unauthorized", "no");

const pepper = pepperOf("0123456789abcdef0123456789abcdef", 1);
/** The number that an edge remembers (modules/intake/path/facts.ts). */
const DEVICES = 100_000;
const identify = identifyFor(pepper, DEVICES);
const window = localWindow({ limit: 100, windowMs: 60_000 });
const refuse = refusals();
/** Stores with keys that a sender chooses, and how many keys each test uses. */
const kept: readonly (readonly [string, number, (key: string) => unknown])[] = [
  ["keys of props", MILLION, (key) => checkShape({ [key]: 1 }, texts)],
  ["devices", 300_000, (key) => identify.plain(key)],
  ["keys of a rate limit", MILLION, (key) => window.take(key, 1_000)],
  ["addresses without a token", 200_000, (key) => refuse(key, unauthorized)],
];

test.each(kept)("%s: different ones stay within 60 MiB, whatever they are", { timeout: 120_000 }, (_, count, use) => {
  const before = heapMiB();
  for (let n = 0; n < count; n += 1) use(`${n}-${"x".repeat(20)}`);
  expect(heapMiB() - before).toBeLessThan(60);
});

test.each(kept)("%s: one of them again and again stays as it is", { timeout: 120_000 }, (_, count, use) => {
  use("always the same");
  const before = heapMiB();
  for (let n = 0; n < count; n += 1) use("always the same");
  expect(heapMiB() - before).toBeLessThan(5);
});

test("a window of ten thousand keys answers as fast as one of a few", () => {
  const cpuMs = (keys: number): number => {
    const { take } = localWindow({ limit: 100, windowMs: 60_000 });
    for (let n = 0; n < keys; n += 1) take(`key-${n}`, 0);
    const before = process.cpuUsage();
    for (let n = 0; n < 50_000; n += 1) take("always the same", 0);
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1_000;
  };
  cpuMs(10);
  const least = (keys: number): number => Math.min(...Array.from({ length: 3 }, () => cpuMs(keys)));
  expect(least(10_000)).toBeLessThan(10 * least(10) + 200);
});

test("devices, sessions, pages and addresses of a pixel: different ones stay within 30 MiB", {
  timeout: 240_000,
}, async () => {
  const wire = inMemoryWire([topics.eventsRaw]);
  let stored = 0;
  const path = {
    store: async (messages: readonly unknown[]) => {
      stored += messages.length;
    },
  };
  const facts = { clientId: 7, segments: [], consentDefault: 0xff, identify: identifyFor(pepper, DEVICES) };
  const quotas = { spend: () => true };
  const sightings = openSightings({} as never, { onError: () => undefined });
  const take = openTaking({
    edge: hostEdge(pipeline, "pixel", { wire: () => wire, path }),
    ...{ path, sightings, quotas, keyring, facts: () => facts, settingsOf: () => defaultPixel },
  });
  const one = async (n: number): Promise<void> => {
    const address = `10.${(n >> 16) & 255}.${(n >> 8) & 255}.${n & 255}`;
    const page = `https://shop-${n}.example`;
    const event = { t: "page_view", ts: Date.now(), event_id: `e-${n}`, url: `${page}/p/${n}` };
    const body = Buffer.from(JSON.stringify({ cid: 7, did: `device-${n}`, sid: `session-${n}`, events: [event] }));
    const arrival = { receivedAt: Date.now(), sender: address, address, header: () => undefined };
    await take({ body, isTooLarge: false, arrival, origin: page });
  };
  await one(0);
  const before = heapMiB();
  for (let n = 1; n < 250_000; n += 1) await one(n);
  expect(heapMiB() - before).toBeLessThan(30);
  expect(stored).toBe(250_000);
});
