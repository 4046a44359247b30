// Faults that repeat the past: replays, rewinds, and deleted rows and partitions that a replay
// restores. The state hash must be the same before and after.

import { execFile } from "node:child_process";
import { rollupTables } from "../../../modules/figures/rollups/table.ts";
import { groupNamed } from "../../../modules/log/groups/hosting.ts";
import { hashedAnalytics } from "../../../modules/running/state-hash/clickhouse.ts";
import { postgresTables } from "../../../modules/running/state-hash/sink-tables.ts";
import { differingTables, type StateHash, stateHash } from "../../../modules/running/state-hash/state-hash.ts";
import { ledger } from "../../../sinks/ledger/table.ts";
import { searchPath } from "../config.ts";
import { sinkGroups, stageGroups } from "../hosting.ts";
import { unless } from "../laws/law.ts";
import { rebuildInto } from "../rebuild.ts";
import { between, type Fault, type Proof, pick, type Scene } from "./fault.ts";

const COMMAND_MS = 240_000;

const hashOf = ({ target }: Pick<Scene, "target">): Promise<StateHash> => stateHash(target.pool, target.clickhouse);

/** Runs the command line as an operator would. Returns its output; throws with its stderr. */
const tributary = ({ target }: Scene, ...args: readonly string[]): Promise<string> =>
  new Promise((resolve, reject) => {
    const env = { PATH: searchPath(), TRIBUTARY_HOME: target.home };
    const options = { cwd: target.root, env, timeout: COMMAND_MS, maxBuffer: 64 * 1024 * 1024 };
    execFile(process.execPath, ["dist/apps/cli/main.js", ...args], options, (error, stdout, stderr) =>
      error === null
        ? resolve(stdout)
        : reject(new Error(`tributary ${args.join(" ")}: ${stderr.trim().slice(-600) || error.message}`)),
    );
  });

const short = ({ hash }: StateHash): string => hash.slice(0, 12);
/** Records for a law whether two states are equal. */
const compare = (scene: Scene, laws: readonly string[], before: StateHash, after: StateHash, what: string): void => {
  const differing = differingTables(before, after).map((table) => `${table} differs after ${what}`);
  for (const law of laws) scene.find(law, unless(differing, `H ${short(before)} before and after ${what}`));
};

interface ReplayAnswer {
  readonly events_requeued?: number;
  readonly errors?: readonly { readonly message: string }[];
}
const UNREADABLE = /\b(not_framed|unknown_schema|unreadable_body|content_hash_mismatch)\b/;

