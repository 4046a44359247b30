// Writes a topic into stores: the batches of one fetch, of all partitions, join one write; then
// each commits.
import { setImmediate } from "node:timers/promises";
import { hit } from "#failpoint";
import { decodeBatch, unreadLetter } from "./decode.ts";
import { classify } from "./errors.ts";
import type { AnySink } from "./flow.ts";
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

/** An event with the rows that it becomes; they are stored together or refused together. */
interface Mapped extends Given {
  readonly partition: number;
  readonly rows: readonly unknown[];
}
interface RefusedEvent {
  readonly one: Given & { readonly partition: number };
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
  return `${run}/${topic}/${[...ranges].map(([partition, { first, last, count }]) => `${partition}:${first}-${last}x${count}`).join(",")}`;
};

/**
 * The function that a consumer calls for each batch; sinks of one topic share the reading and the
 * decoding, and a batch is committed when all of them have written it. A row that cannot be mapped,
 * or that its store refuses for its data, becomes a dead letter with the whole event, and the rest
 * goes on; any other error rejects, and the worker stops. Throws when the sinks do not read one
 * topic.
 */
export const sinkRunner = (sinks: readonly AnySink[], ports: SinkPorts): ProcessBatch => {
  const [first] = sinks;
  if (first === undefined) throw new Error("there is no sink to run");
  const topic = first.from;
  const stranger = sinks.find(({ from }) => from !== topic);
  if (stranger !== undefined)
    throw new Error(
      `${stranger.name} reads ${stranger.from.name} and ${first.name} reads ${topic.name}: host them apart`,
    );
  const { retry, wire } = ports;

  const map = (sink: AnySink, given: readonly (Given & { readonly partition: number })[]) => {
    const mapped: Mapped[] = [];
    const refused: RefusedEvent[] = [];
    for (const one of given) {
      try {
        const rows = sink.rows(one.event);
        if (rows.length > 0) mapped.push({ event: one.event, source: one.source, partition: one.partition, rows });
      } catch (error) {
        refused.push({ one, code: "unmappable_row", error });
      }
    }
    return { mapped, refused };
  };

  /**
   * Halves what a store refuses for its data until the event is found; halves keep the order of the
   * log.
   */
  const writeWithout = async (
    sink: AnySink,
    mapped: readonly Mapped[],
    heartbeat: () => Promise<void>,
  ): Promise<readonly RefusedEvent[]> => {
    if (mapped.length === 0) return [];
    const { into } = sink;
    const rows = mapped.flatMap((one) => one.rows);
    const batch = {
      tenants: [...new Set(rows.map(into.tenantOf))],
      token: `${tokenOf(ports.run, topic.name, mapped)}/${into.name}`,
    };
    try {
      await retry("write", () => ports.stores[into.store].within(batch, (write) => into.write(rows, write)), heartbeat);
      return [];
    } catch (error) {
      if (classify(error) !== "data") throw error;
      if (mapped.length === 1) return [{ one: mapped[0]!, code: "refused_by_store", error }];
    }
    await heartbeat();
    const middle = Math.ceil(mapped.length / 2);
    const before = await writeWithout(sink, mapped.slice(0, middle), heartbeat);
    return [...before, ...(await writeWithout(sink, mapped.slice(middle), heartbeat))];
  };

  /**
   * Names what was touched, whether or not a row was refused. It holds ids and times of stored rows
   * alone, so a refusal is nobody's bad data: it stops.
   */
  const mark = async ({ into }: AnySink, mapped: readonly Mapped[], heartbeat: () => Promise<void>): Promise<void> => {
    if (into.marks === undefined || mapped.length === 0) return;
    const { of, into: table } = into.marks;
    const rows = of(mapped.flatMap((one) => one.rows));
    const batch = {
      tenants: [...new Set(rows.map(table.tenantOf))],
      token: `${tokenOf(ports.run, topic.name, mapped)}/${table.name}`,
    };
    await retry("write", () => ports.stores[table.store].within(batch, (write) => table.write(rows, write)), heartbeat);
  };

  const letterOf = (sink: AnySink, { one, code, error }: RefusedEvent): OutputMessage =>
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

  const write = async (parts: readonly Part[], heartbeat: () => Promise<void>): Promise<Written> => {
    const learn = async (ids: readonly number[]): Promise<void> => {
      await retry("learn", () => Promise.all(ids.map((id) => wire.learn(id))), heartbeat);
    };
    const letters: OutputMessage[] = [];
    const given: (Given & { readonly partition: number })[] = [];
    // Asked after the records were read: whatever had to be known before they were written is known
    // now.
    const isWithheld = await retry("load", async () => ports.withholds?.(), heartbeat);
    let withheld = 0;
    for (const { batch } of parts) {
      const { partition } = batch;
      const decoded = await decodeBatch(topic, batch, { wire, learn });
      for (const { event, source } of decoded.given) {
        if (isWithheld?.(event, { topic: topic.name, partition, offset: source.offset })) withheld += 1;
        else given.push({ event, source, partition });
      }
      for (const one of decoded.unread)
        letters.push(ports.deadLetter(unreadLetter(first.name, ports.deadLetters, one)));
    }
    const counts: WriteCounts[] = [];
    for (const sink of sinks) {
      const startedAt = performance.now();
      const { mapped, refused } = map(sink, given);
      const unstorable = await writeWithout(sink, mapped, heartbeat);
      await mark(sink, mapped, heartbeat);
      letters.push(...[...refused, ...unstorable].map((one) => letterOf(sink, one)));
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

  const commit = async ({ batch, control, lost }: Part): Promise<void> => {
    if (lost !== undefined) throw lost;
    if (!control.isCurrent()) return;
    await retry("commit", () => control.commit(batch.messages.at(-1)!.offset + 1), control.heartbeat);
  };

  const runTogether = async (joined: readonly Part[]): Promise<void> => {
    const parts = joined.filter(({ control }) => control.isCurrent());
    /**
     * Each partition hears its own bad news, so that its consumer can tell a lost membership from a
     * broken sink.
     */
    const heartbeat = async (): Promise<void> => {
      for (const part of parts) {
        try {
          await part.control.heartbeat();
        } catch (error) {
          part.lost = error;
        }
      }
    };
    // 1 join and map. Dying here costs nothing.
    hit("before-write");
    // 2 write, then mark what was touched. Dying after either costs a second write of the same rows
    // and marks: one row by key and version.
    const { letters, counts } = parts.length === 0 ? { letters: [], counts: [] } : await write(parts, heartbeat);
    hit("after-write");
    // 3 the dead letters, before the offsets: one that cannot be written holds all of them.
    if (letters.length > 0) await retry("produce", () => ports.produce(letters), heartbeat);
    // 4 commit every partition of the write, then count. Dying in between costs a second write of
    // the rest.
    const committed = new Map<Part, PromiseSettledResult<void>>();
    for (const part of parts) committed.set(part, (await Promise.allSettled([commit(part)]))[0]);
    hit("after-commit");
    for (const one of counts) ports.countWrite(one);
    for (const part of joined) {
      const settled = committed.get(part);
      if (settled?.status === "rejected") part.reject(settled.reason);
      else part.resolve();
    }
  };

  let waiting: Part[] = [];
  let isRunning = false;
  const drain = async (): Promise<void> => {
    isRunning = true;
    // The batches of one fetch are handed over in one turn; after it they are all here.
    await setImmediate();
    while (waiting.length > 0) {
      const joined = waiting;
      waiting = [];
      try {
        await runTogether(joined);
      } catch (error) {
        for (const part of joined) {
          const { topic: name, partition, messages } = part.batch;
          const at = { topic: name, partition, offset: messages[0]!.offset };
          if (part.lost === undefined && part.control.isCurrent()) await reportStop(ports, first.name, at, error);
          part.reject(part.lost ?? error);
        }
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
