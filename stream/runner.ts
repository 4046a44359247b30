// Hosts a chain of stages: one batch of one partition through six steps, whose order is the
// delivery guarantee.
import { hit } from "#failpoint";
import type { Chain } from "./chain.ts";
import { letterOf, unreadLetter } from "./dead-letters.ts";
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
import type { InputBatch, OutputMessage, ProcessBatch } from "./messages.ts";
import type { RetriedStep, RunnerPorts } from "./ports.ts";
import { type LostRange, type RebuildTurn, rereadFrom, runRebuilding } from "./rebuild.ts";
import { reportStop } from "./stop.ts";

/** One batch on its way through the steps. */
interface Turn extends RebuildTurn {
  readonly mayLookBack: boolean;
}

interface FoldedChain {
  readonly folded: readonly FoldResult[];
  /** Up to where every memory of the chain knows the partition; infinite when there is none. */
  readonly mark: number;
}

/**
 * Two owners overlap for one batch or two; one that is still overtaken after 20 loads is not
 * overtaken but broken.
 */
const MOST_FOLDS = 20;

const firstOf = ({ messages }: InputBatch): number => messages[0]!.offset;
const nextOf = ({ messages }: InputBatch): number => messages.at(-1)!.offset + 1;
const placeOf = ({ batch }: Turn): string => `${batch.topic}/${batch.partition}`;
const retried = <T>({ ports, control }: Turn, name: RetriedStep, step: () => Promise<T>): Promise<T> =>
  ports.retry(name, step, control.heartbeat);

/** The six steps. A step that finds the partition gone, or its memory lost, leaves the batch. */
const run = async (turn: Turn): Promise<void> => {
  const startedAt = performance.now();
  const decoded = await decode(turn);
  let folded: readonly FoldResult[] | null = null;
  for (let folds = 1; folded === null; folds++) {
    const chained = await foldChain(turn, decoded.given);
    if (turn.mayLookBack && chained.mark < firstOf(turn.batch)) return rereadFrom(turn, chained.mark);
    const verdict = await remember(turn, chained.folded);
    if (verdict === "left") return;
    if (verdict === "remembered") folded = chained.folded;
    else if (folds === MOST_FOLDS)
      throw new Error(`${turn.chain.name}: memory moved under ${folds} folds of ${placeOf(turn)}`);
  }
  if (!(await produce(turn, decoded, folded))) return;
  if (!(await commit(turn))) return;
  count(turn, decoded, folded, startedAt);
};

/** 1 decode. Dying here costs nothing: the batch is read again. */
const decode = async (turn: Turn): Promise<DecodedBatch> => {
  const { chain, batch, ports } = turn;
  const decoded = await decodeBatch(chain.reads, batch, ports.wire, (step) => retried(turn, "learn", step));
  hit("after-decode");
  return decoded;
};

/**
 * 2 load facts and memory in bulk, fold. Dying here costs nothing: nothing is remembered, nothing
 * is out.
 */
