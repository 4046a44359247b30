// Which graphs are sound, and the errors of a topology that is not.
import { expect, test } from "vitest";
import type { EventReceived, EventScored } from "../../schemas/generated.ts";
import { type AnyTopic, type Events, edge, emit, remembers, sink, stage, type Table } from "../../stream/flow.ts";
import { draw, topology } from "../../stream/topology.ts";
import { topics } from "../../topics.ts";

const toDeadLetters = () => "s2s.dlq";
const door = (name: string, to = topics.eventsRaw) =>
  edge<Events, null, EventReceived>({ name, on: "POST /x", accepts: (body) => body as Events, admit: () => [], to });
const pass = (name: string, from = topics.eventsRaw, to = topics.eventsRaw) =>
  stage<EventReceived, { out: EventReceived }, null, null, never>({ name, from, run: () => emit([]), to: { out: to } });
const rows: Table<EventReceived> = {
  name: "rows",
  store: "postgres",
  key: ["event_id"],
  tenantOf: (row) => row.client_id,
  write: async () => {},
};

test("a sound graph is taken as it is", () => {
  const sound = topology(
    "sound",
    toDeadLetters,
    door("door"),
    sink<EventReceived, EventReceived>({
      name: "rows",
      from: topics.eventsRaw,
      rows: (event) => [event.data],
      into: rows,
    }),
  );
  expect(sound.nodes.map((node) => node.name)).toEqual(["door", "rows"]);
});

test("a topic that no node writes is reported with its reader", () =>
  expect(() =>
    topology(
      "t",
      toDeadLetters,
      sink<EventReceived, EventReceived>({
        name: "rows",
        from: topics.eventsRaw,
        rows: (event) => [event.data],
        into: rows,
      }),
    ),
  ).toThrow("rows: no edge or stage writes events.raw"));

test("a stage whose output comes back to it is refused", () =>
  expect(() => topology("t", toDeadLetters, door("door"), pass("loop"))).toThrow("loop: its output comes back to it"));

test("a memory on another key than its topic is refused", () => {
  const memory = remembers<number>({
    name: "m",
    keyedBy: "partner",
    driver: "fast",
    initial: 0,
    encode: () => new Uint8Array(),
    decode: () => 0,
  });
  const counting = stage<EventReceived, Record<never, never>, number, null, never>({
    name: "count",
    from: topics.eventsRaw,
    run: (_, state) => emit([], state),
    memory,
    to: {},
  });
  expect(() => topology("t", toDeadLetters, door("door"), counting)).toThrow("memory never crosses partitions");
});

test("a name borne twice is refused, and every problem is reported at once", () => {
  const build = () =>
    topology(
      "t",
      toDeadLetters,
      door("a"),
      door("a"),
      sink<EventScored, EventReceived>({
        name: "b",
        from: topics.eventsScored,
        rows: (event) => [event.data.event],
        into: rows,
      }),
    );
  expect(build).toThrow("a: two nodes bear this name");
  expect(build).toThrow("b: no edge or stage writes events.scored");
});

test("topics of one key that are not co-partitioned are refused", () => {
  const fewer = { ...topics.eventsRaw, name: "fewer", partitions: 3 };
  expect(() => topology("t", toDeadLetters, door("door"), pass("split", topics.eventsRaw, fewer))).toThrow(
    "make them equal",
  );
});

test("ids that were taken are recorded under the key of the stage, and drawn", () => {
  const recording = (to: AnyTopic) =>
    stage<EventReceived, Record<never, never>, null, null, never>({
      name: "count",
      from: topics.eventsRaw,
      run: () => emit([]),
      to: {},
      taken: { to, record: ({ data }) => data, read: () => null, awaits: { reason: "x", message: "x" } },
    });
  const taken = { ...topics.eventsRaw, name: "events.taken" };
  expect(draw(topology("t", toDeadLetters, door("door"), recording(taken)))).toContain("-- taken --> events_taken");
  expect(() => topology("t", toDeadLetters, door("door"), recording(topics.conversions))).toThrow(
    "count: conversions is keyed by client_id:partner_id, but events.raw by client_id:did",
  );
});

test("the drawing names every node and topic", () => {
  const drawing = draw(
    topology(
      "sound",
      toDeadLetters,
      door("door"),
      sink<EventReceived, EventReceived>({
        name: "rows",
        from: topics.eventsRaw,
        rows: (event) => [event.data],
        into: rows,
      }),
    ),
  );
  for (const part of ["flowchart LR", "events.raw", "by client_id:did", "POST /x", "postgres rows"])
    expect(drawing).toContain(part);
});
