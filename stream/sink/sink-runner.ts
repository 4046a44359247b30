// Writes a topic into stores. The batches of one fetch, from all partitions, share one write; then
// each batch commits.
import { setImmediate } from "node:timers/promises";
import { hit } from "#failpoint";
import { unreadLetter } from "../dead-letters.ts";
import { decodeBatch, type ReadRecord } from "../decode.ts";
import type { AnySink } from "../flow.ts";
import type { Control, InputBatch, OutputMessage, ProcessBatch } from "../messages.ts";
import { openPieces, SlowBatch } from "../pace/pieces.ts";
import type { SinkPorts, WriteCounts } from "../ports.ts";
import { reportStop } from "../stop.ts";
import type { UnreadableCode } from "../wire.ts";
import { type ReadBatch, type Turn, writeSink } from "./sink-write.ts";

/** One batch that waits to be written together with others. */
interface Part {
  readonly batch: InputBatch;
  readonly control: Control;
  /** False if the part was left without a commit. */
  readonly resolve: (isCommitted: boolean) => void;
  readonly reject: (error: unknown) => void;
  /**
   * The error of the last heartbeat: this partition is lost. Its rows are written anyway, which is
   * harmless, but its offset is not committed.
   */
  lost?: unknown;
}

interface WrittenBatch {
  readonly letters: readonly OutputMessage[];
  readonly counts: readonly WriteCounts[];
}

/**
 * Runs the four steps. A partition that is lost before its commit is written again by its next
 * owner, without effect on the rows.
 */
const run = async (sinks: readonly AnySink[], ports: SinkPorts, joined: readonly Part[]): Promise<void> => {
  const parts = joined.filter(({ control }) => control.isCurrent());
  const isCuttable = parts.some(({ batch }) => batch.messages.length > 1);
  const turn: Turn = { sinks, topic: sinks[0]!.from, ports, heartbeat: () => heartbeat(parts), isCuttable };
  hit("before-write");
  const written = parts.length === 0 ? { letters: [], counts: [] } : await write(turn, parts);
  hit("after-write");
  await produce(turn, written);
  const { committed, refused } = await commit(turn, parts);
  hit("after-commit");
  for (const one of written.counts) ports.countWrite(one);
  for (const part of joined) {
    if (refused.has(part)) part.reject(refused.get(part));
    else part.resolve(committed.has(part));
  }
};

/**
 * Keeps each partition's heartbeat error apart, so that its consumer can tell a lost membership
 * from a broken sink.
 */
const heartbeat = async (parts: readonly Part[]): Promise<void> => {
  for (const part of parts) {
    try {
      await part.control.heartbeat();
    } catch (error) {
      part.lost = error;
    }
  }
};

/**
 * Step 1 reads and maps the records. Step 2 writes the rows, then marks what changed. A crash in
 * step 1 costs nothing. A crash later writes the same rows and marks again, and each key and
 * version still has one row.
 */
const write = async (turn: Turn, parts: readonly Part[]): Promise<WrittenBatch> => {
  const { read, withheld, unread, letters } = await readAll(turn, parts);
  const counts: WriteCounts[] = [];
  for (const sink of turn.sinks) {
    const written = await writeSink(turn, sink, { read, withheld, unread: counts.length === 0 ? unread : [] });
    letters.push(...written.letters);
    counts.push(written.counts);
  }
  return { letters, counts };
};

/**
 * Step 3 produces the dead letters before any offset moves. A letter that cannot be written holds
 * back all offsets.
 */
const produce = async ({ ports, heartbeat }: Turn, { letters }: WrittenBatch): Promise<void> => {
  if (letters.length > 0) await ports.retry("produce", () => ports.produce(letters), heartbeat);
};

/**
 * Step 4 commits every partition at the same time, because the log can take the commits as one
 * request. A crash in between writes the uncommitted part again. Returns the errors by partition; a
 * part that is neither committed nor refused was left.
 */
