// What reprocessing asks of the world, and what it is asked to do. Nothing here can write.

import type { Credit, Enrichment, Fraud } from "../../../schemas/generated.ts";
import type { AnyTopic, Read, Topology, UnixMs } from "../../../stream/flow.ts";
import type { Memory } from "../../../stream/memory/memory.ts";
import type { InputBatch } from "../../../stream/messages.ts";
import type { Withholds } from "../../../stream/ports.ts";
import { type StageIn, stagesOf } from "../../../stream/topology.ts";
import type { Wire } from "../../../stream/wire.ts";
import { pipeline } from "../../../topology.ts";

/**
 * From which stage on events are computed again; what stages before it found out is taken as it was
 * recorded. `commission`: who is credited stays.
 */
export type ReprocessStage = Exclude<StageIn<(typeof pipeline)["declared"]>["name"], "settle">;
export const stages = stagesOf(pipeline)
  .map(({ name }) => name as StageIn<(typeof pipeline)["declared"]>["name"])
  // What was settled once is answered with what was recorded of it.
  .filter((name): name is ReprocessStage => name !== "settle");

export interface ReprocessSettings {
  /** Of receipt: first millisecond, and the first one after. */
  readonly from: UnixMs;
  readonly to: UnixMs;
  readonly stage: ReprocessStage;
  /** Null: every client. */
  readonly clientId: number | null;
  /** What people have decided is replaced as well. */
  readonly overridesDecisions: boolean;
  readonly actor: string;
  readonly reason: string;
}

/** An event's row as it stands in the analytics store, but for the event itself. */
export interface LatestRow {
  readonly version: number;
  readonly merged_into: string | null;
  readonly enrichment: Enrichment;
  readonly fraud: Fraud;
  readonly credit: Credit;
}

/**
 * Messages of a topic that were appended in a span, of each partition in their order. `until` null:
 * to the end that the topic has now.
 */
export type ReadSpan = (
  topic: AnyTopic,
  span: { readonly from: UnixMs; readonly until: UnixMs | null },
  onBatch: (batch: InputBatch) => Promise<void> | void,
) => Promise<void>;

export interface ReprocessPorts {
  readonly topology: Topology;
  /** Opened for every topic of the topology. */
  readonly wire: Wire;
  /**
   * Serves the pictures of today; hints need not be among them, for those are read off the events.
   */
  readonly read: Read;
  /** What settle and commission remember; only read. */
  readonly memory: Pick<Memory, "load">;
  readonly span: ReadSpan;
  /** By event id; an event that is not stored is absent. */
  readonly standing: (
    clientId: number,
    events: readonly { readonly event_id: string; readonly ts: UnixMs }[],
  ) => Promise<ReadonlyMap<string, LatestRow>>;
  /**
   * What belongs to an erased subject, of which nothing may be read or written any more; undefined:
   * no subject was erased.
   */
  readonly withholds?: Withholds | undefined;
  /** When it is decided; also what is "today". */
  readonly now: UnixMs;
  readonly limits: Limits;
}

/** Each bounds memory: what a claim or a change costs here is about 2 kB. */
export interface Limits {
  readonly events: number;
  readonly claims: number;
  readonly changes: number;
}
export const defaultLimits: Limits = { events: 5_000_000, claims: 300_000, changes: 100_000 };

/** More than is held in memory at once. The message names the cure. */
export class TooMuch extends Error {
  constructor(what: string, most: number) {
    super(
      `the window holds more than ${most.toLocaleString("en-US")} ${what}; reprocess it in shorter ` +
        "windows (--from, --to), or one client at a time (--client)",
    );
    this.name = "TooMuch";
  }
}
