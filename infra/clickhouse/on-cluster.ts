// Rewrites the statements of migrations for a cluster: they run on each server, and every table is
// replicated.

/** `{cluster}` is a macro of the server. */
const NAME = /^[\w.-]+$|^\{\w+\}$/;
const MAKES = "create table if not exists|create materialized view if not exists|create or replace view";
const OF_ONE_TABLE = new RegExp(`^(${MAKES}|alter table|drop table if exists|drop view if exists) (\\w+)`);
const RENAMED = /^rename table if exists \w+ to \w+$/;

/**
 * Rewrites a statement for all servers of a cluster. Tables name no path in the keeper: the
 * server's default contains their UUID, so that a renamed table keeps its path. Rows are copied on
 * one server only, since replicas pass them on. Throws on an invalid name and on an unknown form of
 * statement.
 */
export const onCluster = (text: string, cluster: string): string => {
  if (!NAME.test(cluster))
    throw new Error(`${cluster} is no name of a cluster, see: select cluster from system.clusters`);
  const lines = text.split("\n").filter((line) => !line.startsWith("--"));
  const statement = lines.join("\n").trim();
  const everywhere = `on cluster '${cluster}'`;
  const replicated = statement
    .replace(/\bengine = (\w*MergeTree)\b/, "engine = Replicated$1")
    .replace("non_replicated_deduplication_window", "replicated_deduplication_window");
  if (OF_ONE_TABLE.test(replicated)) return replicated.replace(OF_ONE_TABLE, `$1 $2 ${everywhere}`);
  if (RENAMED.test(replicated)) return `${replicated} ${everywhere}`;
  if (replicated.startsWith("insert into ")) return replicated;
  throw new Error(`no form for a cluster is known of: ${statement.slice(0, 60)}`);
};
