// Reads and writes which consumer groups are held, by what operation and how far it is, and which
// stages and sinks each group hosts.

import type pg from "pg";
import { withLockOrThrow } from "../../../infra/postgres/advisory-lock.ts";
import { sql } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import type { Hold, Holds } from "../rewind/hold.ts";
import type { RewindPlan } from "../rewind/rewind-plan.ts";

/** Another command is working on the group. */
export class HeldElsewhere extends Error {}

export interface Hosting {
  readonly group: string;
  readonly topic: string;
  /** Stages or sinks, in the order of the chain. */
  readonly nodes: readonly string[];
  readonly joinedAt: UnixMs;
}

interface HoldRow {
  readonly group_name: string;
  readonly operation_id: string;
  readonly kind: Hold["kind"];
  readonly actor: string;
  readonly reason: string | null;
  readonly since: UnixMs;
  readonly plan: RewindPlan | null;
  readonly released_at: UnixMs | null;
}
const holdOf = (row: HoldRow): Hold => ({
  group: row.group_name,
  operation: row.operation_id,
  kind: row.kind,
  actor: row.actor,
  reason: row.reason,
  since: row.since,
  plan: row.plan,
  releasedAt: row.released_at,
});
const columns = sql`group_name, operation_id, kind, actor, reason, since, plan, released_at`;

/** Opens the holds for commands. Group names are without the prefix of the cluster. */
export const openHolds = (pool: pg.Pool): Holds => {
  const changed = async (
    operation: string,
    change: { readonly text: string; readonly values: unknown[] },
  ): Promise<void> => {
    const { rowCount } = await pool.query(change);
    if (rowCount === 0) throw new Error(`the hold of ${operation} is gone: the group was released`);
  };
  return {
    alone: (group, work) =>
      withLockOrThrow(
        pool,
        `tributary.group.${group}`,
        () => new HeldElsewhere(`another command is at work on ${group}; see: tributary groups`),
        work,
      ),
    of: async (group) => {
      const { rows } = await pool.query<HoldRow>(sql`select ${columns} from group_holds where group_name = ${group}`);
      return rows[0] === undefined ? null : holdOf(rows[0]);
    },
    all: async () =>
      (await pool.query<HoldRow>(sql`select ${columns} from group_holds order by since`)).rows.map(holdOf),
    take: async ({ group, operation, kind, actor, reason, plan = null }) => {
      const planned = plan === null ? null : JSON.stringify(plan);
      await pool.query(
        sql`insert into group_holds (group_name, operation_id, kind, actor, reason, plan)
            values (${group}, ${operation}, ${kind}, ${actor}, ${reason}, ${planned})`,
      );
    },
    keepPlan: (operation, plan) =>
      changed(operation, sql`update group_holds set plan = ${JSON.stringify(plan)} where operation_id = ${operation}`),
    release: (operation) =>
      changed(operation, sql`update group_holds set released_at = clock_timestamp() where operation_id = ${operation}`),
    end: async (operation) => {
      await pool.query(sql`delete from group_holds where operation_id = ${operation}`);
    },
  };
};

/** Returns the hold of an operation; null when it has ended. */
export const holdOfOperation = async (pool: pg.Pool, operation: string): Promise<Hold | null> => {
  const { rows } = await pool.query<HoldRow>(sql`select ${columns} from group_holds where operation_id = ${operation}`);
  return rows[0] === undefined ? null : holdOf(rows[0]);
};

/**
 * Returns the groups among `groups` that are held, with their holder. Uses one query, because every
 * worker calls it every second.
 */
export const heldAmong = async (pool: pg.Pool, groups: readonly string[]): Promise<ReadonlyMap<string, string>> => {
  const { rows } = await pool.query<{ group_name: string; operation_id: string; kind: string; actor: string }>(
    sql`select group_name, operation_id, kind, actor from group_holds where group_name = any (${groups})
      and released_at is null`,
  );
  return new Map(rows.map((row) => [row.group_name, `${row.operation_id} (${row.kind}, ${row.actor})`]));
};

export const recordHosting = async (
  pool: pg.Pool,
  { group, topic, nodes, instance }: Omit<Hosting, "joinedAt"> & { readonly instance: string },
): Promise<void> => {
  await pool.query(
    sql`insert into group_hosting (group_name, topic, nodes, instance)
      values (${group}, ${topic}, ${nodes}, ${instance})
        on conflict (group_name) do update set topic = excluded.topic, nodes = excluded.nodes,
          instance = excluded.instance, joined_at = clock_timestamp()`,
  );
};

/** The newest first. */
export const hostings = async (pool: pg.Pool): Promise<readonly Hosting[]> =>
  (
    await pool.query<{ group: string; topic: string; nodes: string[]; joinedAt: UnixMs }>(
      sql`select group_name as "group", topic, nodes, joined_at as "joinedAt" from group_hosting
        order by joined_at desc`,
    )
  ).rows;

/**
 * Returns the open replay that writes to one of these sinks or is about to; null when there is
 * none.
 */
export const openReplayOf = async (pool: pg.Pool, nodes: readonly string[]): Promise<string | null> => {
  const { rows } = await pool.query<{ replay_id: string }>(
    sql`select replay_id from replays where state in ('waiting', 'running') and sinks && ${nodes}::text[]
      order by created_at limit 1`,
  );
  return rows[0]?.replay_id ?? null;
};
