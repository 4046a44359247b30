// `tributary hash`: hashes what the stores hold, and names the tables that differ from another
// hash.

import { readFileSync } from "node:fs";
import type { Command } from "commander";
import { openClickhouse } from "../../../../infra/clickhouse/client.ts";
import { openPool } from "../../../../infra/postgres/sql.ts";
import { UsageError } from "../../../../infra/runtime/command-errors.ts";
import { print, printJson, table, tell } from "../../../../infra/runtime/output.ts";
import { waitingRollups } from "../../../../modules/figures/rollups/rollup-marks.ts";
import {
  differingTables,
  hashableTables,
  type StateHash,
  stateHash,
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
): Promise<StateHash & { readonly waiting_minutes: number }> => {
  const { postgresUrl, clickhouseUrl } = addresses();
  const pool = openPool(postgresUrl, { name: "tributary-ops", max: 1, timeoutMs: READING_MS });
  const clickhouse = openClickhouse(clickhouseUrl, { name: "tributary-ops", timeoutMs: READING_MS, connections: 1 });
  try {
    const { count } = await waitingRollups(pool);
    return { ...(await stateHash(pool, clickhouse, names)), waiting_minutes: count };
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
  const now = await hashNow(names);
  if (now.waiting_minutes > 0)
    tell(
      `rollups of ${now.waiting_minutes} minutes are still to be computed: this is the hash of a ` +
        "moment; without traffic ask again in a few seconds",
    );
  const differing =
    earlier === undefined
      ? []
      : differingTables({ ...earlier, tables: earlier.tables.filter(({ table: name }) => names.includes(name)) }, now);
  if (options.json) printJson({ ...now, ...(earlier !== undefined && { differing }) });
  else {
    print(
      table(
        ["store", "table", "rows", "hash", ...(earlier === undefined ? [] : ["beside the file"])],
        now.tables.map((one) => {
          const was = earlier?.tables.find(({ store, table: name }) => store === one.store && name === one.table);
          const beside = differing.includes(`${one.store}.${one.table}`)
            ? `differs (${was === undefined ? "not in it" : `${was.rows} rows`})`
            : "same";
          return [one.store, one.table, one.rows, one.hash.slice(0, 16), ...(earlier === undefined ? [] : [beside])];
        }),
      ),
    );
    print(`state ${now.hash}`);
  }
  if (differing.length > 0) {
    tell(`${differing.join(", ")} differ; to bring back rows that were lost: tributary replay --hours 6`);
    process.exitCode = 1;
  }
};

export const hashCommands = (program: Command): void => {
  program
    .command("hash")
    .description("one number for what all tables hold that are read from the log; equal numbers, equal tables")
    .option("--tables <a,b>", `of: ${hashableTables.join(", ")}`)
    .option("--compare <file>", "the --json output of another moment: which tables differ (exit 1)")
    .option("--json", "as JSON, with whole hashes")
    .addHelpText(
      "before",
      "Examples:\n  $ tributary hash\n  $ tributary hash --json > before.json\n  $ tributary hash " +
        "--compare before.json\n",
    )
    .action(show);
};
