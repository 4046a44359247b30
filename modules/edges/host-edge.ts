// Runs an edge of the topology: what a request brings is admitted, encoded for the edge's topic and
// stored by the way that every edge has, before its sender is answered.
import { setImmediate } from "node:timers/promises";
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
} from "../../stream/flow.ts";
import type { OutputMessage } from "../../stream/messages.ts";
import { type EdgeIn, edgesOf } from "../../stream/topology.ts";
import type { Wire } from "../../stream/wire.ts";
import { letterKindOf } from "../dead-letters/failure.ts";
import type { Path } from "./path.ts";

export interface HostPorts {
  readonly wire: () => Wire;
  readonly path: Pick<Path, "store">;
}

/** An event that was refused, and its place in the body. */
export interface RefusedEvent {
  readonly index: number;
  readonly refused: Extract<Admission<never>, { readonly kind: "refused" }>;
}
export interface Taken {
  readonly accepted: number;
  /** How many, by code. */
  readonly refused: ReadonlyMap<string, number>;
  /** The first of them. */
  readonly errors: readonly RefusedEvent[];
  /** Resolve once all that was accepted is stored for good; reject when no place takes it. */
  readonly stored: readonly Promise<void>[];
}

export interface HostedEdge<Body, Facts, Out> {
  readonly name: string;
  readonly accepts: (body: unknown) => Body;
  /** Resolves when all is admitted; `onAccepted` is called for each event that was accepted. */
  readonly take: (body: Body, arrival: Arrival, facts: Facts, onAccepted?: (data: Out) => void) => Promise<Taken>;
}

/** One slice blocks the loop for about 15 ms; a send to the log holds as many. */
const SLICE = 1_000;
const MAX_ERRORS = 1_000;

/** Admitted slice by slice, so that other requests get their turn while earlier slices are stored. */
const taking = async (
  hosted: { readonly edge: AnyEdge; readonly nowhere: Position; readonly topology: Topology } & HostPorts,
  body: Events,
  given: { readonly arrival: Arrival; readonly facts: unknown; readonly onAccepted: (data: any) => void },
): Promise<Taken> => {
  const { edge, nowhere, topology, path } = hosted;
  const { arrival, facts, onAccepted } = given;
  const wire = hosted.wire();
  const refused = new Map<string, number>();
  const errors: RefusedEvent[] = [];
  const stored: Promise<void>[] = [];
  let accepted = 0;
  for (let from = 0; from < body.events.length; from += SLICE) {
    if (from > 0) await setImmediate();
    const messages: OutputMessage[] = [];
    let first: Recorded<unknown> | undefined;
    const slice = { ...body, events: body.events.slice(from, from + SLICE) };
    for (const [n, admission] of edge.admit(slice, arrival, facts).entries()) {
      if (admission.kind === "accepted") {
        const { id, at, data } = admission;
        const key = edge.to.keyOf(data);
        const event = { id, key, at, receivedAt: arrival.receivedAt, position: nowhere, data };
        first ??= event;
        messages.push({ topic: edge.to.name, key, value: wire.encode(edge.to, event, null) });
        onAccepted(data);
      } else {
        const { code } = admission.refusal;
        refused.set(code, (refused.get(code) ?? 0) + 1);
        if (errors.length < MAX_ERRORS) errors.push({ index: from + n, refused: admission });
      }
    }
    accepted += messages.length;
    if (first === undefined) continue;
    const kept = path.store(messages, letterKindOf(topology.deadLetters(first)));
    // Its failure is seen by who waits for all of them.
    kept.catch(() => undefined);
    stored.push(kept);
  }
  return { accepted, refused, errors, stored };
};

/**
 * The edge of that name, with the body, facts and records that its declaration has. Throws when a
 * topology has no such edge.
 */
export const hostEdge = <const Nodes extends readonly Node[], Name extends EdgeIn<Nodes>["name"]>(
  topology: Declared<Nodes>,
  name: Name,
  ports: HostPorts,
): EdgeIn<Nodes, Name> extends Edge<infer Body, infer Facts, infer Out> ? HostedEdge<Body, Facts, Out> : never => {
  const edge = edgeNamed(topology, name);
  // Events have no position yet where they enter, and the wire writes none.
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