const commit = async (
  { ports }: Turn,
  parts: readonly Part[],
): Promise<{ readonly committed: ReadonlySet<Part>; readonly refused: ReadonlyMap<Part, unknown> }> => {
  const committed = new Set<Part>();
  const refused = new Map<Part, unknown>();
  await Promise.all(
    parts.map(async (part) => {
      const { batch, control, lost } = part;
      const next = batch.messages.at(-1)!.offset + 1;
      if (lost !== undefined) refused.set(part, lost);
      else if (control.isCurrent())
        await ports
          .retry("commit", () => control.commit(next), control.heartbeat)
          .then(
            () => committed.add(part),
            (error: unknown) => refused.set(part, error),
          );
    }),
  );
  return { committed, refused };
};

const readAll = async (
  { sinks, topic, ports, heartbeat }: Turn,
  parts: readonly Part[],
): Promise<ReadBatch & { readonly letters: OutputMessage[] }> => {
  const { wire, retry } = ports;
  const letters: OutputMessage[] = [];
  const unread: UnreadableCode[] = [];
  const read: ReadRecord[] = [];
  // Loaded after the records were read, so the filter includes everything that was suppressed
  // before they were written.
  const isWithheld = await retry("load", async () => ports.withholds?.(), heartbeat);
  let withheld = 0;
  // A view decodes fields lazily: most events give most sinks no row, and a sink reads only a few
  // fields to see that.
  const viewing = { decode: wire.view, learn: wire.learn };
  for (const { batch } of parts) {
    const { partition } = batch;
    const decoded = await decodeBatch(topic, batch, viewing, (step) => retry("learn", step, heartbeat));
    for (const one of decoded.given) {
      const { event, source } = one;
      if (isWithheld?.(event, { topic: topic.name, partition, offset: source.offset })) withheld += 1;
      else read.push(one);
    }
    for (const one of decoded.unread) {
      letters.push(unreadLetter(ports, sinks[0]!.name, batch, one));
      unread.push(one.error.code);
    }
  }
  return { read, withheld, unread, letters };
};

/** Throws unless all sinks read the same topic. */
const checked = (sinks: readonly AnySink[]): AnySink => {
  const [first] = sinks;
  if (first === undefined) throw new Error("there is no sink to run");
  const stranger = sinks.find(({ from }) => from !== first.from);
  if (stranger === undefined) return first;
  throw new Error(
    `${stranger.name} reads ${stranger.from.name} and ${first.name} reads ${first.from.name}: host them apart`,
  );
};

/**
 * Returns the function that a consumer calls for each batch. Sinks of one topic share reading and
 * decoding, and a batch is committed when all of them have written it. A row that cannot be mapped,
 * or that its store refuses because of its data, becomes a dead letter with the whole event. Any
 * other error rejects and stops the worker. Throws unless all sinks read the same topic.
 */
export const sinkRunner = (sinks: readonly AnySink[], ports: SinkPorts): ProcessBatch => {
  const first = checked(sinks);
  let waiting: Part[] = [];
  let isRunning = false;
  const pieces = openPieces(first.name, ports);
  const stopped = async (part: Part, error: unknown): Promise<void> => {
    const { topic, partition, messages } = part.batch;
    const at = { topic, partition, offset: messages[0]!.offset };
    if (part.lost === undefined && part.control.isCurrent()) await reportStop(ports, first.name, at, error);
    part.reject(part.lost ?? error);
  };
  const drain = async (): Promise<void> => {
    isRunning = true;
    // The consumer delivers the batches of one fetch in the same turn of the event loop. After this
    // pause all of them are here.
    await setImmediate();
    while (waiting.length > 0) {
      const joined = waiting;
      waiting = [];
      try {
        await run(sinks, ports, joined);
      } catch (error) {
        // Rejected in the same turn of the loop, so that the smaller pieces join one write again.
        if (error instanceof SlowBatch) for (const { lost, reject } of joined) reject(lost ?? error);
        else for (const part of joined) await stopped(part, error);
      }
    }
    isRunning = false;
  };
  return (whole, control) =>
    pieces(
      whole,
      control,
      (batch) =>
        new Promise((resolve, reject) => {
          waiting.push({ batch, control, resolve, reject });
          if (!isRunning) void drain();
        }),
    );
};
