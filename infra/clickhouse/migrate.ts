// Brings ClickHouse to the newest of the numbered .sql files. A file holds one idempotent
// statement, so that any run can be repeated.
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Migration, migrationsIn } from "../postgres/migrate.ts";
import type { Clickhouse } from "./client.ts";
import { onCluster } from "./on-cluster.ts";

interface AppliedStep {
  readonly number: number;
  readonly file: string;
  readonly checksum: string;
}
export interface StepStatus {
  readonly applied: readonly AppliedStep[];
  readonly pending: readonly string[];
  /**
   * Files that differ from the applied version, and applied files that are missing. Either makes
   * `migrate` refuse.
   */
  readonly problems: readonly string[];
}

/**
 * The files are beside the sources, because tsc copies none. They are found from here or from dist/
 * by the package.json above both.
 */
const shipped = (): string => {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, "package.json"))) folder = dirname(folder);
  return join(folder, "migrations", "clickhouse");
};

/** A note that was written twice, as a retried insert may be, counts once. */
const bookkeeping = `create table if not exists migrations
  (number UInt32, file String, checksum String, applied_at DateTime64(3, 'UTC') default now64(3))
  engine = ReplacingMergeTree order by number`;

/** Undefined if nothing was ever applied. */
const bookkeepingEngine = async (clickhouse: Clickhouse): Promise<string | undefined> => {
  const known = await clickhouse.query({
    query: "select engine from system.tables where database = currentDatabase() and name = 'migrations'",
    format: "JSONEachRow",
  });
  return (await known.json<{ engine: string }>())[0]?.engine;
};

const appliedIn = async (clickhouse: Clickhouse): Promise<readonly AppliedStep[]> => {
  if ((await bookkeepingEngine(clickhouse)) === undefined) return [];
  const rows = await clickhouse.query({
    query: "select number, file, checksum from migrations final order by number",
    format: "JSONEachRow",
  });
  return rows.json<AppliedStep>();
};

const problemsOf = (steps: readonly Migration[], applied: readonly AppliedStep[]): readonly string[] =>
  applied.flatMap((row) => {
    const step = steps.find(({ number }) => number === row.number);
    if (step === undefined)
      return (
        `${row.file} was applied to ClickHouse and is not among the files here: the store is newer than ` +
        "this code, start the version that wrote it"
      );
    if (step.checksum === row.checksum) return [];
    return (
      `${step.file} was changed after it had been applied to ClickHouse: restore it (git checkout ` +
      `<commit> -- migrations/clickhouse/${row.file}) and put the change into a new file`
    );
  });

/** Lists the applied and the pending steps and the problems. Writes nothing. */
export const status = async (clickhouse: Clickhouse, folder = shipped()): Promise<StepStatus> => {
  const steps = migrationsIn(folder);
  const applied = await appliedIn(clickhouse);
  const isApplied = new Set(applied.map(({ number }) => number));
  return {
    applied,
    pending: steps.filter(({ number }) => !isApplied.has(number)).map(({ file }) => file),
    problems: problemsOf(steps, applied),
  };
};

/**
 * Tables of a single server do not become tables of a cluster, or the reverse: their rows would
 * have to be moved.
 */
const refuseOtherKind = async (clickhouse: Clickhouse, cluster: string | undefined): Promise<void> => {
  const engine = await bookkeepingEngine(clickhouse);
  if (engine === undefined) return;
  const isReplicated = engine.startsWith("Replicated");
  if (isReplicated && cluster === undefined)
    throw new Error("the tables of this ClickHouse are replicated: name its cluster, migrate apply --cluster <name>");
  if (!isReplicated && cluster !== undefined)
    throw new Error(
      `the tables of this ClickHouse are not replicated: --cluster ${cluster} is for a database without tables, ` +
        "which a replay of the log fills",
    );
};

const ADDS_COLUMN = /\badd column\b/i;
const MAKES_VIEW = /^create or replace view (\w+)/im;
/**
 * A view keeps the list of columns that it was made with. After a new column the views of earlier
 * steps are made again, in their order.
 */
const viewsOver = ({ number, text }: Migration, steps: readonly Migration[]): readonly string[] => {
  const views = new Map<string, string>();
  if (ADDS_COLUMN.test(text))
    for (const earlier of steps.filter((step) => step.number < number)) {
      const name = MAKES_VIEW.exec(earlier.text)?.[1];
      if (name === undefined) continue;
      views.delete(name);
      views.set(name, earlier.text);
    }
  return [...views.values()];
};

/** The server answers when all replicas are done. */
const WAIT_FOR_ALL = { alter_sync: "2", distributed_ddl_task_timeout: "21600" } as const;

/**
 * Applies the pending steps in order and notes each one after it is done. ClickHouse has no
 * transactions for tables: a run that died between a step and its note repeats that step, so each
 * file holds one statement that may run twice. Throws an error that names the file, with the
 * server's own words; the next run continues with that file. Refuses an edited file and names the
 * cure. `cluster`: tables are replicated, on all its servers (infra/clickhouse/on-cluster.ts).
 *
 * One caller at a time, because steps rename and drop tables; modules/running/installation/steps.ts
 * takes a lock.
 */
export const migrate = async (
  clickhouse: Clickhouse,
  options: {
    readonly folder?: string;
    readonly log?: (line: string) => void;
    readonly cluster?: string | undefined;
  } = {},
): Promise<{ readonly applied: readonly string[] }> => {
  const steps = migrationsIn(options.folder ?? shipped());
  const { cluster } = options;
  await refuseOtherKind(clickhouse, cluster);
  const command = (text: string) =>
    cluster === undefined
      ? clickhouse.command({ query: text })
      : clickhouse.command({ query: onCluster(text, cluster), clickhouse_settings: WAIT_FOR_ALL });
  await command(bookkeeping);
  const before = await appliedIn(clickhouse);
  const problems = problemsOf(steps, before);
  if (problems.length > 0) throw new Error(problems.join("\n"));
  const done = new Set(before.map(({ number }) => number));
  const applied: string[] = [];
  for (const step of steps.filter(({ number }) => !done.has(number))) {
    const { number, file, text, checksum } = step;
    try {
      for (const statement of [text, ...viewsOver(step, steps)]) await command(statement);
    } catch (error) {
      throw new Error(
        `${file}: ${(error as Error).message}\n  correct the cause and migrate again: it goes on with this file`,
        {
          cause: error,
        },
      );
    }
    await clickhouse.insert({
      table: "migrations",
      columns: ["number", "file", "checksum"],
      values: [[number, file, checksum]],
      format: "JSONCompactEachRow",
    });
    applied.push(file);
    options.log?.(`applied ${file}`);
  }
  return { applied };
};
