// Runs today's stages over the window of events.raw, and over as much before it as journeys last,
// and returns what they make of every event.

import { nothingFound } from "../../../domain/nothing-found.ts";
import { orderKeyOf } from "../../../processors/attribute/claims.ts";
import { allowedBy } from "../../../processors/enrich/consent.ts";
import { MERGE_WINDOW_MS } from "../../../processors/settle/merge-copy.ts";
import type { Claim, EventAttributed, EventReceived } from "../../../schemas/generated.ts";
import { chain } from "../../../stream/chain.ts";
import type { Recorded, Topology, UnixMs } from "../../../stream/flow.ts";
import { inMemory } from "../../../stream/memory/in-memory.ts";
import type { InputBatch } from "../../../stream/messages.ts";
import { stagesOf } from "../../../stream/topology.ts";
import { topics } from "../../../topics.ts";
import { type Change, changeOf, type DecisionInput } from "./changes.ts";
import type { Claims } from "./claims.ts";
import { changedParts, withStanding } from "./compare.ts";
import { type LatestRow, type ReprocessPorts, type ReprocessSettings, TooMuch } from "./ports.ts";
import { decoded } from "./read-window.ts";
import { shadow } from "./shadow.ts";
import type { TodaysFacts } from "./todays-facts.ts";

export interface Recomputation {
  /** Returns today's row, encoded, of every conversion near the window. */
  readonly rowOf: (eventId: string) => EventAttributed | undefined;
  /** Changes of events that are not lines of an order. */
  readonly changes: readonly Change[];
  readonly counts: RecomputedCounts;
}
export interface RecomputedCounts {
  /** All events that were read, including journeys before the window. */
  readonly read: number;
  /** Events in the window. */
  readonly events: number;
  /** Events that are in no store: not processed yet, or lost. */
  readonly not_stored: number;
  /** Custom events that today's contracts would make conversions, or no longer. */
  readonly would_be_claims: number;
  readonly would_be_no_claims: number;
  /** Stored events that today's consent or code would drop. */
  readonly would_be_dropped: number;
  /** Events that would differ but were decided by a person. */
  readonly decided: number;
}

const DAY_MS = 86_400_000;
/** For a client that is not in the reference data (docs/design/contracts.md, "Records"). */
const DEFAULT_JOURNEY_DAYS = 30;

/** The longest time before an event that can affect it: the longest click window of a client. */
const journeyMs = ({ reference }: TodaysFacts, now: UnixMs): number => {
  const at = reference.at(now, now);
  const days = reference.clientIds.map((id) => at.client(id)?.click_window_days ?? DEFAULT_JOURNEY_DAYS);
  return Math.max(DEFAULT_JOURNEY_DAYS, ...days) * DAY_MS;
};

type Recordings = Pick<EventAttributed, "enrichment" | "fraud" | "credit">;

/** The stages that process events one by one: all that are keyed like the first topic. */
const eventStages = (topology: Topology): readonly string[] => {
  const stages = stagesOf(topology);
  return stages.filter(({ from }) => from.keyedBy === stages[0]?.from.keyedBy).map(({ name }) => name);
};