const foldChain = async (turn: Turn, events: readonly StageInput[]): Promise<FoldedChain> => {
  const folded: FoldResult[] = [];
  let mark = Number.POSITIVE_INFINITY;
  let given = events;
  for (const hosted of turn.chain.hosted) {
    const one = await loadAndFold(hosted, given, turn.batch, turn.ports, {
      retried: (load) => retried(turn, "load", load),
      heartbeat: turn.control.heartbeat,
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
 * 3 remember. Dying after it costs a second fold: the batch meets the same state, or its recorded
 * outcomes.
 */
const remember = async (turn: Turn, folded: readonly FoldResult[]): Promise<Verdict> => {
  const { control, batch, rebuilding, past } = turn;
  await control.heartbeat();
  if (!control.isCurrent()) return "left";
  const verdict = await retried(turn, "remember", () => rememberAll(turn, folded));
  if (verdict === "remembered") hit("after-remember");
  if (verdict !== "lost") return verdict;
  // Memory was emptied under the fold, perhaps while it was rebuilt: from the committed place on,
  // where its loss is seen and looked back for.
  rebuilding.delete(batch.partition);
  control.seek(past?.until ?? firstOf(batch));
  return "left";
};

/**
 * 4 produce what is recorded, and the dead letters. Dying after it costs duplicates in the log: the
 * same ids with the same contents. False: the batch is left.
 */
const produce = async (turn: Turn, { unread }: DecodedBatch, folded: readonly FoldResult[]): Promise<boolean> => {
  const { chain, ports, batch, control, past } = turn;
  const outputs: readonly OutputMessage[] = ([] as readonly OutputMessage[]).concat(
    ...folded.map((one) => one.outputs),
    unread.map((one) => unreadLetter(ports, chain.name, batch, one)),
    ...folded.map((one) => one.refused.map((refused) => refusedLetter(turn, refused))),
  );
  if (!control.isCurrent()) return false;
  if (past?.isSilent !== true && outputs.length > 0) await retried(turn, "produce", () => ports.produce(outputs));
  hit("after-produce");
  return true;
};

/**
 * 5 commit the input offset. Dying after it costs the counts of this batch: metrics miss it, the
 * data does not. False: nothing was committed.
 */
const commit = async (turn: Turn): Promise<boolean> => {
  const { control, batch, past } = turn;
  await control.heartbeat();
  if (past !== null || !control.isCurrent()) return false;
  await retried(turn, "commit", () => control.commit(nextOf(batch)));
  hit("after-commit");
  return true;
};

/** 6 count, once a batch; nothing before the commit is counted. */
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
    unreadable: unread.length,
    stages: folded.map(({ counts }) => counts),
    seconds: (performance.now() - startedAt) / 1000,
  });

/**
 * A fold that takes longer pauses for a heartbeat: who is silent for a session, 10 s for a stage,
 * loses its partitions, and with them all that it has folded.
 */
const HEARTBEAT_MS = 1_000;

/** While events take less than a millisecond together, the clock is looked at once in so many. */
const EVENTS_A_LOOK = 16;

const dueEvery = (ms: number): (() => boolean) => {
  let last = performance.now();
  // The first look is before the first event, and says nothing of how long they take.
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

/** How each load is tried, and what a long fold pauses for. */
interface LoadSteps {
  readonly retried: <T>(load: () => Promise<T>) => Promise<T>;
  readonly heartbeat: () => Promise<void>;
}
const atOnce: LoadSteps = { retried: (load) => load(), heartbeat: async () => undefined };

const keysOfAll = (memory: MemoryOf<any>, events: readonly Recorded<any>[]): ReadonlySet<string> => {
  const keys = new Set<string>();
  for (const event of events) for (const key of memory.keysOf(event)) keys.add(key);
  return keys;
};

/**
 * One stage over these events, with what it remembers of them and the facts that it looks up.
 * `mark`: up to where its memory knows the partition; infinite when it has none.
 */
export const loadAndFold = async (
  hosted: HostedStage,
  given: readonly StageInput[],
  { topic, partition }: Pick<InputBatch, "topic" | "partition">,
  { memories, read, wire }: Pick<RunnerPorts, "memories" | "read" | "wire">,
  { retried, heartbeat }: LoadSteps = atOnce,
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
  const steps = folding(hosted, given, { factsOf, loaded, wire, isDue: dueEvery(HEARTBEAT_MS) });
  let step = steps.next(null);
  while (!step.done) {
    const { value: further } = step;
    if (further.length === 0) await heartbeat();
    // Of a later moment than the first load: `remember` finds out what has moved in between.
    step = steps.next(further.length === 0 ? null : await retried(() => load(further, [])));
  }
  return { folded: step.value, mark: loaded === null ? Number.POSITIVE_INFINITY : (loaded.mark ?? 0) };
};

/** Durable memory first: it may refuse, and then nothing must have been remembered. */
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
 * A message that no processor survives stops the worker, but what came before it goes through
 * first, so that the group stands exactly there.
 */
const runUpTo = async (turn: Turn): Promise<void> => {
  const { chain, ports, batch, control } = turn;
  try {
    await run(turn);
  } catch (error) {
    // A member that has lost the partition has not stopped at a message of it.
    if (!control.isCurrent()) throw error;
    const offset = error instanceof ProcessorThrew ? error.offset : firstOf(batch);
    const messages = batch.messages.filter((message) => message.offset < offset);
    if (messages.length > 0) await run({ ...turn, batch: { ...batch, messages } });
    // It turned out that memory must be rebuilt first, or that the partition is gone: the message
    // comes again.
    if (!control.isCurrent()) return;
    await reportStop(ports, chain.name, { topic: batch.topic, partition: batch.partition, offset }, error);
    throw error;
  }
};

/**
 * The function that a consumer calls for each batch of a partition. Rejects only when the worker
 * must stop: it restarts at the committed offset.
 */
export const runner = (chain: Chain, ports: RunnerPorts): ProcessBatch => {
  const rebuilding = new Map<number, LostRange>();
  return (batch, control) => {
    const past = rebuilding.get(batch.partition);
    const turn = { chain, ports, rebuilding, batch, control, past: null, mayLookBack: past === undefined };
    return past === undefined ? runUpTo(turn) : runRebuilding(turn, past, runUpTo);
  };
};