const replay = async (scene: Scene, hours: number): Promise<number> => {
  const { apps, demo } = scene.target.run();
  const token = (demo as { admin_token: string }).admin_token;
  const response = await fetch(`${apps.ingest!.url}/admin/wal-replay?hours=${hours}`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}` },
    signal: AbortSignal.timeout(COMMAND_MS),
  });
  const report = (await response.json()) as ReplayAnswer;
  // Unreadable records are reported as errors; they were dead letters before and still are.
  const failed = (report.errors ?? []).filter(({ message }) => !UNREADABLE.test(message));
  if (response.status !== 200 || failed.length > 0)
    throw new Error(`the replay answered ${response.status}: ${JSON.stringify(report)}`);
  return report.events_requeued ?? 0;
};

const replays: Fault = {
  name: "a replay",
  id: "F-22",
  isAlone: true,
  run: async (scene) => {
    const before = await hashOf(scene);
    const hours = pick(scene.random, [1, 6, 48]);
    const written = await replay(scene, hours);
    await scene.quiet();
    compare(scene, ["R1"], before, await hashOf(scene), `a replay of ${hours} h`);
    return { took: written > 0, what: `${written} records of ${hours} h were written again` };
  },
};

/** Deletes data past the product, proves that it is gone, and restores it with one replay. */
const lost = (name: string, remove: (scene: Scene) => Promise<string>): Fault => ({
  name,
  id: "R2",
  isAlone: true,
  run: async (scene): Promise<Proof> => {
    const before = await hashOf(scene);
    let removed = "";
    let gone: readonly string[] = [];
    // Done twice without new events in between: notes that the first replay left, such as tokens
    // and ids seen, must not make the second one skip rows.
    for (let n = 0; n < 2; n += 1) {
      removed = await remove(scene);
      gone = differingTables(before, await hashOf(scene));
      await replay(scene, 48);
      await scene.quiet();
      compare(scene, ["R2", "R1"], before, await hashOf(scene), `replay ${n + 1} of ${removed}`);
    }
    return { took: gone.length > 0, what: `${removed}; gone from ${gone.join(", ")}` };
  },
});
const partition = lost("a partition dropped and replayed", async ({ target }) => {
  const [month] = await target.select<{ month: string }>("select toString(toYYYYMM(max(ts))) as month from events");
  await target.command(`alter table events drop partition ${month!.month}`);
  for (const { name: table } of rollupTables) await target.command(`truncate table ${table}`);
  return `the ClickHouse partition ${month!.month} and all rollups`;
});
/**
 * Ledger entries are not deleted: a replayed entry inserts its lines too, and lines that still
 * exist would refuse them.
 */
const scattered = postgresTables.filter(({ name }) => name !== ledger.name);
const rows = lost("rows deleted and replayed", async ({ target, random }) => {
  const seed = between(random, 1, 1_000_000);
  await target.clickhouse.command({
    query: `alter table events delete where cityHash64(event_id, toUInt64(${seed})) % 20 = 0`,
    clickhouse_settings: { mutations_sync: "2" },
  });
  const connection = await target.pool.connect();
  try {
    // Bypasses the triggers that forbid deletes, as an accident would.
    await connection.query("set session_replication_role = replica");
    for (const { name: table } of scattered)
      await connection.query(`delete from ${table} where abs(hashtextextended(${table}::text, ${seed})) % 20 = 0`);
    await connection.query("set session_replication_role = origin");
  } finally {
    connection.release();
  }
  return `every twentieth row of ${scattered.length + 1} tables`;
});
const emptied = lost("all tables emptied and replayed", async ({ target }) => {
  for (const { name: table } of hashedAnalytics) await target.command(`truncate table ${table}`);
  const connection = await target.pool.connect();
  try {
    await connection.query("set session_replication_role = replica");
    for (const { name: table } of postgresTables) await connection.query(`delete from ${table}`);
    await connection.query("set session_replication_role = origin");
    await target.redis.flushall();
  } finally {
    connection.release();
  }
  const emptied = hashedAnalytics.length + postgresTables.length;
  return `every row of ${emptied} tables and all of Redis`;
});

/** The names that `tributary rewind` accepts: each moves a whole group of stages or sinks. */
const rewound = [...stageGroups.map(({ chain }) => chain.name), ...sinkGroups.map(({ sinks }) => sinks[0]!.name)];
interface RewindPlan {
  readonly partitions: readonly { readonly partition: number; readonly committed: number; readonly target: number }[];
}
const rewind: Fault = {
  name: "a rewind",
  id: "R10",
  isAlone: true,
  run: async (scene) => {
    const before = await hashOf(scene);
    const name = pick(scene.random, rewound);
    scene.forgive(groupNamed(name));
    const plan = await tributary(scene, "rewind", name, "--to", "earliest", "--json");
    const { partitions } = JSON.parse(plan) as RewindPlan;
    const forward = partitions.filter(({ committed, target }) => target > committed);
    await tributary(scene, "rewind", name, "--to", "earliest", "--yes", "--json");
    await scene.quiet();
    const events = partitions.reduce((sum, { committed, target }) => sum + Math.max(0, committed - target), 0);
    scene.find(
      "R10",
      unless(
        forward.map(({ partition: n }) => `partition ${n} of ${name} would move forward`),
        `${partitions.length} partitions of ${name} went back by ${events} records, none forward`,
      ),
    );
    compare(scene, ["R1"], before, await hashOf(scene), `a rewind of ${name} to the beginning`);
    return { took: events > 0, what: `${name} read ${events} records again` };
  },
};
const rebuild: Fault = {
  name: "everything rebuilt",
  id: "R5",
  isAlone: true,
  weight: 0.3,
  run: async (scene) => {
    const live = await hashOf(scene);
    const { differing, records, seconds } = await rebuildInto(scene.target, live, scene.tell);
    scene.find(
      "R5",
      unless(differing, `H ${short(live)} live and rebuilt from ${records} records in ${seconds.toFixed(0)} s`),
    );
    return { took: records > 0, what: `${records} records of three topics were read into empty stores` };
  },
};

export const timeFaults: readonly Fault[] = [replays, partition, rows, emptied, rewind, rebuild];
