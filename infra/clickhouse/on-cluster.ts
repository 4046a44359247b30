// The statements of migrations as a cluster needs them: on each of its servers, and every table a
// replicated one.

/** `{cluster}` is a macro of the server. */
const NAME = /^[\w.-]+$|^\{\w+\}$/;
const MAKES = "create table if not exists|create materialized view if not exists|create or replace view";
const OF_ONE_TABLE = new RegExp(`^(${MAKES}|alter table|drop table if exists|drop view if exists) (\\w+)`);
const RENAMED = /^rename table if exists \w+ to \w+$/;

/**
 * The same statement for all servers of a cluster. Tables name no place in the keeper: the server's
 * default has their UUID in it, so that a renamed table keeps its own. Rows are copied once, for
 * replicas hand them on. Throws on a name that is none, and on a form that it does not know.
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
