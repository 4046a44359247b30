// Runs a chain of stages: each batch of a partition passes six steps, and their order is the
// delivery guarantee.
import { hit } from "#failpoint";
import type { Chain } from "./chain.ts";
import { countByCode, letterOf, unreadLetter } from "./dead-letters.ts";
import { type DecodedBatch, decodeBatch } from "./decode.ts";
import type { MemoryOf, Recorded } from "./flow.ts";
import {
  type FoldResult,
  folding,
  type HostedStage,
  ProcessorThrew,
  type StageInput,
  type StageRefusal,
} from "./fold.ts";
import type { LoadedMemory, Memory, MemoryWrite } from "./memory/memory.ts";
import { nothingTaken, type TakenIds } from "./memory/taken-ids.ts";
import { knownTaken } from "./memory/taken-reader.ts";
import type { InputBatch, OutputMessage, ProcessBatch } from "./messages.ts";
import { openPieces, type Pieces, SlowBatch } from "./pace/pieces.ts";
import type { RetriedStep, RunnerPorts } from "./ports.ts";
import { type LostRange, type RebuildTurn, rereadFrom, runRebuilding } from "./rebuild.ts";
import { reportStop } from "./stop.ts";

/** One batch and its context during the six steps. */
interface Turn extends RebuildTurn {
  readonly mayLookBack: boolean;
}

interface FoldedChain {
  readonly folded: readonly FoldResult[];
  /**
   * The lowest offset up to which every memory of the chain knows the partition. Infinite if no
   * stage has memory.
   */
  readonly mark: number;
}

/**
 * Two owners of a partition overlap for one or two batches. If memory still changes after 20 loads,
 * the cause is a fault and not an overlap.
 */
const MOST_FOLDS = 20;

const firstOf = ({ messages }: InputBatch): number => messages[0]!.offset;
const nextOf = ({ messages }: InputBatch): number => messages.at(-1)!.offset + 1;
const placeOf = ({ batch }: Turn): string => `${batch.topic}/${batch.partition}`;
/** The steps that take longer the more records a batch has. */
const CUTTABLE: ReadonlySet<RetriedStep> = new Set(["load", "remember"]);
const retried = <T>({ ports, control, isCuttable }: Turn, name: RetriedStep, step: () => Promise<T>): Promise<T> =>
  ports.retry(name, step, control.heartbeat, isCuttable && CUTTABLE.has(name));

/**
 * Runs the six steps. A step that finds its partition revoked or its memory lost leaves the batch
 * uncommitted; then the answer is false.
 */
const run = async (turn: Turn): Promise<boolean> => {
  const startedAt = performance.now();
  const decoded = await decode(turn);
  const learn = <T>(step: () => Promise<T>): Promise<T> => retried(turn, "learn", step);
  const steps = { retried: learn, heartbeat: turn.control.heartbeat };
  const takenIds = await turn.taken.of(turn.batch, steps, turn.past !== null);
  let folded: readonly FoldResult[] | null = null;
  for (let folds = 1; folded === null; folds++) {
    const chained = await foldChain(turn, decoded.given, takenIds);
    if (turn.mayLookBack && chained.mark < firstOf(turn.batch)) {
      rereadFrom(turn, chained.mark);
      return false;
    }
    const verdict = await remember(turn, chained.folded);
    if (verdict === "left") return false;
    if (verdict === "remembered") folded = chained.folded;
    else if (folds === MOST_FOLDS)
      throw new Error(`${turn.chain.name}: memory moved under ${folds} folds of ${placeOf(turn)}`);
  }
  if (!(await produce(turn, decoded, folded))) return false;
  if (!(await commit(turn))) return false;
  if (turn.past === null) count(turn, decoded, folded, startedAt);
  return true;
};

/** Step 1: decode. A crash here costs nothing, because the batch is read again. */
const decode = async (turn: Turn): Promise<DecodedBatch> => {
  const { chain, batch, ports } = turn;
  const decoded = await decodeBatch(chain.reads, batch, ports.wire, (step) => retried(turn, "learn", step));
  hit("after-decode");
  return decoded;
};

/**
 * Step 2: load facts and memory in bulk, then fold. A crash here costs nothing, because nothing is
 * stored or produced yet.
 */
const foldChain = async (turn: Turn, events: readonly StageInput[], takenIds: TakenIds): Promise<FoldedChain> => {
  const folded: FoldResult[] = [];
  let mark = Number.POSITIVE_INFINITY;
  let given = events;
  for (const hosted of turn.chain.hosted) {
    const one = await loadAndFold(hosted, given, turn.batch, turn.ports, {
      retried: (load) => retried(turn, "load", load),
      heartbeat: turn.control.heartbeat,
      takenIds,
    });
    mark = Math.min(mark, one.mark);
    folded.push(one.folded);
    given = one.folded.next;
  }
  hit("after-fold");
  return { folded, mark };
};

