// Runs an edge of the topology: admits the events of a request, encodes them for the edge's topic,
// and stores them through the edge's path before its sender is answered.

import { letterKindOf } from "../../../edges/dead-letters.ts";
import { openSlices } from "../../../infra/runtime/timing/in-slices.ts";
import type {
  Admission,
  AnyEdge,
  Arrival,
  Declared,
  Edge,
  Events,
  Node,
  Position,
  Recorded,
  Topology,
} from "../../../stream/flow.ts";
import type { OutputMessage } from "../../../stream/messages.ts";
import { type EdgeIn, edgesOf } from "../../../stream/topology.ts";
import { type RecordWire, TooLarge } from "../../../stream/wire.ts";
import type { Path } from "./path.ts";

export interface HostPorts {
  readonly wire: () => RecordWire;
  readonly path: Pick<Path, "store">;
  /** Monotonic milliseconds; defaults to the clock of the process. */
  readonly now?: () => number;
}
type EdgeHost = { readonly edge: AnyEdge; readonly nowhere: Position; readonly topology: Topology } & HostPorts;
interface TakeInput {
  readonly arrival: Arrival;
  readonly facts: unknown;
  readonly onAccepted: (data: any) => void;
}
type RefusedAdmission = Extract<Admission<never>, { readonly kind: "refused" }>;
type EncodedAdmission =
  | RefusedAdmission
  | { readonly kind: "record"; readonly event: Recorded<unknown>; readonly message: OutputMessage };

/** A refused event and its index in the body. */
interface RefusedEvent {
  readonly index: number;
  readonly refused: RefusedAdmission;
}
export interface TakeResult {
  readonly accepted: number;
  /** Number of refused events by code. */
  readonly refused: ReadonlyMap<string, number>;
  /** The first refused events. */
  readonly errors: readonly RefusedEvent[];
  /** Resolves once the accepted events are durable; rejects when no place accepts them. */
  readonly stored: Promise<void>;
}

export interface HostedEdge<Body, Facts, Out> {
  readonly name: string;
  readonly accepts: (body: unknown) => Body;
  /** Resolves when everything is admitted; calls `onAccepted` for each accepted event. */
  readonly take: (body: Body, arrival: Arrival, facts: Facts, onAccepted?: (data: Out) => void) => Promise<TakeResult>;
}

/** Most events in one send to the log: a slice, about 10 ms of ordinary events. */
const SLICE = 1_000;
const MAX_ERRORS = 1_000;
/**
 * Limit for the record of an event: the largest admitted event is 1 MiB of JSON, plus room for the
 * hashes that replace personal data and for what the edge adds.
 */
const MAX_RECORD_BYTES = 1_310_720;

/** Admits slice by slice, so that other requests get their turn while earlier slices are stored. */
const taking = async (hosted: EdgeHost, body: Events, given: TakeInput): Promise<TakeResult> => {
  const { edge, topology, path } = hosted;
  const encode = encoding(hosted, given.arrival);
  const refused = new Map<string, number>();
  const errors: RefusedEvent[] = [];
  let stored: Promise<void> = Promise.resolve();
  let accepted = 0;
  let messages: OutputMessage[] = [];
  let first: Recorded<unknown> | undefined;
  const store = (): void => {
    accepted += messages.length;
    if (first === undefined) return;
    const [slice, kind] = [messages, letterKindOf(topology.deadLetters(first))];
    // The slices of a request may end up in different places, which are drained one after the
    // other. Each waits for the one before it, so that none lies in a place that comes first.
    stored = stored.then(() => path.store(slice, kind));
    // The caller that awaits it sees the failure.
    stored.catch(() => undefined);
    messages = [];
    first = undefined;
  };
  const slices = openSlices(hosted.now);
  let from = 0;
  let index = 0;
  for (const admitted of edge.admit(body, given.arrival, given.facts)) {
    const encoded = encode(admitted);
    if (encoded.kind === "record") {
      first ??= encoded.event;
      messages.push(encoded.message);
      given.onAccepted(encoded.event.data);
    } else {
      const { code } = encoded.refusal;
      refused.set(code, (refused.get(code) ?? 0) + 1);
      if (errors.length < MAX_ERRORS) errors.push({ index, refused: encoded });
    }
    index += 1;
    if (index === body.events.length || (index - from < SLICE && !slices.isOver())) continue;
    store();
    await slices.next();
    from = index;
  }
  store();
  return { accepted, refused, errors, stored };
};

/**
 * Encodes an event as a record of its topic; refuses only that event when it would be too large for
 * the log.
 */
const encoding = ({ edge, nowhere, wire }: EdgeHost, { receivedAt }: Arrival) => {
  const { to } = edge;
  const opened = wire();
  return (admission: Admission<unknown>): EncodedAdmission => {
    if (admission.kind === "refused") return admission;
    const { id, at, data } = admission;
    const key = to.keyOf(data);
    const event = { id, key, at, receivedAt, position: nowhere, data };
    try {
      const value = opened.encode(to, event, null);
      if (value.length <= MAX_RECORD_BYTES) return { kind: "record", event, message: { topic: to.name, key, value } };
    } catch (error) {
      if (!(error instanceof TooLarge)) throw error;
    }
    return { kind: "refused", id, refusal: tooLarge };
  };
};

const tooLarge = {
  code: "event_too_large",
  field: null,
  message: `the record of the event is larger than ${MAX_RECORD_BYTES} bytes: send less in props`,
  retryable: false,
};

/**
 * Hosts the edge of this name, with the body, facts and record types of its declaration. Throws
 * when the topology has no such edge.
 */
export const hostEdge = <const Nodes extends readonly Node[], Name extends EdgeIn<Nodes>["name"]>(
  topology: Declared<Nodes>,
  name: Name,
  ports: HostPorts,
): EdgeIn<Nodes, Name> extends Edge<infer Body, infer Facts, infer Out> ? HostedEdge<Body, Facts, Out> : never => {
  const edge = edgeNamed(topology, name);
  // Events get their position only in the log, and the wire writes none.
  const nowhere: Position = { topic: edge.to.name, partition: -1, offset: -1 };
  const hosted: HostedEdge<Events, unknown, unknown> = {
    name,
    accepts: edge.accepts,
    take: (body, arrival, facts, onAccepted = () => undefined) =>
      taking({ edge, nowhere, topology, ...ports }, body, { arrival, facts, onAccepted }),
  };
  return hosted as never;
};

const edgeNamed = (topology: Topology, name: string): AnyEdge => {
  const found = edgesOf(topology).find((edge) => edge.name === name);
  if (found === undefined) throw new Error(`${name} is no edge of ${topology.name} that takes requests`);
  return found;
};
