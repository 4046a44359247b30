// An edge run from its declaration: what it accepts is admitted in slices, encoded for its topic and
// stored under the kind of its dead letters; and every edge has the file that serves it.
import { existsSync } from "node:fs";
import { expect, test } from "vitest";
import { type EdgeParts, openEdges } from "../../apps/ingest/edges.ts";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import { feedNamed, messageOf } from "../../modules/edges/feed.ts";
import { hostEdge } from "../../modules/edges/host-edge.ts";
import { type Admission, type Arrival, type Events, edge } from "../../stream/flow.ts";
import type { OutputMessage } from "../../stream/messages.ts";
import { edgesOf, topology } from "../../stream/topology.ts";
import { topics } from "../../topics.ts";
import { pipeline } from "../../topology.ts";
import { noon, received } from "../support/builders.ts";

const event = received();
const refusal = { code: "bad_type", field: "t", message: "unknown", retryable: false };
/** Every seventh event is refused. */
const admitted = (n: unknown): Admission<typeof event> =>
  Number(n) % 7 === 0
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

const hosted = (store: (messages: readonly OutputMessage[], kind: string) => Promise<void>) =>
  hostEdge(small, "numbers", { wire: () => wire, path: { store } });

test("what is accepted is stored slice by slice, and every refusal is counted and placed", async () => {
  const stored: (readonly [kind: string, messages: number])[] = [];
  const numbers = hosted(async (messages, kind) => void stored.push([kind, messages.length]));
  let seen = 0;
  const body = numbers.accepts({ events: Array.from({ length: 2_100 }, (_, n) => n) });
  const taken = await numbers.take(body, arrival, null, () => (seen += 1));
  await Promise.all(taken.stored);
  expect(stored).toEqual([
    ["pixel", 857],
    ["pixel", 857],
    ["pixel", 86],
  ]);
  expect([taken.accepted, seen, taken.refused.get("bad_type")]).toEqual([1_800, 1_800, 300]);
  expect(taken.errors.slice(0, 2)).toEqual([0, 7].map((n) => ({ index: n, refused: admitted(n) })));
});

test("a slice of which nothing is accepted is not stored, and one that no place takes rejects", async () => {
  const numbers = hosted(() => Promise.reject(new Error("full")));
  expect((await numbers.take({ events: [0, 7] }, arrival, null)).stored).toEqual([]);
  const [kept] = (await numbers.take({ events: [1] }, arrival, null)).stored;
  await expect(kept).rejects.toThrow("full");
});

test("what we give ourselves becomes one record of the edge's topic, the same each time", () => {
  const [first, again] = [1, 2].map(() => messageOf(feedNamed(small, "ours"), wire, noon));
  expect(first).toEqual(again);
  const read = wire.decode(topics.eventsRaw, first!.value, { topic: topics.eventsRaw.name, partition: 0, offset: 0 });
  expect(read).toMatchObject({ id: event.event_id, at: noon, receivedAt: noon, data: event });
});

test("every edge of requests is served by the file of its name, at the path that it declares", async () => {
  const served = await openEdges({ wire: () => wire } as unknown as EdgeParts);
  expect(served.map(({ name, on }) => `${name} ${on}`)).toEqual(["batch POST /ingest/batch"]);
  for (const { name } of edgesOf(pipeline)) expect(existsSync(`apps/ingest/edges/${name}.ts`), name).toBe(true);
});
