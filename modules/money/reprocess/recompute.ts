// Runs today's stages over the events of the window and the conversions of its orders around it, on
// top of what had shaped the memory of their devices, and returns their results for every event.

import { nothingFound } from "../../../domain/nothing-found.ts";
import { allowedBy } from "../../../domain/personal/consent.ts";
import { MERGE_WINDOW_MS } from "../../../processors/settle/copies/merge-copy.ts";
import type { EventAttributed, EventReceived } from "../../../schemas/generated.ts";
import { chain } from "../../../stream/chain.ts";
import type { Recorded, Topology, UnixMs } from "../../../stream/flow.ts";
import { inMemory } from "../../../stream/memory/in-memory.ts";
import type { InputBatch } from "../../../stream/messages.ts";
import { stagesOf } from "../../../stream/topology.ts";
import { topics } from "../../../topics.ts";
import type { Change, DecisionInput } from "./changes.ts";
import type { Claims } from "./claims.ts";
import { isReceivedIn, openOutcomes, type RecomputedCounts, type StoredRows } from "./event-outcomes.ts";
import { openSearch } from "./log/event-search.ts";
import { decoded } from "./log/read-window.ts";
import { openSeeds, spaced } from "./log/seeds.ts";
import { type LatestRow, type ReprocessPorts, type ReprocessSettings, type ReprocessStage, TooMuch } from "./ports.ts";
import { shadow } from "./shadow.ts";
import type { TodaysFacts } from "./todays-facts.ts";

export interface Recomputation {
  /** Returns today's row, encoded, of every conversion near the window. */
  readonly rowOf: (eventId: string) => EventAttributed | undefined;
  /** Changes of events that are not lines of an order. */
  readonly changes: readonly Change[];
  readonly counts: RecomputedCounts;
}

const DAY_MS = 86_400_000;
/**
 * The journey of a client that is not in the reference data (docs/design/contracts.md, "Records").
 */
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

/**
 * The event as the first computed stage receives it: with the stored results of the stages before.
 */
const inputOf = (
  event: Recorded<EventReceived>,
  recorded: Recordings | undefined,
  stage: ReprocessStage,
): Recorded<any> => {
  if (stage === "enrich") return event;
  const { enrichment, fraud } = recorded ?? nothingFound;
  const seen = recorded === undefined ? event.data : (allowedBy(enrichment.consent, event.data) ?? event.data);
  return { ...event, data: stage === "score" ? { event: seen, enrichment } : { event: seen, enrichment, fraud } };
};

const standingOf = async (
  events: readonly Recorded<EventReceived>[],
  { standing }: Pick<ReprocessPorts, "standing">,
): Promise<ReadonlyMap<string, LatestRow>> => {
  const byClient = new Map<number, EventReceived[]>();
  for (const { data } of events) byClient.set(data.client_id, [...(byClient.get(data.client_id) ?? []), data]);
  const found = await Promise.all([...byClient].map(([id, some]) => standing(id, some)));
  return new Map(found.flatMap((rows) => [...rows]));
};

const storedRows = async (
  events: readonly Recorded<EventReceived>[],
  claims: Claims,
  settings: ReprocessSettings,
  ports: Pick<ReprocessPorts, "standing">,
): Promise<StoredRows> => {
  const { from, to } = settings;
  const isNear = ({ receivedAt }: Recorded<unknown>): boolean =>
    receivedAt >= from - MERGE_WINDOW_MS && receivedAt < to + MERGE_WINDOW_MS;
  const claimed = new Map(
    events.filter(isNear).flatMap((event) => {
      const row = claims.rowOf(event.id);
      return row === undefined ? [] : [[event.id, row] as const];
    }),
  );
  const others = events.filter((event) => isReceivedIn(event, settings) && !claimed.has(event.id));
  return { claimed, standing: await standingOf(others, ports), isSettled: claims.isSettled };
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
  const { from, stage } = settings;
  const names = eventStages(ports.topology);
  const seeds = openSeeds(ports, settings, { from: from - MERGE_WINDOW_MS, journeyMs: journeyMs(today, ports.now) });
  const search = await openSearch(ports, settings, claims);
  const fold = shadow(chain(ports.topology, names.slice(names.indexOf(stage))), {
    wire,
    memories: { fast: inMemory("fast"), durable: inMemory("durable") },
    read: today.read,
  });
  const { add, rowOf, changes, counts } = openOutcomes(ports, settings, deciding);
  const one = async (batch: InputBatch): Promise<void> => {
    const read = (await decoded(topics.eventsRaw, batch, ports, settings.clientId)).map(({ event }) => event);
    counts.read += read.length;
    const stored = await storedRows(read, claims, settings, ports);
    for (const { id, data } of read) if (!stored.claimed.has(id) || stored.isSettled(data)) search.found(id);
    const events = read.filter((event) => isReceivedIn(event, settings) || stored.claimed.has(event.id));
    await seeds.learn(events);
    const rows = new Map<string, Recordings>([...stored.standing, ...stored.claimed]);
    const given: Recorded<any>[] = [];
    const seeded = new Set<string>();
    for (const event of events) {
      for (const seed of seeds.before(event)) {
        seeded.add(seed.event.id);
        given.push(inputOf(seed.event, seed.row, stage));
        if (!rows.has(seed.event.id)) rows.set(seed.event.id, seed.row);
      }
      given.push(spaced(inputOf(event, rows.get(event.id), stage)));
    }
    counts.read += seeded.size;
    if (counts.read > limits.events) throw new TooMuch("events, clicks before it included,", limits.events);
    today.clear();
    for (const [id, row] of rows) today.recorded(id, row);
    for (const { id } of events) seeded.delete(id);
    const made = await fold(given, batch);
    add(
      events,
      made.filter(({ event }) => !seeded.has(event.id)),
      stored,
    );
    tell(counts.read);
  };
  for (let stretches = search.next(); stretches.length > 0; stretches = search.next())
    await ports.stretches(topics.eventsRaw, stretches, one);
  return { rowOf, changes: [...changes.values()], counts };
};
