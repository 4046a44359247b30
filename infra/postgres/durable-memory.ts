// Durable memory, for whatever decides money: the newest value of a key and the outcome of every
// event, in one transaction a batch.
import type { Pool, PoolClient } from "pg";
import type { Loaded, Memory, Remembering, Version } from "../../stream/memory/memory.ts";
import { packed, unpacked } from "./packed.ts";

/**
 * One statement, hence one moment: a value and the outcome that made it are seen together or not at
 * all.
 */
const LOAD = `
  SELECT 'state' AS part, key AS id, event_id, "offset", version, value AS bytes FROM memory_state WHERE stage = $1
    AND key = ANY($2::text[])
  UNION ALL
  SELECT 'outcome', event_id, NULL, NULL, NULL, outcome FROM memory_outcome WHERE stage = $1
    AND event_id = ANY($3::text[])
  UNION ALL
  SELECT 'mark', NULL, NULL, "offset", NULL, NULL FROM memory_mark WHERE stage = $1 AND topic = $4 AND partition = $5`;

const MARK = `
  INSERT INTO memory_mark AS mark (stage, topic, partition, "offset") VALUES ($1, $2, $3, $4)
  ON CONFLICT (stage, topic, partition) DO UPDATE SET "offset" = greatest(mark."offset", excluded."offset")`;

const OUTCOMES = `
  INSERT INTO memory_outcome (stage, event_id, topic, partition, "offset", outcome)
  SELECT $1, * FROM unnest($2::text[], $3::text[], $4::int[], $5::bigint[], $6::bytea[])
  ON CONFLICT (stage, event_id) DO NOTHING`;

const CHECK = `
  SELECT 1 FROM unnest($2::text[], $3::bigint[]) AS met (key, version)
  LEFT JOIN memory_state AS state ON state.stage = $1 AND state.key = met.key
  WHERE coalesce(state.version, 0) <> met.version LIMIT 1`;

const STATES = `
  INSERT INTO memory_state (stage, key, version, event_id, topic, partition, "offset", value)
  SELECT $1, * FROM unnest($2::text[], $3::bigint[], $4::text[], $5::text[], $6::int[], $7::bigint[], $8::bytea[])
  ON CONFLICT (stage, key) DO UPDATE SET version = excluded.version, event_id = excluded.event_id,
    topic = excluded.topic,
    partition = excluded.partition, "offset" = excluded."offset", value = excluded.value`;

interface LoadedRow {
  readonly part: "state" | "outcome" | "mark";
  readonly id: string;
  readonly event_id: string;
  readonly offset: string;
  readonly version: string;
  readonly bytes: Buffer;
}

/**
 * The mark is written first, because it is the lock: keys never leave their partition, so two
 * owners of a partition wait for each other here, and every statement after it sees all that the
 * other one has committed. The checks that follow can then be plain reads.
 */
const write = async (client: PoolClient, batch: readonly Remembering[]): Promise<"remembered" | "moved"> => {
  for (const { stage, topic, partition, mark } of batch) await client.query(MARK, [stage, topic, partition, mark]);
  for (const { stage, outcomes, met, changes } of batch) {
    if (met.length > 0) {
      const { rowCount } = await client.query(CHECK, [
        stage,
        met.map(({ key }) => key),
        met.map(({ version }) => version),
      ]);
      if (rowCount !== 0) return "moved";
    }
    if (outcomes.length > 0) {
      const { rowCount } = await client.query(OUTCOMES, [
        stage,
        outcomes.map(({ eventId }) => eventId),
        outcomes.map(({ position }) => position.topic),
        outcomes.map(({ position }) => position.partition),
        outcomes.map(({ position }) => position.offset),
        outcomes.map(({ bytes }) => packed(bytes)),
      ]);
      if (rowCount !== outcomes.length) return "moved";
    }
    if (changes.length > 0)
      await client.query(STATES, [
        stage,
        changes.map(({ key }) => key),
        changes.map(({ version }) => version),
        changes.map(({ eventId }) => eventId),
        changes.map(({ position }) => position.topic),
        changes.map(({ position }) => position.partition),
        changes.map(({ position }) => position.offset),
        changes.map(({ value }) => packed(value)),
      ]);
  }
  return "remembered";
};

/**
 * The tables are those of migrations/postgres/005_memory.sql; errors of the database are thrown as
 * they come.
 */
export const postgresMemory = (pool: Pool): Memory => ({
  load: async ({ stage, keys, eventIds, topic, partition }): Promise<Loaded> => {
    const { rows } = await pool.query<LoadedRow>(LOAD, [stage, keys, eventIds, topic, partition]);
    const versions = new Map<string, readonly Version[]>();
    const outcomes = new Map<string, Uint8Array>();
    let mark: number | null = null;
    for (const { part, id, event_id, offset, version, bytes } of rows) {
      if (part === "state")
        versions.set(id, [
          { eventId: event_id, offset: Number(offset), version: Number(version), value: unpacked(bytes) },
        ]);
      else if (part === "outcome") outcomes.set(id, unpacked(bytes));
      else mark = Number(offset);
    }
    return { versions, outcomes, truncated: new Map(), mark };
  },

  remember: async (batch) => {
    const client = await pool.connect();
    let broken: Error | undefined;
    try {
      await client.query("BEGIN");
      const verdict = await write(client, batch);
      await client.query(verdict === "remembered" ? "COMMIT" : "ROLLBACK");
      return verdict;
    } catch (error) {
      broken = error as Error;
      throw error;
    } finally {
      // A connection that failed inside a transaction is closed, which ends the transaction, rather
      // than given back.
      client.release(broken);
    }
  },
});
