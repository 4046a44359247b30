// Brings ClickHouse up to the newest of the numbered .sql files: one idempotent statement a file,
// so that any run can be repeated.
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Migration, migrationsIn } from "../postgres/migrate.ts";
import type { Clickhouse } from "./client.ts";

export interface AppliedStep {
  readonly number: number;
  readonly file: string;
  readonly checksum: string;
}
export interface StepStatus {
  readonly applied: readonly AppliedStep[];
  readonly pending: readonly string[];
  /**
   * Files that differ from what was applied, and applied ones that are gone; either makes `migrate`
   * refuse.
   */
  readonly problems: readonly string[];
}

/**
 * The files lie beside the sources, for tsc copies none: found from here or from dist/ by the
 * package.json above both.
 */
const shipped = (): string => {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, "package.json"))) folder = dirname(folder);
  return join(folder, "migrations", "clickhouse");
};

/** A note that was written twice, as a retried insert may be, is read once. */
const bookkeeping = `create table if not exists migrations
  (number UInt32, file String, checksum String, applied_at DateTime64(3, 'UTC') default now64(3))
  engine = ReplacingMergeTree order by number`;

const appliedIn = async (clickhouse: Clickhouse): Promise<readonly AppliedStep[]> => {
  const known = await clickhouse.query({
    query: "select count() as tables from system.tables where database = currentDatabase() and name = 'migrations'",
    format: "JSONEachRow",
  });
  if (Number((await known.json<{ tables: string }>())[0]?.tables) === 0) return [];
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

/** What was applied, what is still to do and what is wrong. Writes nothing. */
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
 * Applies what is pending, in order, and notes each step behind it. ClickHouse has no transactions
 * for tables: a run that died between a step and its note repeats that step, which is why each file
 * holds one statement that may run twice. Throws, naming the file, in the server's own words; the
 * next run goes on with that file. Refuses an edited file with the cure.
 *
 * For one caller at a time, for steps rename and drop tables: modules/installation/steps.ts lets
 * several take turns.
 */
export const migrate = async (
  clickhouse: Clickhouse,
  options: { readonly folder?: string; readonly log?: (line: string) => void } = {},
): Promise<{ readonly applied: readonly string[] }> => {
  const steps = migrationsIn(options.folder ?? shipped());
  await clickhouse.command({ query: bookkeeping });
  const before = await appliedIn(clickhouse);
  const problems = problemsOf(steps, before);
  if (problems.length > 0) throw new Error(problems.join("\n"));
  const done = new Set(before.map(({ number }) => number));
  const applied: string[] = [];
  for (const { number, file, text, checksum } of steps.filter((step) => !done.has(step.number))) {
    try {
      await clickhouse.command({ query: text });
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
