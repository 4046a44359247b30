// Rebuilds lost memory by reading a partition again from the offset where memory ends up to the
// offset that its group had committed.
import type { Chain } from "./chain.ts";
import type { KnownTaken } from "./memory/taken-reader.ts";
import type { Control, InputBatch } from "./messages.ts";
import type { RunnerPorts } from "./ports.ts";

/**
 * The offsets to read again to rebuild lost memory. Fast memory discards the outputs; durable
 * memory produces what it decides.
 */
export interface LostRange {
  readonly from: number;
  readonly until: number;
  /** True if outputs are discarded. */
  readonly isSilent: boolean;
}

/** The data of one batch that a rebuild needs. */
export interface RebuildTurn {
  readonly chain: Chain;
  readonly ports: RunnerPorts;
  /** By partition. Holds an entry only while memory is being rebuilt. */
  readonly rebuilding: Map<number, LostRange>;
  readonly batch: InputBatch;
  readonly control: Control;
  readonly taken: KnownTaken;
  /** Not null while memory is being rebuilt. */
  readonly past: LostRange | null;
  /** True if the batch may come again in smaller pieces. */
  readonly isCuttable: boolean;
  /** True if the fetch ends with this batch. */
  readonly isLast: boolean;
}
/** Resolves to false if the batch was left. */
type RunTurn<Turn extends RebuildTurn> = (turn: Turn) => Promise<boolean>;

/**
 * Memory ends before this batch although the group had committed up to it. Reads the partition
 * again from where memory ends.
 */
export const rereadFrom = ({ chain, ports, rebuilding, batch, control, taken }: RebuildTurn, mark: number): void => {
  const { topic, partition } = batch;
  const isSilent = chain.hosted.every(({ stage }) => stage.memory?.driver !== "durable");
  const past = { from: mark, until: batch.messages[0]!.offset, isSilent };
  rebuilding.set(partition, past);
  taken.forget();
  ports.log.warn("memory.lost", { chain: chain.name, topic, partition, ...past });
  control.seek(mark);
};

/**
 * Reads messages that retention has removed from the archive, under their original offsets, so that
 * memory becomes what it was. Messages that no archive holds stay lost: fast memory goes on with a
 * warning, while durable memory (money) throws if the log starts after offset 0. A crash here costs
 * nothing, because the next owner continues where memory then ends. Resolves to false if the
 * rebuild was left.
 */
const rebuildMemory = async <Turn extends RebuildTurn>(
  turn: Turn,
  past: LostRange,
  runUpTo: RunTurn<Turn>,
): Promise<boolean> => {
  const { chain, ports, control, rebuilding } = turn;
  const { topic, partition } = turn.batch;
  const until = turn.batch.messages[0]!.offset;
  let { from } = past;
  if (until <= from) return true;
  if (!past.isSilent && from > 0)
    throw new Error(`${chain.name}: memory ends at ${from} of ${topic}/${partition}, and the log begins at ${until}`);
  const missing = (found: number): void => {
    if (found > from) ports.log.warn("memory.truncated", { chain: chain.name, topic, partition, from, found });
  };
  if (past.isSilent && ports.past !== undefined)
    for await (const batch of ports.past(topic, partition, from, until)) {
      await control.heartbeat();
      if (!control.isCurrent()) return false;
      missing(batch.from);
      if (batch.messages.length > 0 && !(await runUpTo({ ...turn, batch, past, isCuttable: false }))) return false;
      from = batch.until;
      relearned(turn, { ...past, from }, { read: "past" });
    }
  missing(until);
  // The archive is not read again if the batch behind it comes in smaller pieces.
  rebuilding.set(partition, { ...past, from: until });
  return true;
};

const relearned = (
  { chain, ports, batch: { topic, partition } }: RebuildTurn,
  { from, until }: LostRange,
  more: object = {},
): void => ports.log.info("memory.relearned", { chain: chain.name, topic, partition, from, until, ...more });

/**
 * Runs a batch during a rebuild, up to the offset that the group had committed. That commit stays.
 * A batch that comes again goes on behind what is relearned. Resolves to false if it was left.
 */
export const runRebuilding = async <Turn extends RebuildTurn>(
  turn: Turn,
  past: LostRange,
  runUpTo: RunTurn<Turn>,
): Promise<boolean> => {
  const { batch, control, rebuilding, isLast } = turn;
  const { partition, messages } = batch;
  if (!(await rebuildMemory(turn, past, runUpTo))) return false;
  const before = messages.filter(({ offset }) => offset >= past.from && offset < past.until);
  const after = messages.filter(({ offset }) => offset >= past.until);
  if (before.length > 0) {
    if (!(await runUpTo({ ...turn, batch: { ...batch, messages: before }, past }))) return false;
    const rest = { ...past, from: before.at(-1)!.offset + 1 };
    rebuilding.set(partition, rest);
    if (isLast || rest.from === past.until) relearned(turn, rest);
  }
  if (after.length > 0) {
    if (!(await runUpTo({ ...turn, batch: { ...batch, messages: after } }))) return false;
    // Not before: if these were too slow, those before them come again too, and must stay silent.
    rebuilding.delete(partition);
  } else if (isLast) {
    // Without a commit, only a seek moves the position. One for each fetch, because it ends the
    // batch.
    control.seek(rebuilding.get(partition)!.from);
  }
  return true;
};
