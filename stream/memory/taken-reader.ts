// What the log says of events whose id was taken when they came: a stage that reads its partitions
// again into empty memory may meet such an event before the first one of its id.

import type { Chain } from "../chain.ts";
import { decodeBatch } from "../decode.ts";
import type { AnyStage, Conflict, Recorded, TakenIdRecorder } from "../flow.ts";
import type { InputBatch } from "../messages.ts";
import type { OffsetRanges, RunnerPorts } from "../ports.ts";
import { nothingTaken, type TakenIds, takenName } from "./taken-ids.ts";

/** What a chain knows of taken ids between two losses of its memory. */
export interface KnownTaken {
  /**
   * Reads the log at the first call, and at the first one after `forget`. `isAgain`: for events
   * that were decided before memory was lost.
   */
  readonly of: (place: Place, steps: Steps, isAgain: boolean) => Promise<TakenIds>;
  readonly forget: () => void;
}

type Place = Pick<InputBatch, "topic" | "partition">;
type ReadPorts = Pick<RunnerPorts, "memories" | "wire" | "whole" | "committed" | "log">;
type TakingStage = AnyStage & { readonly taken: TakenIdRecorder<any> };
interface Steps {
  readonly retried: <T>(step: () => Promise<T>) => Promise<T>;
  readonly heartbeat: () => Promise<void>;
}

/** Ids that memory is asked for at once. */
const IDS_AT_ONCE = 1_000;
/** About 50 MB. Claims beyond these are decided as they are read. */
const MOST_AWAITED = 300_000;

export const knownTaken = (chain: Chain, ports: ReadPorts): KnownTaken => {
  const stage = chain.hosted.map((one) => one.stage).find((one): one is TakingStage => one.taken !== undefined);
  let known: TakenBy | null = null;
  return {
    of: async (place, steps, isAgain) => {
      if (stage === undefined) return nothingTaken;
      known ??= await steps.retried(() => readTaken(stage, ports, place, steps));
      return isAgain ? known.again : known.fresh;
    },
    forget: () => {
      known = null;
    },
  };
};

/** What is known for events that are decided again, and for those that come for the first time. */
interface TakenBy {
  readonly again: TakenIds;
  readonly fresh: TakenIds;
}

/** Nothing is taken unless memory was lost. */
const readTaken = async (stage: TakingStage, ports: ReadPorts, place: Place, steps: Steps): Promise<TakenBy> => {
  const recorded = await readRecorded(stage, ports, place, steps);
  const awaited = await readAwaited(stage, ports, steps, recorded);
  const again: TakenIds = recorded.size === 0 ? nothingTaken : { of: (event) => recorded.get(takenName(event)) };
  if (awaited.size === 0) return { again, fresh: again };
  const isAwaited = ({ id, key }: Pick<Recorded<unknown>, "id" | "key">) => (awaited.get(id) ?? key) !== key;
  const { awaits } = stage.taken;
  const fresh: TakenIds = {
    of: (event) => {
      const found = again.of(event);
      return found === undefined && isAwaited(event) ? awaits : found;
    },
  };
  return { again, fresh };
};

/**
 * What was recorded of ids that memory does not know. A record that cannot be read is passed over
 * with a warning.
 */
const readRecorded = async (
  stage: TakingStage,
  ports: ReadPorts,
  place: Place,
  { retried, heartbeat }: Steps,
): Promise<ReadonlyMap<string, Conflict | null>> => {
  const { to, read } = stage.taken;
  const found = new Map<string, Conflict | null>();
  const take = async (batch: InputBatch): Promise<void> => {
    const { given, unread } = await decodeBatch(to, batch, ports.wire, retried);
    if (unread.length > 0) ports.log.warn("taken.unreadable", { topic: to.name, records: unread.length });
    for (let n = 0; n < given.length; n += IDS_AT_ONCE) {
      const some = given.slice(n, n + IDS_AT_ONCE).map(({ event }) => event);
      const isDecided = await decidedAmong(stage, some, ports, place);
      for (const event of some) if (!isDecided(event.id)) found.set(takenName(event), read(event.data));
    }
  };
  await ports.whole?.(to.name, take, heartbeat);
  return found;
};

const decidedAmong = async (
  { name, memory }: AnyStage,
  events: readonly Recorded<any>[],
  { memories }: ReadPorts,
  place: Place,
): Promise<(id: string) => boolean> => {
  const eventIds = [...new Set(events.map(({ id }) => id))];
  const { outcomes } = await memories[memory!.driver].load({ stage: name, keys: [], eventIds, ...place });
  return (id) => outcomes.has(id);
};

/**
 * The record keys of events that were decided before memory was lost, by id. A partition is read
 * again at its next event, and until then another one may bring the id for the first time.
 */
const readAwaited = async (
  stage: TakingStage,
  ports: ReadPorts,
  { retried, heartbeat }: Steps,
  recorded: ReadonlyMap<string, unknown>,
): Promise<ReadonlyMap<string, string>> => {
  const awaited = new Map<string, string>();
  const lost = await lostRanges(stage, ports);
  if (lost.size === 0) return awaited;
  const take = async (batch: InputBatch): Promise<void> => {
    const { given } = await decodeBatch(stage.from, batch, ports.wire, retried);
    for (const { event } of given)
      if (awaited.size < MOST_AWAITED && !awaited.has(event.id) && !recorded.has(takenName(event)))
        awaited.set(event.id, event.key);
  };
  await ports.whole?.(stage.from.name, take, heartbeat, lost);
  if (awaited.size === MOST_AWAITED) ports.log.warn("taken.too_many", { topic: stage.from.name, ids: MOST_AWAITED });
  return awaited;
};

/** What the group had committed and memory does not know. Marks move before commits do. */
const lostRanges = async (
  { name, from: { name: topic }, memory }: TakingStage,
  { committed, memories }: ReadPorts,
): Promise<OffsetRanges> => {
  const ranges = new Map<number, { readonly from: number; readonly until: number }>();
  for (const [partition, until] of (await committed?.(topic)) ?? []) {
    const { mark } = await memories[memory!.driver].load({ stage: name, keys: [], eventIds: [], topic, partition });
    const from = mark ?? 0;
    if (from < until) ranges.set(partition, { from, until });
  }
  return ranges;
};