export const recompute = async (
  ports: ReprocessPorts,
  settings: ReprocessSettings,
  {
    claims,
    today,
    deciding,
    tell,
  }: {
    readonly claims: Claims;
    readonly today: TodaysFacts;
    readonly deciding: DecisionInput;
    readonly tell: (read: number) => void;
  },
): Promise<Recomputation> => {
  const { wire, limits } = ports;
  const { from, to, stage } = settings;
  const names = eventStages(ports.topology);
  const hosted = chain(ports.topology, names.slice(names.indexOf(stage)));
  const fold = shadow(hosted, {
    wire,
    memories: { fast: inMemory("fast"), durable: inMemory("durable") },
    read: today.read,
  });
  const todays = new Map<string, Buffer>();
  const changes = new Map<string, Change>();
  const count = {
    read: 0,
    events: 0,
    not_stored: 0,
    would_be_claims: 0,
    would_be_no_claims: 0,
    would_be_dropped: 0,
    decided: 0,
  };
  const isIn = ({ receivedAt }: Recorded<unknown>): boolean => receivedAt >= from && receivedAt < to;
  const isNear = ({ receivedAt }: Recorded<unknown>): boolean =>
    receivedAt >= from - MERGE_WINDOW_MS && receivedAt < to + MERGE_WINDOW_MS;

  /**
   * The event as the first computed stage receives it: with the stored results of the stages
   * before.
   */
  const given = (event: Recorded<EventReceived>, recorded: Recordings | undefined): Recorded<any> => {
    if (stage === "enrich") return event;
    const { enrichment, fraud } = recorded ?? nothingFound;
    const seen = recorded === undefined ? event.data : (allowedBy(enrichment.consent, event.data) ?? event.data);
    return { ...event, data: stage === "score" ? { event: seen, enrichment } : { event: seen, enrichment, fraud } };
  };

  const standingOf = async (events: readonly Recorded<EventReceived>[]): Promise<ReadonlyMap<string, LatestRow>> => {
    const byClient = new Map<number, EventReceived[]>();
    for (const { data } of events) byClient.set(data.client_id, [...(byClient.get(data.client_id) ?? []), data]);
    const found = await Promise.all([...byClient].map(([id, some]) => ports.standing(id, some)));
    return new Map(found.flatMap((rows) => [...rows]));
  };

  const compare = (made: Recorded<EventAttributed>, standing: LatestRow): void => {
    const target = {
      ...withStanding(standing, made.data, stage),
      version: standing.version,
      merged_into: standing.merged_into,
    };
    const before: EventAttributed = {
      ...target,
      enrichment: standing.enrichment,
      fraud: standing.fraud,
      credit: standing.credit,
    };
    const parts = changedParts(before, target, stage);
    if (parts.length === 0) return;
    const isDecided = standing.credit.candidates.some(({ method }) => method === "decision");
    if (isDecided && !settings.overridesDecisions) {
      count.decided += 1;
      return;
    }
    changes.set(
      made.id,
      changeOf(deciding, {
        scope: "event",
        order_key: orderKeyOf(target.event),
        at: made.at,
        before,
        today: target,
        review: null,
        claimed_by: [],
        overrides: settings.overridesDecisions,
        parts,
      }),
    );
    if (changes.size > limits.changes) throw new TooMuch("events that would change", limits.changes);
  };

  const one = async (batch: InputBatch): Promise<void> => {
    const events = (await decoded(topics.eventsRaw, batch, ports, settings.clientId)).map(({ event }) => event);
    count.read += events.length;
    if (count.read > limits.events) throw new TooMuch("events, journeys before it included,", limits.events);
    const claimed = new Map(
      events.filter(isNear).flatMap((event) => {
        const row = claims.rowOf(event.id);
        return row === undefined ? [] : [[event.id, row] as const];
      }),
    );
    const others = events.filter((event) => isIn(event) && !claimed.has(event.id));
    const standing = others.length === 0 ? new Map<string, LatestRow>() : await standingOf(others);
    today.clear();
    for (const [id, row] of [...claimed, ...standing]) today.recorded(id, row);
    const made = await fold(
      events.map((event) => given(event, claimed.get(event.id) ?? standing.get(event.id))),
      batch,
    );
    const left = new Set(events.filter(isIn).map(({ id }) => id));
    count.events += left.size;
    for (const { topic, event } of made) {
      left.delete(event.id);
      const isClaim = topic === topics.claims;
      const row: EventAttributed = isClaim ? (event.data as Claim).attributed : event.data;
      const isConversion = isClaim && (event.data as Claim).kind === "conversion";
      if (isConversion && claimed.has(event.id)) {
        // The first arrival is the one that was settled.
        if (!todays.has(event.id))
          todays.set(event.id, wire.encode(topics.eventsAttributed, { ...event, data: row }, null));
        continue;
      }
      if (!isIn(event)) continue;
      const stands = standing.get(event.id);
      if (claimed.has(event.id)) count.would_be_no_claims += 1;
      else if (stands === undefined) count.not_stored += 1;
      else if (isConversion) count.would_be_claims += 1;
      else compare({ ...event, data: row }, stands);
    }
    // Counts stored events that would be dropped; an event that was never stored was dropped
    // already.
    for (const id of left) if (claimed.has(id) || standing.has(id)) count.would_be_dropped += 1;
    tell(count.read);
  };

  const before = journeyMs(today, ports.now);
  await ports.span(topics.eventsRaw, { from: from - before, until: to + MERGE_WINDOW_MS }, one);
  return {
    rowOf: (eventId) => {
      const bytes = todays.get(eventId);
      const nowhere = { topic: topics.eventsAttributed.name, partition: -1, offset: -1 };
      return bytes === undefined ? undefined : wire.decode(topics.eventsAttributed, bytes, nowhere).data;
    },
    changes: [...changes.values()],
    counts: count,
  };
};
