// Hosts a chain of stages: one batch of one partition through six steps, whose order is the
// delivery guarantee.
import { hit } from "#failpoint";
import type { Chain } from "./chain.ts";
import { decodeBatch, unreadLetter } from "./decode.ts";
import type { Recorded } from "./flow.ts";
import { type Folded, fold, type Given, ProcessorThrew, type Refused } from "./fold.ts";
import type { Loaded, Memory, Remembering } from "./memory/memory.ts";
import type { Control, InputBatch, OutputMessage, ProcessBatch, RunnerPorts } from "./messages.ts";
import { reportStop } from "./stop.ts";

/**
 * Lost memory is made up for by reading the partition again up to where it had been committed; fast
 * memory throws the outputs away, durable produces what it decides.
 */
interface Lost {
  readonly from: number;
  readonly until: number;
  /** Outputs are discarded. */
  readonly isSilent: boolean;
}
interface FoldedChain {
  readonly folded: readonly Folded[];
  /** Up to where every memory of the chain knows the partition; infinite when there is none. */
  readonly mark: number;
}

/**
 * Two owners overlap for one batch or two; whoever is still overtaken after 20 loads is not
 * overtaken but broken.
 */
const MOST_FOLDS = 20;

/**
 * The function that a consumer calls for each batch of a partition. Rejects only when the worker
 * must stop: it restarts at the committed offset.
 */
