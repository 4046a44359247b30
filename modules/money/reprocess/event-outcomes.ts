// Collects what today's stages make of each event, compares it with the stored row and counts.

import { orderKeyOf } from "../../../processors/attribute/claims.ts";
import { rowOfCopy } from "../../../processors/settle/copies/merge-copy.ts";
import { UNDONE, undoneRow } from "../../../processors/settle/undo/undone-row.ts";
import type { Claim, EventAttributed } from "../../../schemas/generated.ts";
import type { Recorded } from "../../../stream/flow.ts";
import { topics } from "../../../topics.ts";
import { type Change, changeOf, type DecisionInput } from "./changes.ts";
import type { Claims } from "./claims.ts";
import { changedParts, withStanding } from "./compare.ts";
import { type LatestRow, type ReprocessPorts, type ReprocessSettings, TooMuch } from "./ports.ts";
import type { ShadowOutput } from "./shadow.ts";

export interface RecomputedCounts {
  /** All events that were read, including journeys before the window. */
  readonly read: number;
  /** Events in the window. */
  readonly events: number;
  /** Events that are in no store: not processed yet, or lost. */
  readonly not_stored: number;
  /**
   * Custom events that would become conversions under today's contracts, and conversions that would
   * not.
   */
  readonly would_be_claims: number;
  readonly would_be_no_claims: number;
  /** Stored events that today's consent or code would drop. */
  readonly would_be_dropped: number;
  /** Events that would differ but were decided by a person. */
  readonly decided: number;
}

export const nothingRecomputed: RecomputedCounts = {
  read: 0,
  events: 0,
  not_stored: 0,
  would_be_claims: 0,
  would_be_no_claims: 0,
  would_be_dropped: 0,
  decided: 0,
};
type Counting = { -readonly [Name in keyof RecomputedCounts]: number };

/** The stored rows of a batch by event id: conversions near the window, and other events in it. */
export interface StoredRows {
  readonly claimed: ReadonlyMap<string, EventAttributed>;
  readonly standing: ReadonlyMap<string, LatestRow>;
  readonly isSettled: Claims["isSettled"];
}

export const isReceivedIn = ({ receivedAt }: Recorded<unknown>, { from, to }: ReprocessSettings): boolean =>
  receivedAt >= from && receivedAt < to;

/** Today's row of a refund that settle found to be a copy, or that an undo has withdrawn. */
const asSettled = (row: EventAttributed, { merged_into: into, credit }: LatestRow): EventAttributed => {
  if (into === null) return row;
  return credit.reason === UNDONE ? undoneRow(row, row.version, into) : rowOfCopy(row, into);
};

/**
 * Returns the change of an event that is no line of an order; null if its stored row stays the
 * same.
 */
const changeOfEvent = (
  made: Recorded<EventAttributed>,
  standing: LatestRow,
  { stage, overridesDecisions: overrides }: ReprocessSettings,
  deciding: DecisionInput,
): Change | "decided" | null => {
  const today = {
    ...withStanding(standing, asSettled(made.data, standing), stage),
    version: standing.version,
    merged_into: standing.merged_into,
  };
  const { enrichment, fraud, credit } = standing;
  const before: EventAttributed = { ...today, enrichment, fraud, credit };
  const parts = changedParts(before, today, stage);
  if (parts.length === 0) return null;
  if (!overrides && credit.candidates.some(({ method }) => method === "decision")) return "decided";
  const about = { order_key: orderKeyOf(today.event), at: made.at, before, today, parts };
  return changeOf(deciding, { scope: "event", ...about, review: null, claimed_by: [], overrides });
};

/** Keeps today's rows of conversions, encoded: a run may hold hundreds of thousands. */
const openRows = ({ wire }: Pick<ReprocessPorts, "wire">) => {
  const rows = new Map<string, Buffer>();
  return {
    /** The first arrival is the one that was settled, so a later one is left out. */
    keep: (event: Recorded<EventAttributed>): void => {
      if (!rows.has(event.id)) rows.set(event.id, wire.encode(topics.eventsAttributed, event, null));
    },
    rowOf: (eventId: string): EventAttributed | undefined => {
      const bytes = rows.get(eventId);
      const nowhere = { topic: topics.eventsAttributed.name, partition: -1, offset: -1 };
      return bytes === undefined ? undefined : wire.decode(topics.eventsAttributed, bytes, nowhere).data;
    },
  };
};

/** The row that an output carries, and whether its event is a conversion today. */
const rowIn = ({ topic, event }: ShadowOutput): { row: Recorded<EventAttributed>; isConversion: boolean } => {
  if (topic !== topics.claims) return { row: event, isConversion: false };
  const { attributed, kind } = event.data as Claim;
  return { row: { ...event, data: attributed }, isConversion: kind === "conversion" };
};

export const openOutcomes = (
  { wire, limits }: Pick<ReprocessPorts, "wire" | "limits">,
  settings: ReprocessSettings,
  deciding: DecisionInput,
) => {
  const conversions = openRows({ wire });
  const changes = new Map<string, Change>();
  const counts: Counting = { ...nothingRecomputed };
  const compare = (made: Recorded<EventAttributed>, standing: LatestRow): void => {
    const change = changeOfEvent(made, standing, settings, deciding);
    if (change === "decided") counts.decided += 1;
    else if (change !== null) changes.set(made.id, change);
    if (changes.size > limits.changes) throw new TooMuch("events that would change", limits.changes);
  };
  /** Keeps today's row of a settled conversion, and compares or counts every other event. */
  const take = (output: ShadowOutput, { claimed, standing, isSettled }: StoredRows): void => {
    const { row, isConversion } = rowIn(output);
    const isClaimed = claimed.has(row.id);
    // A dead letter: the id is that of a sale of another order.
    if (isClaimed && output.topic === topics.claims && !isSettled(row.data.event)) return;
    const stands = standing.get(row.id);
    if (isConversion && isClaimed) conversions.keep(row);
    else if (!isReceivedIn(row, settings)) return;
    else if (isClaimed) counts.would_be_no_claims += 1;
    else if (stands === undefined) counts.not_stored += 1;
    else if (isConversion) counts.would_be_claims += 1;
    else compare(row, stands);
  };
  return {
    counts,
    changes,
    /** Takes the outputs that the stages made of a batch of events. */
    add: (events: readonly Recorded<unknown>[], outputs: readonly ShadowOutput[], stored: StoredRows): void => {
      const left = new Set(events.filter((event) => isReceivedIn(event, settings)).map(({ id }) => id));
      counts.events += left.size;
      for (const output of outputs) {
        left.delete(output.event.id);
        take(output, stored);
      }
      // Counts stored events that would be dropped; an event that was never stored was dropped
      // already.
      for (const id of left) if (stored.claimed.has(id) || stored.standing.has(id)) counts.would_be_dropped += 1;
    },
    rowOf: conversions.rowOf,
  };
};
