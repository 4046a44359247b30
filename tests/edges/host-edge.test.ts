// An edge that runs from its declaration: accepted requests are admitted in slices, encoded for its
// topic and sent, with its own kind of dead letters. Every edge has a file that serves it.
import { existsSync } from "node:fs";
import { expect, test } from "vitest";
import { type EdgeParts, openEdges } from "../../apps/ingest/edges.ts";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import { feedNamed, messageOf } from "../../modules/base/feed.ts";
import { hostEdge } from "../../modules/intake/path/host-edge.ts";
import { type Admission, type Arrival, type Events, edge } from "../../stream/flow.ts";
import type { OutputMessage } from "../../stream/messages.ts";
import { edgesOf, topology } from "../../stream/topology.ts";
import { topics } from "../../topics.ts";
import { pipeline } from "../../topology.ts";
import { noon, received } from "../support/builders.ts";

const event = received();
const refusal = { code: "bad_type", field: "t", message: "unknown", retryable: false };
/** Refuses every seventh event, and turns a text into an event that holds it. */
const admitted = (n: unknown): Admission<typeof event> =>
  typeof n === "string"
    ? { kind: "accepted", id: n.slice(0, 5), at: noon, data: { ...event, props: n } }
    : Number(n) % 7 === 0
      ? { kind: "refused", id: String(n), refusal }
      : { kind: "accepted", id: event.event_id, at: noon, data: { ...event, source: "pixel" } };
const small = topology(
  "small",
  (record) => (record?.data.source === "pixel" ? "pixel.dlq" : "s2s.dlq"),
  edge({
    name: "numbers",
    on: "POST /numbers",
    accepts: (body: unknown) => body as Events,
    admit: ({ events }: Events, _arrival: Arrival, _facts: null) => events.map(admitted),
    to: topics.eventsRaw,
  }),
  edge({ name: "ours", on: "ours", record: (at: number) => ({ at, data: event }), to: topics.eventsRaw }),
);
const wire = inMemoryWire([topics.eventsRaw]);
const arrival: Arrival = { receivedAt: noon, sender: "1", address: null, header: () => undefined };

type Store = (messages: readonly OutputMessage[], kind: string) => Promise<void>;
const hosted = (store: Store, now = () => 0) => hostEdge(small, "numbers", { wire: () => wire, path: { store }, now });

test("what is accepted is stored slice by slice, and every refusal is counted and placed", async () => {
  const stored: (readonly [kind: string, messages: number])[] = [];
  const numbers = hosted(async (messages, kind) => void stored.push([kind, messages.length]));
  let seen = 0;
  const body = numbers.accepts({ events: Array.from({ length: 2_100 }, (_, n) => n) });
  const taken = await numbers.take(body, arrival, null, () => (seen += 1));
  await taken.stored;
  expect(stored).toEqual([
    ["pixel", 857],
    ["pixel", 857],
    ["pixel", 86],
  ]);
  expect([taken.accepted, seen, taken.refused.get("bad_type")]).toEqual([1_800, 1_800, 300]);
  expect(taken.errors.slice(0, 2)).toEqual([0, 7].map((n) => ({ index: n, refused: admitted(n) })));
});

test("a slice of heavy events ends after 10 ms of work, and others get their turn before the next", async () => {
  let now = 0;
  const slices: number[] = [];
  const numbers = hosted(
    async (messages) => void slices.push(messages.length),
    () => (now += 3),
  );
  const turns: number[] = [];
  const look = (): void => {
    turns.push(slices.length);
    if (slices.length < 3) setImmediate(look);
  };
  setImmediate(look);
  const taken = await numbers.take({ events: Array.from({ length: 20 }, () => 1) }, arrival, null);
  await taken.stored;
  expect(slices).toEqual([4, 4, 4, 4, 4]);
  expect(turns.slice(0, 2)).toEqual([1, 2]);
});

test("an event whose record would be too large for the log is refused alone", async () => {
  const stored: number[] = [];
  const numbers = hosted(async (messages) => void stored.push(messages.length));
  let seen = 0;
  const texts = ["short", "large".repeat(300_000), "huge!".repeat(8_000_000), "again"];
  const taken = await numbers.take({ events: texts }, arrival, null, () => (seen += 1));
  await taken.stored;
  expect([stored, seen, taken.accepted, taken.refused.get("event_too_large")]).toEqual([[2], 2, 2, 2]);
  expect(taken.errors).toMatchObject([
    { index: 1, refused: { kind: "refused", id: "large", refusal: { code: "event_too_large", retryable: false } } },
    { index: 2, refused: { kind: "refused", id: "huge!" } },
  ]);
});

test("a slice of which nothing is accepted is not stored, and one that no place takes rejects", async () => {
  const numbers = hosted(() => Promise.reject(new Error("full")));
  await (await numbers.take({ events: [0, 7] }, arrival, null)).stored;
  await expect((await numbers.take({ events: [1] }, arrival, null)).stored).rejects.toThrow("full");
});

test("a slice waits until the one before it is stored, and is not stored behind one that no place takes", async () => {
  const begun: number[] = [];
  const waiting: { resolve: () => void; reject: (error: Error) => void }[] = [];
  const numbers = hosted((messages) => {
    begun.push(messages.length);
    return new Promise((resolve, reject) => waiting.push({ resolve, reject }));
  });
  const body = { events: Array.from({ length: 3_000 }, () => 1) };
  const taken = await numbers.take(body, arrival, null);
  expect([taken.accepted, begun]).toEqual([3_000, [1_000]]);
  waiting[0]!.resolve();
  await new Promise(setImmediate);
  expect(begun).toEqual([1_000, 1_000]);
  waiting[1]!.reject(new Error("full"));
  await expect(taken.stored).rejects.toThrow("full");
  expect(begun).toEqual([1_000, 1_000]);
});

test("what we give ourselves becomes one record of the edge's topic, the same each time", () => {
  const [first, again] = [1, 2].map(() => messageOf(feedNamed(small, "ours"), wire, noon));
  expect(first).toEqual(again);
  const read = wire.decode(topics.eventsRaw, first!.value, { topic: topics.eventsRaw.name, partition: 0, offset: 0 });
  expect(read).toMatchObject({ id: event.event_id, at: noon, receivedAt: noon, data: event });
});

test("every edge of the ingest host is served by the file of its name, at the path that it declares", async () => {
  const served = await openEdges({ wire: () => wire } as unknown as EdgeParts);
  expect(served.map(({ name, on }) => `${name} ${on}`)).toEqual([
    "batch POST /ingest/batch",
    "external GET|POST /postback/external/:source",
    "generic POST /postback/generic",
    "postback POST /postback/:processor",
    "upload PUT /upload/:client/:partner/:filename",
  ]);
  for (const { name, on } of edgesOf(pipeline))
    expect(existsSync(`apps/ingest/edges/${name}.ts`), name).toBe(/ \/(ingest|postback|upload)\//.test(on));
});
