// A record that the log refuses becomes a dead letter and blocks nothing: on its way into the log,
// on the disk of an edge, and in object storage.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import type { Registry } from "../../infra/avro/registry.ts";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import { LogUnavailable } from "../../infra/kafka/kafka.ts";
import { fsObjects } from "../../infra/objects/fs.ts";
import { drainAbandoned, openLastResort } from "../../infra/spool/last-resort.ts";
import { sendWithSchemaIds } from "../../infra/spool/sending.ts";
import { openSpool } from "../../infra/spool/spool.ts";
import { openPath } from "../../modules/intake/path/path.ts";
import { refusedByLog } from "../../modules/intake/path/refused-by-log.ts";
import { letterHeaders } from "../../stream/dead-letters.ts";
import type { OutputMessage } from "../../stream/messages.ts";
import { topics } from "../../topics.ts";
import { received, recorded } from "../support/builders.ts";

const workshop = mkdtempSync(join(tmpdir(), "refused-"));
afterAll(() => rmSync(workshop, { recursive: true, force: true }));
let folders = 0;

/** The client's error for this answer of the broker. */
const tooLarge = () =>
  Object.assign(new Error("The request included a message larger than the max message size"), {
    name: "KafkaJSProtocolError",
    type: "MESSAGE_TOO_LARGE",
    code: 10,
    retriable: false,
  });
const noRegistry = { idOf: () => Promise.reject(new Error("away")) } as unknown as Registry;
const wire = inMemoryWire([topics.eventsRaw]);

/** A log that refuses a whole request if one value is longer than `largest`. */
const world = (largest = 1_000) => {
  folders += 1;
  const folder = join(workshop, String(folders));
  const taken: OutputMessage[] = [];
  const state = { isUp: true, sends: 0, refused: 0 };
  const send = async (messages: readonly OutputMessage[]): Promise<void> => {
    await new Promise(setImmediate);
    if (!state.isUp) throw new LogUnavailable();
    state.sends += 1;
    if (messages.some(({ value }) => value !== null && value.length > largest)) {
      state.refused += 1;
      throw tooLarge();
    }
    taken.push(...messages);
  };
  const objects = fsObjects(join(folder, "objects"));
  const log = { info: () => undefined, warn: () => undefined, error: () => undefined };
  const setAside = refusedByLog({ send, objects, wire: () => wire, written: [topics.eventsRaw], log, now: () => 0 });
  const drain = sendWithSchemaIds(noRegistry, send, setAside);
  const lastResort = openLastResort({ objects, instance: "edge", schemas: {} });
  const path = (openDisk = () => openSpool({ folder: join(folder, "spool"), schemas: {} })) =>
    openPath({
      publish: send,
      setAside,
      send: drain,
      probe: async () => {
        if (!state.isUp) throw new LogUnavailable();
      },
      isNamed: () => true,
      openSpool: openDisk,
      lastResort,
      log,
    });
  const events = () => taken.filter(({ topic }) => topic === "events.raw").map(({ value }) => value!.toString());
  const letters = () => taken.filter(({ topic }) => topic.endsWith(".dlq"));
  return { state, objects, setAside, drain, lastResort, path, events, letters };
};
const message = (text: string): OutputMessage => ({ topic: "events.raw", key: "k", value: Buffer.from(text) });
const serial = (count: number): string[] => Array.from({ length: count }, (_, n) => `${n}`);
const until = async (isSo: () => boolean): Promise<void> => {
  for (const deadline = Date.now() + 20_000; !isSo(); await new Promise((resolve) => setTimeout(resolve, 5)))
    if (Date.now() > deadline) throw new Error("waited in vain");
};
/** An event that is too large for the log, like its dead letter. */
const HUGE = `x${"y".repeat(2_000)}`;

test("a batch with one record that the log refuses is stored all the same, around it, in its order", async () => {
  const { state, path, events, letters } = world();
  const { value, stop } = await path();
  const texts = serial(1_000);
  await value.store([...texts.slice(0, 400), HUGE, ...texts.slice(400)].map(message), "s2s");
  expect(events()).toEqual(texts);
  expect(letters().length).toBe(1);
  expect(state.sends).toBeLessThan(30);
  expect(value.state().path).toBe("primary");
  await stop();
});

test("a record on the disk that the log refuses holds up neither what came with it nor what came after", async () => {
  const { state, path, events, letters } = world();
  const { value, stop } = await path();
  state.isUp = false;
  for (const texts of [["0", "1"], ["2", HUGE, "3"], ["4"]]) await value.store(texts.map(message), "s2s");
  expect(value.state()).toMatchObject({ path: "standby", spooledEvents: 6 });
  state.isUp = true;
  await until(() => !value.state().active);
  await value.store([message("5")], "s2s");
  expect(state.refused).toBeGreaterThan(0);
  expect(events()).toEqual(serial(6));
  expect(letters().length).toBe(1);
  await stop();
});

test("nor does one in object storage, whether its edge sends it or the keeper", async () => {
  for (const isKeeper of [false, true]) {
    const { objects, drain, lastResort, path, events, letters, state } = world();
    await lastResort.put(["0", HUGE, "1"].map(message), "s2s");
    if (isKeeper) await drainAbandoned(objects, drain, { ageMs: 0, now: () => Date.now() + 60_000 });
    else {
      const { value, stop } = await path();
      await until(() => !value.state().active);
      await stop();
    }
    expect([state.refused > 0, events(), letters().length]).toEqual([true, ["0", "1"], 1]);
    const left: string[] = [];
    for await (const { key } of objects.list("last-resort/")) left.push(key);
    expect(left).toEqual([]);
  }
});

test("its letter says why, lies with those of its source, and holds the record when that fits", async () => {
  const { letters, setAside } = world(100_000);
  for (const source of ["server", "link", "pixel"] as const) {
    const value = wire.encode(topics.eventsRaw, recorded(topics.eventsRaw, { ...received(), source }), null);
    await setAside({ topic: "events.raw", key: "k", value, headers: { traceparent: "00-ab" } }, tooLarge());
    expect(letters().at(-1)).toMatchObject({
      topic: { server: "s2s.dlq", link: "clicks.dlq", pixel: "pixel.dlq" }[source],
      value,
      headers: {
        traceparent: "00-ab",
        [letterHeaders.topic]: "events.raw",
        [letterHeaders.stage]: "log",
        [letterHeaders.code]: "message_too_large",
        [letterHeaders.message]: expect.stringMatching(/^the log refused a record of \d+ bytes for events.raw: /),
      },
    });
  }
});

test("bytes that fit into no letter are an object, which the letter names", async () => {
  const { objects, letters, setAside } = world();
  await setAside(message(HUGE), tooLarge());
  await setAside(message(HUGE), tooLarge());
  const [letter, again] = letters();
  expect([letter!.value, again]).toEqual([null, letter]);
  const [, key] = /its value is the object (refused\/events\.raw\/[0-9a-f]{64})$/.exec(
    String(letter!.headers![letterHeaders.message]),
  )!;
  expect(String(await objects.get(key!))).toBe(HUGE);
});

test("while no letter can be written the record stays where it is", async () => {
  const { state, drain } = world();
  state.isUp = false;
  await expect(drain([message(HUGE)], {})).rejects.toThrow(LogUnavailable);
});
