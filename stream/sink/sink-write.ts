// Writes events of one topic into the table of one sink, and separates the events that the table
// cannot store.
import { countByCode, letterOf, type SinkRefusal } from "../dead-letters.ts";
import type { ReadRecord } from "../decode.ts";
import type { AnySink, AnyTopic, Table } from "../flow.ts";
import type { OutputMessage } from "../messages.ts";
import type { SinkPorts, WriteCounts } from "../ports.ts";
import type { UnreadableCode } from "../wire.ts";

/** The sinks of one topic and what they need during one write. */
export interface Turn {
  readonly sinks: readonly AnySink[];
  readonly topic: AnyTopic;
  readonly ports: SinkPorts;
  readonly heartbeat: () => Promise<void>;
  /** True if the records may come again in smaller pieces. */
  readonly isCuttable: boolean;
}

/** An event and its rows, which are stored together or refused together. */
interface MappedEvent extends ReadRecord {
  readonly rows: readonly unknown[];
}
interface RefusedEvent {
  readonly one: ReadRecord;
  readonly code: SinkRefusal;
  readonly error: unknown;
}

/** What is to be written: events, how many are withheld, and why others could not be read. */
export interface ReadBatch {
  readonly read: readonly ReadRecord[];
  readonly withheld: number;
  readonly unread: readonly UnreadableCode[];
}

/**
 * Writes the rows and marks of one sink, and returns the dead letters of refused events. Withheld
 * events are only counted.
 */
export const writeSink = async (
  turn: Turn,
  sink: AnySink,
  { read, withheld, unread }: ReadBatch,
): Promise<{ readonly letters: readonly OutputMessage[]; readonly counts: WriteCounts }> => {
  const startedAt = performance.now();
  const { mapped, refused } = map(sink, read);
  const unstorable = await writeWithout(turn, sink, mapped);
  const all = [...refused, ...unstorable];
  await mark(turn, sink, mapped);
  const rows = mapped.reduce((sum, one) => sum + one.rows.length, 0);
  const bad = unstorable.reduce((sum, { one }) => sum + (one as MappedEvent).rows.length, 0);
  const counts = {
    sink: sink.name,
    table: sink.into.name,
    rows: rows - bad,
    rejected: countByCode([...unread, ...all.map(({ code }) => code)]),
    withheld,
    seconds: (performance.now() - startedAt) / 1000,
    receivedAt: mapped.map(({ event }) => event.receivedAt),
  };
  return { letters: all.map((one) => refusedLetter(turn, sink, one)), counts };
};

const map = (sink: AnySink, read: readonly ReadRecord[]) => {
  const mapped: MappedEvent[] = [];
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
  { ports, topic, heartbeat, isCuttable }: Turn,
  table: Table<any>,
  rows: readonly unknown[],
  of: readonly MappedEvent[],
): Promise<void> => {
  const batch = {
    tenants: [...new Set(rows.map(table.tenantOf))],
    token: `${tokenOf(ports.run, topic.name, of)}/${table.name}`,
  };
  await ports.retry(
    "write",
    () => ports.stores[table.store].within(batch, (write) => table.write(rows, write)),
    heartbeat,
    isCuttable,
  );
};

/**
 * Splits a refused batch in halves until the bad events are found. The halves keep the order of the
 * log.
 */
const writeWithout = async (
  turn: Turn,
  sink: AnySink,
  mapped: readonly MappedEvent[],
): Promise<readonly RefusedEvent[]> => {
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
 * Writes the marks of all events, including those with refused rows. Marks hold only ids and times
 * of stored rows, so if the store refuses them the data is not at fault and the worker stops.
 */
const mark = async (turn: Turn, { into: { marks } }: AnySink, mapped: readonly MappedEvent[]): Promise<void> => {
  if (marks === undefined || mapped.length === 0) return;
  await store(turn, marks.into, marks.of(mapped.flatMap((one) => one.rows)), mapped);
};

const refusedLetter = ({ ports, topic }: Turn, sink: AnySink, { one, code, error }: RefusedEvent): OutputMessage =>
  letterOf(ports, {
    by: sink.name,
    code,
    message: messageOf(error),
    event: one.event,
    batch: { topic: topic.name, partition: one.partition },
    source: one.source,
  });

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/**
 * Builds the token of an insert: its topic, and the offsets and number of events of each partition.
 */
const tokenOf = (run: string, topic: string, mapped: readonly MappedEvent[]): string => {
  const ranges = new Map<number, { first: number; last: number; count: number }>();
  for (const { partition, source } of mapped) {
    const range = ranges.get(partition);
    if (range === undefined) ranges.set(partition, { first: source.offset, last: source.offset, count: 1 });
    else Object.assign(range, { last: source.offset, count: range.count + 1 });
  }
  const texts = [...ranges].map(([partition, { first, last, count }]) => `${partition}:${first}-${last}x${count}`);
  return `${run}/${topic}/${texts.join(",")}`;
};
