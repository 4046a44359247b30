// Wirings that must not compile, one @ts-expect-error each: `npm run check` fails if the compiler
// accepts one.

import { feedNamed } from "../../modules/base/feed.ts";
import { type HostPorts, hostEdge } from "../../modules/intake/path/host-edge.ts";
import type { Conversion, EventEnriched, EventReceived } from "../../schemas/generated.ts";
import {
  type Arrival,
  drop,
  type Edge,
  edge,
  emit,
  type FactsFor,
  type MemoryOf,
  type Processor,
  type Recorded,
  reject,
  type Sink,
  sink,
  stage,
  type Table,
} from "../../stream/flow.ts";
import { topology } from "../../stream/topology.ts";
import { topics } from "../../topics.ts";

interface Places {
  readonly country: string;
}
interface Visits {
  readonly count: number;
}
declare const places: FactsFor<EventReceived, Places>;
declare const otherFacts: FactsFor<EventReceived, { readonly rate: bigint }>;
declare const visits: MemoryOf<Visits>;
declare const otherMemory: MemoryOf<{ readonly last: string }>;
declare const enriched: (event: EventReceived) => EventEnriched;

const RAW = topics.eventsRaw;
const RICH = topics.eventsEnriched;

const plain: Processor<EventReceived, { enriched: EventEnriched }> = (event) =>
  emit([{ output: "enriched", data: enriched(event.data) }]);
const looking: Processor<EventReceived, { enriched: EventEnriched }, null, Places> = (event) =>
  emit([{ output: "enriched", data: enriched(event.data) }]);
const remembering: Processor<EventReceived, { enriched: EventEnriched }, Visits> = (event, state) =>
  emit([{ output: "enriched", data: enriched(event.data) }], { count: state.count + 1 });
interface Fork {
  enriched: EventEnriched;
  raw: EventReceived;
}
declare const forked: Processor<EventReceived, Fork>;

export const wired = [
  stage({ name: "a", from: RAW, run: plain, to: { enriched: RICH } }),
  stage({ name: "b", from: RAW, run: looking, facts: places, to: { enriched: RICH } }),
  stage({ name: "c", from: RAW, run: remembering, memory: visits, to: { enriched: RICH } }),
];

export const inputs = [
  // @ts-expect-error a richer input than the processor reads
  stage({ name: "a", from: RICH, run: plain, to: { enriched: RICH } }),
  // @ts-expect-error another record altogether
  stage({ name: "a", from: topics.conversions, run: plain, to: { enriched: RICH } }),
];
export const outputs = [
  // @ts-expect-error an output written to a topic of a richer record
  stage({ name: "a", from: RAW, run: plain, to: { enriched: topics.eventsScored } }),
  // @ts-expect-error an output left out
  stage({ name: "a", from: RAW, run: forked, to: { enriched: RICH } }),
  // @ts-expect-error an output misspelt
  stage({ name: "a", from: RAW, run: plain, to: { enrichd: RICH } }),
  // @ts-expect-error an output that the processor does not have
  stage({ name: "a", from: RAW, run: plain, to: { enriched: RICH, raw: RAW } }),
  // @ts-expect-error two outputs swapped
  stage({ name: "a", from: RAW, run: forked, to: { enriched: RAW, raw: RICH } }),
];
export const needs = [
  // @ts-expect-error facts forgotten
  stage({ name: "b", from: RAW, run: looking, to: { enriched: RICH } }),
  // @ts-expect-error facts of another stage
  stage({ name: "b", from: RAW, run: looking, facts: otherFacts, to: { enriched: RICH } }),
  // @ts-expect-error facts given to a processor that looks up nothing
  stage({ name: "a", from: RAW, run: plain, facts: places, to: { enriched: RICH } }),
  // @ts-expect-error memory forgotten
  stage({ name: "c", from: RAW, run: remembering, to: { enriched: RICH } }),
  // @ts-expect-error memory of another stage
  stage({ name: "c", from: RAW, run: remembering, memory: otherMemory, to: { enriched: RICH } }),
  // @ts-expect-error memory given to a processor that remembers nothing
  stage({ name: "a", from: RAW, run: plain, memory: visits, to: { enriched: RICH } }),
];

export const toNowhere: Processor<EventReceived, { enriched: EventEnriched }> = (event) =>
  // @ts-expect-error emits to an output that it does not declare
  emit([{ output: "scored", data: event.data }]);
export const swapped: Processor<EventReceived, Fork> = (event) =>
  // @ts-expect-error emits one output's data on another
  emit([{ output: "enriched", data: event.data }]);