type Verdict = "remembered" | "moved" | "left";

/**
 * Step 3: remember. After a crash here the batch is folded again and sees the same state, or its
 * recorded outcomes.
 */
const remember = async (turn: Turn, folded: readonly FoldResult[]): Promise<Verdict> => {
  const { control, batch, rebuilding, past } = turn;
  await control.heartbeat();
  if (!control.isCurrent()) return "left";
  const verdict = await retried(turn, "remember", () => rememberAll(turn, folded));
  if (verdict === "remembered") hit("after-remember");
  if (verdict !== "lost") return verdict;
  // Memory was emptied during the fold, perhaps during a rebuild. Reading starts again at the
  // committed offset, where the loss is detected and a new rebuild begins.
  rebuilding.delete(batch.partition);
  control.seek(past?.until ?? firstOf(batch));
  return "left";
};

/**
 * Step 4: produce the recorded outputs, the dead letters, and records of ids that were taken. A
 * crash here costs duplicates in the log, with the same ids and contents. Returns false if the
 * batch must be left.
 */
const produce = async (turn: Turn, { unread }: DecodedBatch, folded: readonly FoldResult[]): Promise<boolean> => {
  const { chain, ports, batch, control, past } = turn;
  const outputs: readonly OutputMessage[] = ([] as readonly OutputMessage[]).concat(
    ...folded.map((one) => one.outputs),
    unread.map((one) => unreadLetter(ports, chain.name, batch, one)),
    ...folded.map((one) => one.refused.map((refused) => refusedLetter(turn, refused))),
    ...folded.map((one) => one.taken),
  );
  if (!control.isCurrent()) return false;
  if (past?.isSilent !== true && outputs.length > 0) await retried(turn, "produce", () => ports.produce(outputs));
  hit("after-produce");
  return true;
};

/**
 * Step 5: commit the input offset. A crash here costs only the metrics of this batch; no data is
 * lost. A rebuild is committed already. Returns false if the batch must be left.
 */
const commit = async (turn: Turn): Promise<boolean> => {
  const { control, batch, past } = turn;
  await control.heartbeat();
  if (!control.isCurrent()) return false;
  if (past !== null) return true;
  await retried(turn, "commit", () => control.commit(nextOf(batch)));
  hit("after-commit");
  return true;
};

/** Step 6: count, once a batch. Nothing is counted before the commit. */
const count = (
  { chain, ports, batch: { topic, partition, messages } }: Turn,
  { unread }: DecodedBatch,
  folded: readonly FoldResult[],
  startedAt: number,
): void =>
  ports.count({
    chain: chain.name,
    topic,
    partition,
    messages: messages.length,
    unreadable: countByCode(unread.map(({ error }) => error.code)),
    stages: folded.map(({ counts }) => counts),
    seconds: (performance.now() - startedAt) / 1000,
  });

/**
 * A fold that takes longer pauses for a heartbeat. A member that is silent for a session (10 s for
 * a stage) loses its partitions, and its folded work with them.
 */
const HEARTBEAT_MS = 1_000;

/**
 * While 16 events take less than a millisecond together, the clock is read only once in 16 events.
 */
const EVENTS_A_LOOK = 16;

const dueEvery = (ms: number): (() => boolean) => {
  let last = performance.now();
  // The first call comes before the first event, so it cannot measure how long events take.
  let looked = Number.NEGATIVE_INFINITY;
  let unseen = 0;
  return () => {
    if (--unseen > 0) return false;
    const now = performance.now();
    unseen = now - looked < 1 ? EVENTS_A_LOOK : 0;
    looked = now;
    if (now - last < ms) return false;
    last = now;
    return true;
  };
};

/** How loads are retried, and the heartbeat for which a long fold pauses. */
interface LoadSteps {
  readonly retried: <T>(load: () => Promise<T>) => Promise<T>;
  readonly heartbeat: () => Promise<void>;
  readonly takenIds: TakenIds;
}
const atOnce: LoadSteps = { retried: (load) => load(), heartbeat: async () => undefined, takenIds: nothingTaken };

const keysOfAll = (memory: MemoryOf<any>, events: readonly Recorded<any>[]): ReadonlySet<string> => {
  const keys = new Set<string>();
  for (const event of events) for (const key of memory.keysOf(event)) keys.add(key);
  return keys;
};

/**
 * Loads the memory and facts of one stage, then folds the events. `mark` is the offset up to which
 * its memory knows the partition, and infinite if the stage has no memory.
 */