export const runner = (chain: Chain, ports: RunnerPorts): ProcessBatch => {
  const { wire, memories, retry, log } = ports;
  /** By partition: only while lost memory is made up for. */
  const rebuilding = new Map<number, Lost>();

  const letterOf = (refused: Refused, { topic, partition }: InputBatch): OutputMessage =>
    ports.deadLetter({
      to: ports.deadLetters(refused.event),
      stage: refused.stage,
      code: refused.reason,
      message: refused.reason,
      position: { topic, partition, offset: refused.source.offset },
      key: refused.key,
      value: refused.value,
      headers: refused.source.headers,
    });

  const foldChain = async (events: readonly Given[], batch: InputBatch, control: Control): Promise<FoldedChain> => {
    const { topic, partition } = batch;
    const folded: Folded[] = [];
    let mark = Number.POSITIVE_INFINITY;
    let given = events;
    for (const hosted of chain.hosted) {
      const { name, memory, facts } = hosted.stage;
      const inputs = given.map(({ event }) => event);
      const load = async (): Promise<Loaded | null> => {
        if (memory === undefined) return null;
        const keys = [...new Set(inputs.flatMap((event) => memory.keysOf(event)))];
        const eventIds = memory.driver === "durable" ? [...new Set(inputs.map(({ id }) => id))] : [];
        return memories[memory.driver].load({ stage: name, keys, eventIds, topic, partition });
      };
      const look = async (): Promise<(event: Recorded<any>) => unknown> =>
        facts === undefined || inputs.length === 0 ? () => null : facts.load(inputs, ports.read);
      const [loaded, factsOf] = await retry("load", () => Promise.all([load(), look()]), control.heartbeat);
      if (loaded !== null) mark = Math.min(mark, loaded.mark ?? 0);
      const one = fold(hosted, given, factsOf, loaded, wire);
      folded.push(one);
      given = one.next;
    }
    return { folded, mark };
  };

  /** Durable memory first: it may refuse, and then nothing must have been remembered. */
  const remember = async (
    folded: readonly Folded[],
    batch: InputBatch,
    nextOffset: number,
  ): ReturnType<Memory["remember"]> => {
    for (const driver of ["durable", "fast"] as const) {
      const remembering = folded.flatMap(({ remembers }, n): readonly Remembering[] => {
        if (remembers === null || chain.hosted[n]!.stage.memory?.driver !== driver) return [];
        return [{ ...remembers, topic: batch.topic, partition: batch.partition, mark: nextOffset }];
      });
      const verdict = remembering.length === 0 ? "remembered" : await memories[driver].remember(remembering);
      if (verdict !== "remembered") return verdict;
    }
    return "remembered";
  };

  /**
   * Memory ends before this batch although the group had committed up to it: the partition is read
   * again from where memory ends.
   */
  const rereadFrom = ({ topic, partition, messages }: InputBatch, mark: number, control: Control): void => {
    const isSilent = chain.hosted.every(({ stage }) => stage.memory?.driver !== "durable");
    const past = { from: mark, until: messages[0]!.offset, isSilent };
    rebuilding.set(partition, past);
    log.warn("memory.lost", { chain: chain.name, topic, partition, ...past });
    control.seek(mark);
  };

  /**
   * What retention has taken is relearned from where it is kept, under its old offsets, so that
   * memory becomes what it was; what is kept nowhere cannot be. A group that begins on such a log
   * has lost nothing; money that was decided there has. Dying here costs nothing: the next owner
   * goes on behind what is remembered by then.
   */
  const rebuildMemory = async (
    { topic, partition, messages }: InputBatch,
    past: Lost,
    control: Control,
  ): Promise<void> => {
    const until = messages[0]!.offset;
    let { from } = past;
    if (until <= from) return;
    if (!past.isSilent && from > 0)
      throw new Error(`${chain.name}: memory ends at ${from} of ${topic}/${partition}, and the log begins at ${until}`);
    const missing = (found: number): void => {
      if (found > from) log.warn("memory.truncated", { chain: chain.name, topic, partition, from, found });
    };
    if (past.isSilent && ports.past !== undefined)
      for await (const batch of ports.past(topic, partition, from, until)) {
        await control.heartbeat();
        if (!control.isCurrent()) return;
        missing(batch.from);
        if (batch.messages.length > 0) await runUpTo(batch, control, past, false);
        from = batch.until;
        log.info("memory.relearned", { chain: chain.name, topic, partition, from, until: past.until, read: "past" });
      }
    missing(until);
  };

  const run = async (batch: InputBatch, control: Control, past: Lost | null, mayLookBack: boolean): Promise<void> => {
    const startedAt = performance.now();
    const nextOffset = batch.messages.at(-1)!.offset + 1;

    // 1 decode. Dying here costs nothing: the batch is read again.
    const learn = async (ids: readonly number[]): Promise<void> => {
      await retry("learn", () => Promise.all(ids.map((id) => wire.learn(id))), control.heartbeat);
    };
    const { given, unread } = await decodeBatch(chain.reads, batch, { wire, learn });
    hit("after-decode");

    let folded: readonly Folded[] = [];
    for (let folds = 1; ; folds++) {
      // 2 load facts and memory in bulk, fold. Dying here costs nothing: nothing is remembered,
      // nothing is out.
      const chained = await foldChain(given, batch, control);
      folded = chained.folded;
      hit("after-fold");
      if (mayLookBack && chained.mark < batch.messages[0]!.offset) return rereadFrom(batch, chained.mark, control);

      // 3 remember. Dying after it costs a second fold: the batch meets the same state, or its
      // recorded outcomes.
      await control.heartbeat();
      if (!control.isCurrent()) return;
      const verdict = await retry("remember", () => remember(folded, batch, nextOffset), control.heartbeat);
      if (verdict === "remembered") break;
      // Memory was emptied under the fold, perhaps while it was made up for: from the committed
      // place on, where its loss is seen and looked back for.
      if (verdict === "lost") {
        rebuilding.delete(batch.partition);
        return control.seek(past?.until ?? batch.messages[0]!.offset);
      }
      if (folds === MOST_FOLDS)
        throw new Error(`${chain.name}: memory moved under ${folds} folds of ${batch.topic}/${batch.partition}`);
    }
    hit("after-remember");

    // 4 produce what is recorded, and the dead letters. Dying after it costs duplicates in the log:
    // the same ids with the same contents.
    const outputs = [
      ...folded.flatMap((one) => one.outputs),
      ...unread.map((one) => ports.deadLetter(unreadLetter(chain.name, ports.deadLetters, one))),
      ...folded.flatMap((one) => one.refused.map((refused) => letterOf(refused, batch))),
    ];
    if (!control.isCurrent()) return;
    if (past?.isSilent !== true && outputs.length > 0)
      await retry("produce", () => ports.produce(outputs), control.heartbeat);
    hit("after-produce");

    // 5 commit the input offset. Dying after it costs the counts of this batch: metrics miss it,
    // the data does not.
    await control.heartbeat();
    if (past !== null || !control.isCurrent()) return;
    await retry("commit", () => control.commit(nextOffset), control.heartbeat);
    hit("after-commit");

    // 6 count, once a batch; nothing before the commit is counted.
    ports.count({
      chain: chain.name,
      topic: batch.topic,
      partition: batch.partition,
      messages: batch.messages.length,
      unreadable: unread.length,
      stages: folded.map(({ counts }) => counts),
      seconds: (performance.now() - startedAt) / 1000,
    });
  };

  /**
   * A message that no processor survives stops the worker, but what came before it goes through
   * first, so that the group stands exactly there.
   */
  const runUpTo = async (
    batch: InputBatch,
    control: Control,
    past: Lost | null,
    mayLookBack: boolean,
  ): Promise<void> => {
    try {
      await run(batch, control, past, mayLookBack);
    } catch (error) {
      // Whoever has lost the partition has not stopped at a message of it.
      if (!control.isCurrent()) throw error;
      const offset = error instanceof ProcessorThrew ? error.offset : batch.messages[0]!.offset;
      const messages = batch.messages.filter((message) => message.offset < offset);
      if (messages.length > 0) await run({ ...batch, messages }, control, past, mayLookBack);
      // It turned out that memory must be relearned first, or that the partition is gone: the
      // message comes again.
      if (!control.isCurrent()) return;
      await reportStop(ports, chain.name, { topic: batch.topic, partition: batch.partition, offset }, error);
      throw error;
    }
  };

  return async (batch, control) => {
    const { topic, partition, messages } = batch;
    const past = rebuilding.get(partition);
    if (past === undefined) return runUpTo(batch, control, null, true);
    // What was committed before stands: the partition is only read on, up to there.
    await rebuildMemory(batch, past, control);
    if (!control.isCurrent()) return;
    const before = messages.filter(({ offset }) => offset < past.until);
    const after = messages.filter(({ offset }) => offset >= past.until);
    if (before.length > 0) {
      await runUpTo({ ...batch, messages: before }, control, past, false);
      if (!control.isCurrent()) return;
      const from = before.at(-1)!.offset + 1;
      rebuilding.set(partition, { ...past, from });
      log.info("memory.relearned", { chain: chain.name, topic, partition, from, until: past.until });
      if (after.length === 0) return control.seek(from);
    }
    rebuilding.delete(partition);
    await runUpTo({ ...batch, messages: after }, control, null, false);
  };
};
