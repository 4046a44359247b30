// The ports and settings of reprocessing. None of these ports can write.

import type { Credit, Enrichment, EventReceived, Fraud } from "../../../schemas/generated.ts";
import type { AnyTopic, Read, Topology, UnixMs } from "../../../stream/flow.ts";
import type { Memory } from "../../../stream/memory/memory.ts";
import type { InputBatch } from "../../../stream/messages.ts";
import type { WithholdFilter } from "../../../stream/ports.ts";
import { type StageIn, stagesOf } from "../../../stream/topology.ts";
import type { Wire } from "../../../stream/wire.ts";
import { pipeline } from "../../../topology.ts";

/**
 * The first stage that is computed again; results of the stages before it are taken from the store.
 * `commission`: credits stay as they are.
 */
export type ReprocessStage = Exclude<StageIn<(typeof pipeline)["declared"]>["name"], "settle">;
export const stages = stagesOf(pipeline)
  .map(({ name }) => name as StageIn<(typeof pipeline)["declared"]>["name"])
  // Settle is left out, because it returns its recorded outcome for every claim that it has
  // settled.
  .filter((name): name is ReprocessStage => name !== "settle");

export interface ReprocessSettings {
  /** Time of receipt: `from` inclusive, `to` exclusive. */
  readonly from: UnixMs;
  readonly to: UnixMs;
  readonly stage: ReprocessStage;
  /** Null: every client. */
  readonly clientId: number | null;
  /** Also replaces decisions made by people. */
  readonly overridesDecisions: boolean;
  readonly actor: string;
  readonly reason: string;
}

/** An event's row in the analytics store, without the event itself. */
export interface LatestRow {
  readonly version: number;
  readonly merged_into: string | null;
  readonly enrichment: Enrichment;
  readonly fraud: Fraud;
  readonly credit: Credit;
}

/** A time of the log, by when its messages were appended. */
export interface Stretch {
  readonly from: UnixMs;
  /** Null: up to the current end of the topic. */
  readonly until: UnixMs | null;
  /** Null: every partition. */
  readonly partition: number | null;
}

/**
 * Reads the messages of a topic that were appended in these stretches, in order within each
 * partition. A message in two stretches comes once.
 */
export type ReadStretches = (
  topic: AnyTopic,
  stretches: readonly Stretch[],
  onBatch: (batch: InputBatch) => Promise<void> | void,
) => Promise<void>;

export type ReceiptWindow = Pick<ReprocessSettings, "from" | "to" | "clientId">;

/** A claim as the index knows it. */
export interface IndexedClaim {
  readonly partition: number;
  readonly offset: number;
  readonly receivedAt: UnixMs;
  readonly isConversion: boolean;
}
/** The claims of every order that has a conversion in the window. */
export interface IndexedClaims {
  readonly orders: number;
  /** In the order of their partitions and offsets. */
  readonly claims: readonly IndexedClaim[];
}

/** An event that shaped what stages remember of its device, as it is stored. */
export interface ShapingEvent extends LatestRow {
  readonly event: EventReceived;
  readonly received_at: UnixMs;
}
interface DeviceQuestion {
  readonly client_id: number;
  readonly devices: readonly string[];
  /** The earliest time of an event, by its sender. */
  readonly since: UnixMs;
  /** False: also events that name a person. */
  readonly clicksOnly: boolean;
}

export interface ReprocessPorts {
  readonly topology: Topology;
  /** Opened for every topic of the topology. */
  readonly wire: Wire;
  /** Reads today's facts. Hints may be absent, because they are taken from the events. */
  readonly read: Read;
  /** The memory of settle and commission; only read. */
  readonly memory: Pick<Memory, "load">;
  readonly stretches: ReadStretches;
  /**
   * The index of claims. Rejects with CommandRefused if it does not hold all claims that were in
   * the log when it was called.
   */
  readonly indexed: (received: ReceiptWindow) => Promise<IndexedClaims>;
  /** Reads these claims, in their order. */
  readonly claimsAt: (
    claims: readonly IndexedClaim[],
    onBatch: (batch: InputBatch) => Promise<void> | void,
  ) => Promise<void>;
  /** The number of messages that Kafka holds of these stretches. */
  readonly messagesIn: (topic: AnyTopic, stretches: readonly Stretch[]) => Promise<number>;
  /** The number of stored events that were received in the window. */
  readonly countOf: (received: ReceiptWindow) => Promise<number>;
  /**
   * The ids of the events of the window that were stored after `since`. The log may have appended
   * them late.
   */
  readonly storedAfter: (received: ReceiptWindow, since: UnixMs) => Promise<readonly string[]>;
  /** The newest events that shaped the memory of devices, in any order, bounded for each device. */
  readonly shaping: (question: DeviceQuestion) => Promise<readonly ShapingEvent[]>;
  /** Returns rows by event id; an event that is not stored is absent. */
  readonly standing: (
    clientId: number,
    events: readonly { readonly event_id: string; readonly ts: UnixMs }[],
  ) => Promise<ReadonlyMap<string, LatestRow>>;
  /**
   * Tests for erased subjects, whose data must be neither read nor written; undefined when no
   * subject was erased.
   */
  readonly withholds?: WithholdFilter | undefined;
  /** The time of the decisions, and the meaning of "today". */
  readonly now: UnixMs;
  readonly limits: Limits;
}

/** Limits that bound memory: a claim or a change takes about 2 kB. */
export interface Limits {
  readonly events: number;
  readonly claims: number;
  readonly changes: number;
}
export const defaultLimits: Limits = { events: 5_000_000, claims: 300_000, changes: 100_000 };

/** The window holds more than fits into memory. The message says how to make it smaller. */
export class TooMuch extends Error {
  constructor(what: string, most: number) {
    super(
      `the window holds more than ${most.toLocaleString("en-US")} ${what}; reprocess it in shorter ` +
        "windows (--from, --to), or one client at a time (--client)",
    );
    this.name = "TooMuch";
  }
}