// @ts-expect-error returns another state
export const otherState: Processor<EventReceived, { raw: EventReceived }, Visits> = () => emit([], { last: "x" });
// @ts-expect-error returns no state where it has one
export const stateForgotten: Processor<EventReceived, { raw: EventReceived }, Visits> = () => emit([]);
// @ts-expect-error returns a state where it has none
export const stateInvented: Processor<EventReceived, { raw: EventReceived }> = () => emit([], { count: 1 });
// @ts-expect-error a reject keeps no state
export const rejectsWithState: Processor<EventReceived, { raw: EventReceived }, Visits, null, "bad"> = (_, state) => ({
  kind: "reject",
  reason: "bad",
  state,
});
// @ts-expect-error rejects for a reason that is not listed
export const unlisted: Processor<EventReceived, { raw: EventReceived }, null, null, "bad"> = () => reject("worse");
// @ts-expect-error drops although no reason is listed
export const reasonless: Processor<EventReceived, { raw: EventReceived }> = () => drop("bad");
export const waiting: Processor<EventReceived, { raw: EventReceived }> = async (event) =>
  // @ts-expect-error a processor is synchronous
  emit([{ output: "raw", data: event.data }]);
// @ts-expect-error returns nothing on some path
export const forgetful: Processor<EventReceived, { raw: EventReceived }> = (event) => {
  if (event.at > 0) return emit([{ output: "raw", data: event.data }]);
};
export const changing: Processor<EventReceived, { raw: EventReceived }> = (event) => {
  // @ts-expect-error an event is never changed
  event.data.did = "other";
  return emit([{ output: "raw", data: event.data }]);
};

interface SaleRow {
  readonly client_id: number;
  readonly value: bigint;
}
declare const sales: Table<SaleRow>;
declare const saleRows: (event: Recorded<Conversion>) => readonly SaleRow[];
declare const otherRows: (event: Recorded<Conversion>) => readonly { readonly partner: string }[];
export const sinks = [
  sink({ name: "sales", from: topics.conversions, rows: saleRows, into: sales }),
  // @ts-expect-error rows of another table
  sink({ name: "sales", from: topics.conversions, rows: otherRows, into: sales }),
  // @ts-expect-error events of another topic
  sink({ name: "sales", from: topics.claims, rows: saleRows, into: sales } satisfies Sink<Conversion, SaleRow>),
];

interface Body {
  readonly events: readonly unknown[];
}
declare const accepts: (body: unknown) => Body;
declare const admit: Edge<Body, Places, EventReceived>["admit"];
declare const admitOther: Edge<
  { readonly events: readonly unknown[]; readonly rows: string },
  Places,
  EventReceived
>["admit"];
declare const decided: (given: { readonly claim: EventReceived; readonly at: number }) => {
  readonly at: number;
  readonly data: EventReceived;
};
export const edges = [
  edge({ name: "batch", on: "POST /ingest/batch", accepts, admit, to: RAW }),
  // @ts-expect-error events for another topic
  edge({ name: "batch", on: "POST /ingest/batch", accepts, admit, to: topics.eventsScored }),
  // @ts-expect-error a body that admit does not take
  edge({ name: "batch", on: "POST /ingest/batch", accepts, admit: admitOther, to: RAW }),
  // @ts-expect-error no method that a request can have
  edge({ name: "batch", on: "/ingest/batch", accepts, admit, to: RAW }),
  edge({ name: "decisions", on: "decisions", record: decided, to: RAW }),
  // @ts-expect-error records for another topic
  edge({ name: "decisions", on: "decisions", record: decided, to: topics.claims }),
  // @ts-expect-error neither requests nor records of our own
  edge({ name: "decisions", on: "POST /decisions", to: RAW }),
];

const small = topology(
  "small",
  () => "s2s.dlq",
  edge({ name: "batch", on: "POST /ingest/batch", accepts, admit, to: RAW }),
  edge({ name: "decisions", on: "decisions", record: decided, to: RAW }),
  stage({ name: "a", from: RAW, run: plain, to: { enriched: RICH } }),
);
declare const ports: HostPorts;
declare const arrival: Arrival;
declare const facts: Places;
export const run = async (): Promise<void> => {
  const batch = hostEdge(small, "batch", ports);
  await batch.take(batch.accepts("{}"), arrival, facts, (event) => event.did);
  // @ts-expect-error a body that this edge does not accept
  await batch.take({ rows: "" }, arrival, facts);
  // @ts-expect-error facts of another edge
  await batch.take(batch.accepts("{}"), arrival, { rate: 1n });
  // @ts-expect-error records of another topic
  await batch.take(batch.accepts("{}"), arrival, facts, (event) => event.enrichment);
  // @ts-expect-error an edge that is not declared
  hostEdge(small, "pixel", ports);
  // @ts-expect-error a stage
  hostEdge(small, "a", ports);
  // @ts-expect-error an edge that takes no requests
  hostEdge(small, "decisions", ports);
  const decisions = feedNamed(small, "decisions");
  decisions.record({ claim: {} as EventReceived, at: 1 });
  // @ts-expect-error something else than this edge is fed with
  decisions.record({ claim: "x" });
  // @ts-expect-error an edge of requests
  feedNamed(small, "batch");
};
