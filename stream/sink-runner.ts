// Writes a topic into stores: the batches of one fetch, of all partitions, join one write; then
// each commits.
import { setImmediate } from "node:timers/promises";
import { hit } from "#failpoint";
import { decodeBatch, unreadLetter } from "./decode.ts";
import type { AnySink, AnyTopic, Table } from "./flow.ts";
import type { Given } from "./fold.ts";
import type { Control, InputBatch, OutputMessage, ProcessBatch, SinkPorts, WriteCounts } from "./messages.ts";
import { reportStop } from "./stop.ts";

/** One batch that waits to be written together with others. */
interface Part {
  readonly batch: InputBatch;
  readonly control: Control;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
  /**
   * What its heartbeat said: the partition is lost, so it is written (twice is once) and not
   * committed.
   */
  lost?: unknown;
}

/** Sinks of one topic on their way through one write. */
interface Turn {
  readonly sinks: readonly AnySink[];
  readonly topic: AnyTopic;
  readonly ports: SinkPorts;
  readonly heartbeat: () => Promise<void>;
}

interface Read extends Given {
  readonly partition: number;
}
/** An event with the rows that it becomes; they are stored together or refused together. */
interface Mapped extends Read {
  readonly rows: readonly unknown[];
}
interface RefusedEvent {
  readonly one: Read;
  readonly code: "unmappable_row" | "refused_by_store";
  readonly error: unknown;
}
interface Written {
  readonly letters: readonly OutputMessage[];
  readonly counts: readonly WriteCounts[];
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Names an insert: its topic, and of each partition the offsets and the number of events. */
const tokenOf = (run: string, topic: string, mapped: readonly Mapped[]): string => {
  const ranges = new Map<number, { first: number; last: number; count: number }>();
  for (const { partition, source } of mapped) {
    const range = ranges.get(partition);
    if (range === undefined) ranges.set(partition, { first: source.offset, last: source.offset, count: 1 });
    else Object.assign(range, { last: source.offset, count: range.count + 1 });
  }
  const texts = [...ranges].map(([partition, { first, last, count }]) => `${partition}:${first}-${last}x${count}`);
  return `${run}/${topic}/${texts.join(",")}`;
};

/** The four steps. A partition that is lost before its commit is written again, which is once. */
const run = async (sinks: readonly AnySink[], ports: SinkPorts, joined: readonly Part[]): Promise<void> => {
  const parts = joined.filter(({ control }) => control.isCurrent());
  const turn: Turn = { sinks, topic: sinks[0]!.from, ports, heartbeat: () => heartbeat(parts) };
  hit("before-write");
  const written = parts.length === 0 ? { letters: [], counts: [] } : await write(turn, parts);
  hit("after-write");
  await produce(turn, written);
  const refused = await commit(turn, parts);
  hit("after-commit");
  for (const one of written.counts) ports.countWrite(one);
  for (const part of joined) {
    if (refused.has(part)) part.reject(refused.get(part));
    else part.resolve();
  }
};

/**
 * Each partition hears its own bad news, so that its consumer can tell a lost membership from a
 * broken sink.
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
 * 1 read and map, 2 write, then mark what was touched. Dying in the first costs nothing, after
 * either of the others a second write of the same rows and marks: one row by key and version.
 */
const write = async (turn: Turn, parts: readonly Part[]): Promise<Written> => {
  const { read, withheld, letters } = await readAll(turn, parts);
  const counts: WriteCounts[] = [];
  for (const sink of turn.sinks) {
    const startedAt = performance.now();
    const { mapped, refused } = map(sink, read);
    const unstorable = await writeWithout(turn, sink, mapped);
    await mark(turn, sink, mapped);
    letters.push(...[...refused, ...unstorable].map((one) => letterOf(turn, sink, one)));
    const all = mapped.reduce((sum, { rows }) => sum + rows.length, 0);
    const bad = unstorable.reduce((sum, { one }) => sum + (one as Mapped).rows.length, 0);
    counts.push({
      sink: sink.name,
      table: sink.into.name,
      rows: all - bad,
      rejected: refused.length + unstorable.length,
      withheld,
      seconds: (performance.now() - startedAt) / 1000,
      receivedAt: mapped.map(({ event }) => event.receivedAt),
    });
  }
  return { letters, counts };
};

/** 3 the dead letters, before the offsets: one that cannot be written holds all of them. */
const produce = async ({ ports, heartbeat }: Turn, { letters }: Written): Promise<void> => {
  if (letters.length > 0) await ports.retry("produce", () => ports.produce(letters), heartbeat);
};

/**
 * 4 commit every partition of the write, then count. Dying in between costs a second write of the
 * rest. Answers what went wrong, by partition.
 */
const commit = async ({ ports }: Turn, parts: readonly Part[]): Promise<ReadonlyMap<Part, unknown>> => {
  const refused = new Map<Part, unknown>();
  for (const part of parts) {
    const { batch, control, lost } = part;
    const next = batch.messages.at(-1)!.offset + 1;
    if (lost !== undefined) refused.set(part, lost);
    else if (control.isCurrent())
      await ports
        .retry("commit", () => control.commit(next), control.heartbeat)
        .catch((error: unknown) => refused.set(part, error));
  }
  return refused;
};

const readAll = async (
  { sinks, topic, ports, heartbeat }: Turn,
  parts: readonly Part[],
): Promise<{ readonly read: readonly Read[]; readonly withheld: number; readonly letters: OutputMessage[] }> => {
  const { wire, retry } = ports;
  const learn = async (ids: readonly number[]): Promise<void> => {
    await retry("learn", () => Promise.all(ids.map((id) => wire.learn(id))), heartbeat);
  };
  const letters: OutputMessage[] = [];
  const read: Read[] = [];
  // Asked after the records were read: whatever had to be known before they were written is known
  // now.
  const isWithheld = await retry("load", async () => ports.withholds?.(), heartbeat);
  let withheld = 0;
  for (const { batch } of parts) {
    const { partition } = batch;
    const decoded = await decodeBatch(topic, batch, { wire, learn });
    for (const { event, source } of decoded.given) {
      if (isWithheld?.(event, { topic: topic.name, partition, offset: source.offset })) withheld += 1;
      else read.push({ event, source, partition });
    }
    for (const one of decoded.unread)
      letters.push(ports.deadLetter(unreadLetter(sinks[0]!.name, ports.deadLetters, one)));
  }
  return { read, withheld, letters };
};

const map = (sink: AnySink, read: readonly Read[]) => {
  const mapped: Mapped[] = [];
  const refused: RefusedEvent[] = [];
  for (const one of read) {
    try {
      const rows = sink.rows(one.event);
      if (rows.length > 0) mapped.push({ event: one.event, source: one.source, partition: one.partition, rows });
    } catch (error) {
      refused.push({ one, code: "unmappable_row", error });
    }
  }
  return { mapped, refused };
};

const store = async (
  { ports, topic, heartbeat }: Turn,
  table: Table<any>,
  rows: readonly unknown[],
  of: readonly Mapped[],
): Promise<void> => {
  const batch = {
    tenants: [...new Set(rows.map(table.tenantOf))],
    token: `${tokenOf(ports.run, topic.name, of)}/${table.name}`,
  };
  await ports.retry(
    "write",
    () => ports.stores[table.store].within(batch, (write) => table.write(rows, write)),
    heartbeat,
  );
};

/**
 * Halves what a store refuses for its data until the event is found; halves keep the order of the
 * log.
 */
const writeWithout = async (turn: Turn, sink: AnySink, mapped: readonly Mapped[]): Promise<readonly RefusedEvent[]> => {
  if (mapped.length === 0) return [];
  try {
    await store(
      turn,
      sink.into,
      mapped.flatMap((one) => one.rows),
      mapped,
    );
    return [];
  } catch (error) {
    if (turn.ports.classify(error) !== "data") throw error;
    if (mapped.length === 1) return [{ one: mapped[0]!, code: "refused_by_store", error }];
  }
  await turn.heartbeat();
  const middle = Math.ceil(mapped.length / 2);
  const before = await writeWithout(turn, sink, mapped.slice(0, middle));
  return [...before, ...(await writeWithout(turn, sink, mapped.slice(middle)))];
};

/**
 * Names what was touched, whether or not a row was refused. It holds ids and times of stored rows
 * alone, so a refusal is not the fault of data: it stops.
 */
const mark = async (turn: Turn, { into: { marks } }: AnySink, mapped: readonly Mapped[]): Promise<void> => {
  if (marks === undefined || mapped.length === 0) return;
  await store(turn, marks.into, marks.of(mapped.flatMap((one) => one.rows)), mapped);
};

const letterOf = ({ ports, topic }: Turn, sink: AnySink, { one, code, error }: RefusedEvent): OutputMessage =>
  ports.deadLetter({
    to: ports.deadLetters(one.event),
    stage: sink.name,
    code,
    message: messageOf(error),
    position: { topic: topic.name, partition: one.partition, offset: one.source.offset },
    key: one.source.key,
    value: one.source.value,
    headers: one.source.headers,
  });

/** Throws when the sinks do not read one topic. */
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
 * The function that a consumer calls for each batch; sinks of one topic share the reading and the
 * decoding, and a batch is committed when all of them have written it. A row that cannot be mapped,
 * or that its store refuses for its data, becomes a dead letter with the whole event, and the rest
 * goes on; any other error rejects, and the worker stops. Throws when the sinks do not read one
 * topic.
 */
export const sinkRunner = (sinks: readonly AnySink[], ports: SinkPorts): ProcessBatch => {
  const first = checked(sinks);
  let waiting: Part[] = [];
  let isRunning = false;
  const stopped = async (part: Part, error: unknown): Promise<void> => {
    const { topic, partition, messages } = part.batch;
    const at = { topic, partition, offset: messages[0]!.offset };
    if (part.lost === undefined && part.control.isCurrent()) await reportStop(ports, first.name, at, error);
    part.reject(part.lost ?? error);
  };
  const drain = async (): Promise<void> => {
    isRunning = true;
    // The batches of one fetch are handed over in one turn; after it they are all here.
    await setImmediate();
    while (waiting.length > 0) {
      const joined = waiting;
      waiting = [];
      try {
        await run(sinks, ports, joined);
      } catch (error) {
        for (const part of joined) await stopped(part, error);
      }
    }
    isRunning = false;
  };
  return (batch, control) =>
    new Promise((resolve, reject) => {
      waiting.push({ batch, control, resolve, reject });
      if (!isRunning) void drain();
    });
};
