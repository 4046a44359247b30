// Which sinks get events that were written before, because a group was set back or a job reads the
// log again. Their age says nothing about how late the installation is.
import type { Pool } from "pg";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { Topology } from "../../../stream/flow.ts";
import { readersOf, wayTo } from "../../../stream/topology.ts";

/** Every sink, and whether one of the readers on the way to it, or the sink itself, reads again. */
export const sinksBehind = (topology: Topology, again: ReadonlySet<string>): ReadonlyMap<string, boolean> =>
  new Map(
    readersOf(topology)
      .filter(({ is }) => is === "sink")
      .map((sink) => [sink.name, wayTo(topology, sink).some(({ name }) => again.has(name))]),
  );

/**
 * A group that is set back stays held until it has caught up (modules/log/rewind/group-offsets.ts);
 * a job of the platform API names its stages and sinks.
 */
export const sinksReadAgain = async (pool: Pool, topology: Topology): Promise<ReadonlyMap<string, boolean>> => {
  const held = await pool.query<{ nodes: string[] }>(sql`
    select h.nodes from group_hosting h join group_holds using (group_name) where kind in ('rewind', 'relearn')`);
  const moved = await transaction(
    pool,
    null,
    (tx) => tx.query<{ nodes: string[] }>(sql`select plan->'nodes' as nodes from moves where status = 'running'`),
    { role: "tributary_keeper", isReadOnly: true },
  );
  return sinksBehind(topology, new Set([...held.rows, ...moved.rows].flatMap(({ nodes }) => nodes ?? [])));
};
