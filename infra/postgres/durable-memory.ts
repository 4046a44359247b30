// Durable memory, for everything that decides money: the newest value of a key and the outcome of
// every event, in one transaction a batch.
import pg, { type Pool, type PoolClient } from "pg";
import type { Change, LoadedMemory, Memory, MemoryWrite, Version } from "../../stream/memory/memory.ts";
import { bigintArray, bytesArray, intArray, textArray } from "./arrays.ts";
import { packed, unpacked } from "./packed-values.ts";
import { transaction } from "./sql.ts";

/** Named statements, so that a connection parses each of them once. */
const LOAD = { name: "memory-load", text: "SELECT * FROM memory_load($1, $2, $3, $4, $5)" } as const;
const REMEMBER = {
  name: "memory-remember",
  text: `SELECT memory_remember(${Array.from({ length: 25 }, (_, n) => `$${n + 1}`).join(", ")})`,
} as const;
/**
 * The SQLSTATEs with which memory_remember reports that it has remembered nothing: a key has
 * another version, or an outcome or the first version of a key exists already.
 */
const MOVED: ReadonlySet<string | undefined> = new Set(["TM001", "23505"]);

interface LoadedRow {
  readonly part: "state" | "outcome" | "mark";
  readonly id: string;
  readonly event_id: string;
  readonly offset: string;
  /** Of a state its version, of an outcome the partition on which it was decided. */
  readonly version: string;
  readonly bytes: Buffer;
}

/** A change or an outcome of an event: the event, its position in the log, and the bytes. */
type Trace = Pick<Change, "eventId" | "position"> & { readonly bytes: Uint8Array };
const columnsOfTraces = (traces: readonly Trace[]): readonly Buffer[] => [
  textArray(traces.map(({ eventId }) => eventId)),
  textArray(traces.map(({ position }) => position.topic)),
  intArray(traces.map(({ position }) => position.partition)),
  bigintArray(traces.map(({ position }) => position.offset)),
  bytesArray(traces.map(({ bytes }) => packed(bytes))),
];
/** The columns of rows that are inserted into memory_state or replaced there. */
const columnsOfChanges = (changes: readonly Change[]): readonly Buffer[] => [
  textArray(changes.map(({ key }) => key)),
  bigintArray(changes.map(({ version }) => version)),
  ...columnsOfTraces(changes.map(({ eventId, position, value }) => ({ eventId, position, bytes: value }))),
];

const remember = (
  client: Pool | PoolClient,
  { stage, topic, partition, mark, met, outcomes, changes }: MemoryWrite,
): Promise<unknown> => {
  // These keys had no value, and inserting them checks that there is still none.
  const absent = new Set(met.flatMap(({ key, version }) => (version === 0 ? key : [])));
  const [added, replaced]: [Change[], Change[]] = [[], []];
  for (const change of changes) (absent.has(change.key) ? added : replaced).push(change);
  const isAdded = new Set(added.map(({ key }) => key));
  const checked = met.filter(({ key }) => !isAdded.has(key));
  return client.query({
    ...REMEMBER,
    values: [
      stage,
      topic,
      partition,
      mark,
      textArray(checked.map(({ key }) => key)),
      bigintArray(checked.map(({ version }) => version)),
      ...columnsOfTraces(outcomes),
      ...columnsOfChanges(added),
      ...columnsOfChanges(replaced),
    ],
  });
};

/**
 * migrations/postgres/005_memory.sql has the tables, 288 and 311 the functions. Errors of the
 * database are thrown unchanged.
 */
export const postgresMemory = (pool: Pool): Memory => ({
  load: async ({ stage, keys, eventIds, topic, partition }): Promise<LoadedMemory> => {
    const values = [stage, textArray(keys), textArray(eventIds), topic, partition];
    const { rows } = await pool.query<LoadedRow>({ ...LOAD, values });
    const versions = new Map<string, readonly Version[]>();
    const outcomes = new Map<string, Uint8Array>();
    const partitions = new Map<string, number>();
    let mark: number | null = null;
    for (const { part, id, event_id, offset, version, bytes } of rows) {
      if (part === "state")
        versions.set(id, [
          { eventId: event_id, offset: Number(offset), version: Number(version), value: unpacked(bytes) },
        ]);
      else if (part === "outcome") {
        outcomes.set(id, unpacked(bytes));
        partitions.set(id, Number(version));
      } else mark = Number(offset);
    }
    return { versions, outcomes, partitions, truncated: new Map(), mark };
  },

  remember: async (batch) => {
    const [only] = batch;
    try {
      if (only !== undefined && batch.length === 1) await remember(pool, only);
      else
        await transaction(pool, null, async (tx) => {
          for (const one of batch) await remember(tx, one);
        });
      return "remembered";
    } catch (error) {
      if (error instanceof pg.DatabaseError && MOVED.has(error.code)) return "moved";
      throw error;
    }
  },
});

/**
 * For each partition of a topic, the offset up to which a stage remembers it; partitions that it
 * never remembered are left out.
 */
export const durableMarks = async (pool: Pool, stage: string, topic: string): Promise<ReadonlyMap<number, number>> => {
  const { rows } = await pool.query<{ partition: number; offset: string }>(
    `select partition, "offset" from memory_mark where stage = $1 and topic = $2`,
    [stage, topic],
  );
  return new Map(rows.map(({ partition, offset }) => [partition, Number(offset)]));
};
