// `tributary hash`: hashes what the stores hold, and names the tables that differ from another
// hash.

import { readFileSync } from "node:fs";
import type { Command } from "commander";
import { openClickhouse } from "../../../../infra/clickhouse/client.ts";
import { openPool } from "../../../../infra/postgres/sql.ts";
import { UsageError } from "../../../../infra/runtime/command-errors.ts";
import { print, printJson, table, tell } from "../../../../infra/runtime/output.ts";
import { waitingRollups } from "../../../../modules/figures/rollups/rollup-marks.ts";
import { compareReleases, type TableComparison } from "../../../../modules/running/state-hash/compare.ts";
import type { ColumnsByTable } from "../../../../modules/running/state-hash/hour-hash.ts";
import {
  hashableTables,
  type StateByHour,
  type StateHash,
  stateByHour,
} from "../../../../modules/running/state-hash/state-hash.ts";
import { addresses } from "../../config.ts";

/** 100 million rows take about three minutes. */
const READING_MS = 600_000;

/**
 * Hashes the stores for commands that compare before and after. Also returns the number of minutes
 * whose rollups still wait.
 */
export const hashNow = async (
  names: readonly string[] = hashableTables,
  columns?: ColumnsByTable,
): Promise<StateByHour & { readonly waiting_minutes: number }> => {
  const { postgresUrl, clickhouseUrl } = addresses();
  const pool = openPool(postgresUrl, { name: "tributary-ops", max: 1, timeoutMs: READING_MS });
  const clickhouse = openClickhouse(clickhouseUrl, { name: "tributary-ops", timeoutMs: READING_MS, connections: 1 });
  try {
    const { count } = await waitingRollups(pool);
    return { ...(await stateByHour(pool, clickhouse, names, columns)), waiting_minutes: count };
  } finally {
    await clickhouse.close();
    await pool.end();
  }
};

const readEarlier = (file: string): StateHash => {
  try {
    const read = JSON.parse(readFileSync(file, "utf8")) as StateHash;
    if (typeof read.hash === "string" && Array.isArray(read.tables)) return read;
  } catch {
    // This case is reported below, like any other file that is no hash.
  }
  throw new UsageError(
    `--compare: ${file} is not the output of \`tributary hash --json\`; write it with: tributary hash --json > ${file}`,
  );
};

const show = async (options: { json?: boolean; tables?: string; compare?: string }): Promise<void> => {
  const names = options.tables?.split(",").map((name) => name.trim()) ?? hashableTables;
  const unknown = names.filter((name) => !hashableTables.includes(name));
  if (unknown.length > 0)
    throw new UsageError(`--tables: ${unknown.join(", ")} is none of ${hashableTables.join(", ")}`);
  const earlier = options.compare === undefined ? undefined : readEarlier(options.compare);
  const { hours: _, ...now } = await hashNow(names);
  if (now.waiting_minutes > 0)
    tell(
      `rollups of ${now.waiting_minutes} minutes are still to be computed: this is the hash of a ` +
        "moment; without traffic ask again in a few seconds",
    );
  const compared =
    earlier === undefined
      ? []
      : await compareReleases(
          earlier.tables.filter(({ table: name }) => names.includes(name)),
          now.tables,
          async (columns) => (await hashNow([...columns.keys()], columns)).tables,
        );
  const differing = compared.filter(({ outcome }) => outcome !== "same" && outcome !== "new");
  if (options.json)
    printJson({
      ...now,
      ...(earlier !== undefined && { compared, differing: differing.map(({ table: name }) => name) }),
    });
  else {
    print(
      table(
        ["store", "table", "rows", "hash", ...(earlier === undefined ? [] : ["beside the file"])],
        now.tables.map((one) => {
          const beside = compared.find(({ table: name }) => name === `${one.store}.${one.table}`);
          return [one.store, one.table, one.rows, one.hash.slice(0, 16), ...(beside ? [besideText(beside)] : [])];
        }),
      ),
    );
    print(`state ${now.hash}`);
  }
  for (const line of adviceOn(compared)) tell(line);
  if (differing.length > 0) process.exitCode = 1;
};

const besideText = ({ outcome, rows_before, rows, because }: TableComparison): string => {
  switch (outcome) {
    case "same":
      return "same";
    case "more":
      return `${rows! - rows_before!} more`;
    case "fewer":
      return `${rows_before! - rows!} fewer`;
    case "changed":
      return "as many, others";
    case "new":
      return "not in the file";
    case "gone":
      return "gone";
    case "unknown":
      return `unknown: ${because}`;
  }
};

/** What each outcome means, and what to do about it. Lost rows come first. */
const adviceOn = (compared: readonly TableComparison[]): readonly string[] => {
  const those = (...outcomes: readonly TableComparison["outcome"][]): string =>
    compared.flatMap(({ table: name, outcome }) => (outcomes.includes(outcome) ? [name] : [])).join(", ");
  const [fewer, other, gone, unknown] = [those("fewer"), those("more", "changed"), those("gone"), those("unknown")];
  return [
    ...(fewer === "" ? [] : [`fewer rows in ${fewer}; to bring back what was lost: tributary replay --hours 6`]),
    ...(other === "" ? [] : [`${other}: events that came since, what people decided, or results of another release`]),
    ...(gone === "" ? [] : [`${gone}: this release does not fill it; it is in the file of an earlier one`]),
    ...(unknown === ""
      ? []
      : [`${unknown}: not comparable with this file; to compare from now on: tributary hash --json > before.json`]),
  ];
};

export const hashCommands = (program: Command): void => {
  program
    .command("hash")
    .description("one number for what all tables hold that are read from the log; equal numbers, equal tables")
    .option("--tables <a,b>", `of: ${hashableTables.join(", ")}`)
    .option(
      "--compare <file>",
      "the --json output of another moment: which tables differ (exit 1); also of an earlier release",
    )
    .option("--json", "as JSON, with whole hashes")
    .addHelpText(
      "before",
      "Examples:\n  $ tributary hash\n  $ tributary hash --json > before.json\n  $ tributary hash " +
        "--compare before.json\n",
    )
    .action(show);
};