export const loadAndFold = async (
  hosted: HostedStage,
  given: readonly StageInput[],
  { topic, partition }: Pick<InputBatch, "topic" | "partition">,
  { memories, read, wire }: Pick<RunnerPorts, "memories" | "read" | "wire">,
  { retried, heartbeat, takenIds }: LoadSteps = atOnce,
): Promise<{ readonly folded: FoldResult; readonly mark: number }> => {
  const { name, memory, facts } = hosted.stage;
  const inputs = given.map(({ event }) => event);
  const load = async (keys: readonly string[], eventIds: readonly string[]): Promise<LoadedMemory | null> =>
    memory === undefined ? null : memories[memory.driver].load({ stage: name, keys, eventIds, topic, partition });
  const look = async (): Promise<(event: Recorded<any>) => unknown> =>
    facts === undefined || inputs.length === 0 ? () => null : facts.load(inputs, read);
  const keys = memory === undefined ? [] : [...keysOfAll(memory, inputs)];
  const eventIds = memory?.driver === "durable" ? [...new Set(inputs.map(({ id }) => id))] : [];
  const [loaded, factsOf] = await retried(() => Promise.all([load(keys, eventIds), look()]));
  const steps = folding(hosted, given, { factsOf, loaded, wire, isDue: dueEvery(HEARTBEAT_MS), takenIds });
  let step = steps.next(null);
  while (!step.done) {
    const { value: further } = step;
    if (further.length === 0) await heartbeat();
    // This load is later than the first one. `remember` detects what changed in between.
    step = steps.next(further.length === 0 ? null : await retried(() => load(further, [])));
  }
  return { folded: step.value, mark: loaded === null ? Number.POSITIVE_INFINITY : (loaded.mark ?? 0) };
};

/** Writes durable memory first, because it may refuse; then nothing else may have been stored. */
const rememberAll = async (
  { chain, ports, batch }: Turn,
  folded: readonly FoldResult[],
): ReturnType<Memory["remember"]> => {
  for (const driver of ["durable", "fast"] as const) {
    const remembering = folded.flatMap(({ remembers }, n): readonly MemoryWrite[] => {
      if (remembers === null || chain.hosted[n]!.stage.memory?.driver !== driver) return [];
      return [{ ...remembers, topic: batch.topic, partition: batch.partition, mark: nextOf(batch) }];
    });
    const verdict = remembering.length === 0 ? "remembered" : await ports.memories[driver].remember(remembering);
    if (verdict !== "remembered") return verdict;
  }
  return "remembered";
};

const refusedLetter = ({ ports, batch }: Turn, refused: StageRefusal): OutputMessage => {
  const { stage, reason, message, event, source, key, value } = refused;
  return letterOf(ports, { by: stage, code: reason, message, event, batch, source, given: { key, value } });
};

/**
 * Runs the batch. If a processor throws at a message, the messages before it are still processed
 * and committed, so that the group stops exactly at that message.
 */
const runUpTo = async (turn: Turn): Promise<boolean> => {
  const { chain, ports, batch, control } = turn;
  try {
    return await run(turn);
  } catch (error) {
    // The partition was revoked, or the batch comes again in pieces, so the run did not stop at one
    // of its messages.
    if (!control.isCurrent() || error instanceof SlowBatch) throw error;
    const offset = error instanceof ProcessorThrew ? error.offset : firstOf(batch);
    const messages = batch.messages.filter((message) => message.offset < offset);
    // The second run left the batch because memory must be rebuilt or the partition is revoked. The
    // message will be read again.
    if (messages.length > 0 && !(await run({ ...turn, batch: { ...batch, messages } }))) return false;
    if (!control.isCurrent()) return false;
    await reportStop(ports, chain.name, { topic: batch.topic, partition: batch.partition, offset }, error);
    throw error;
  }
};

/**
 * Returns the function that a consumer calls for each batch of a partition. It rejects only when
 * the worker must stop; the worker then restarts at the committed offset. `pieces` may outlive the
 * runner.
 */
export const runner = (
  chain: Chain,
  ports: RunnerPorts,
  pieces: Pieces = openPieces(chain.name, ports),
): ProcessBatch => {
  const rebuilding = new Map<number, LostRange>();
  const taken = knownTaken(chain, ports);
  return (whole, control) =>
    pieces(whole, control, (batch) => {
      const past = rebuilding.get(batch.partition);
      const isCuttable = batch.messages.length > 1;
      const isLast = batch.messages.at(-1) === whole.messages.at(-1);
      const parts = { chain, ports, rebuilding, taken, batch, control, isCuttable, isLast };
      const turn = { ...parts, past: null, mayLookBack: past === undefined };
      return past === undefined ? runUpTo(turn) : runRebuilding(turn, past, runUpTo);
    });
};
