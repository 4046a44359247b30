// `tributary decide undo-import`: shows what a file brought, withdraws its word with --yes, and
// follows that to its end.
import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import type pg from "pg";
import { pageOfRows } from "../../../../infra/postgres/rows.ts";
import { transaction } from "../../../../infra/postgres/sql.ts";
import { UsageError } from "../../../../infra/runtime/command-errors.ts";
import { print, printJson, tell } from "../../../../infra/runtime/output.ts";
import { jobRows } from "../../../../modules/base/jobs/jobs.ts";
import { actorOf } from "../../../../modules/base/operations/operations.ts";
import type { Work } from "../../../../modules/base/work.ts";
import { importRows, withSums } from "../../../../modules/intake/imports/import-reads.ts";
import { undoImport } from "../../../../modules/intake/imports/undo.ts";
import { clientOf, withPool } from "../../pool.ts";
import { openProgress } from "../../progress.ts";
import { inOperation, inWork, operatorAct } from "../../work.ts";

interface UndoOptions {
  readonly client: string;
  readonly import: string;
  readonly reason: string;
  readonly actor?: string;
  readonly yes?: boolean;
  readonly json?: boolean;
}
interface ImportKey {
  readonly client_id: number;
  readonly import_id: string;
}

const SHOWN = ["id", "filename", "status", "accepted", "stored_revenue", "currency", "other_currencies"] as const;
const LOOK_MS = 300;

const importOf = (pool: pg.Pool, { client_id, import_id }: ImportKey) =>
  transaction(
    pool,
    [client_id],
    async (tx) => {
      const names = [...SHOWN, "file_revenue", "undone", "undone_at"];
      const reading = { names, sort: "created_at", clients: [client_id] };
      const { rows } = await pageOfRows(tx, importRows({ import_id, client_id }), reading, { limit: 1 });
      return rows[0] === undefined ? undefined : withSums(rows[0]);
    },
    { isReadOnly: true },
  );

/** Writes the operation to the log first: what cannot be recorded is not done. Returns the job. */
const ask = (
  pool: pg.Pool,
  { client_id, import_id }: ImportKey,
  { reason, actor: given }: UndoOptions,
): Promise<string> => {
  const actor = actorOf(given);
  const plan = { kind: "decision" as const, actor, target: `undo of ${import_id}, client ${client_id}`, reason };
  const words = { before: { import_id }, after: (job_id: string) => ({ job_id }) };
  const useCase = (work: Work) => undoImport(work, { import_id, reason });
  return inOperation(plan, words, () => inWork(pool, operatorAct(actor), useCase));
};

/** Waits until the undo has ended, however long no keeper takes it. */
const followed = async (pool: pg.Pool, { client_id }: ImportKey, jobId: string, isQuiet: boolean): Promise<void> => {
  const progress = openProgress("rows", isQuiet);
  for (;;) {
    const job = await transaction(pool, [client_id], async (tx) => {
      const reading = { names: ["status", "progress", "error"], sort: "created_at", clients: [client_id] };
      return (await pageOfRows(tx, jobRows({ job_id: jobId }), reading, { limit: 1 })).rows[0];
    });
    // A job is deleted 90 days after its end; the import keeps the result.
    if (job === undefined || job.status === "completed") return progress.done();
    if (job.status === "failed") throw new Error(`${jobId} has failed: ${job.error}; undo it again to go on`);
    progress.at(job.progress.done, job.progress.total);
    await sleep(LOOK_MS);
  }
};

const undo = (options: UndoOptions) =>
  withPool(async (pool) => {
    const { client_id } = await clientOf(pool, options.client);
    const which = { client_id, import_id: options.import };
    const found = await importOf(pool, which);
    if (found === undefined) throw new UsageError(`--import: ${options.import} is no import of ${options.client}`);
    if (!options.json) print(linesOf(found).join("\n"));
    if (!options.yes) {
      if (options.json) printJson(found);
      return tell("nothing was undone; add --yes to withdraw what its rows say of their orders");
    }
    const isUndone = found.undone_at !== null && found.undone.not_stored === 0;
    if (!isUndone) await followed(pool, which, await ask(pool, which, options), options.json === true);
    const undone = (await importOf(pool, which))!;
    if (options.json) printJson(undone);
    else print(undoneLines(undone.undone).join("\n"));
  });

type ImportRow = Readonly<Record<string, any>>;

/** A file that has no amounts in the client's currency says nothing about that currency. */
const isOfFile = ({ stored_revenue }: ImportRow): boolean => /[1-9]/.test(stored_revenue);

export const linesOf = (row: ImportRow): readonly string[] => [
  `${row.id} ${row.filename} ${row.status}: ${row.accepted} rows accepted`,
  ...[row, ...row.other_currencies]
    .filter(isOfFile)
    .map((one) => `${one.currency}: ${one.stored_revenue} was taken of it`),
  ...(row.undone_at === null ? [] : ["it is undone"]),
];

const WORDS = {
  uncredited: "were credited to no partner",
  copies: "are copies of sales that are counted elsewhere",
  decided: "were credited by a person since, and stay so",
  no_sale: "are no sales",
  not_stored: "are not stored: undo it again when they are",
} as const;

const undoneLines = (undone: ImportRow): readonly string[] => [
  `${undone.taken_back} sales taken back`,
  ...undone.sums.map(({ amount, currency }: ImportRow) => `${currency}: ${amount}`),
  ...Object.entries(WORDS).flatMap(([name, words]) => (undone[name] === 0 ? [] : [`${undone[name]} rows ${words}`])),
];

export const undoImportCommand = (decisions: Command): void => {
  decisions
    .command("undo-import")
    .description("withdraws what an imported file said: each order is what its other claims make of it")
    .requiredOption("--client <slug or id>", "whose sales they are")
    .requiredOption("--import <id>", "as the upload was answered: imp_...")
    .requiredOption("--reason <text>", "why, in words; kept with each decision")
    .option("--actor <e-mail>", "who decides, beside the account of this machine")
    .option("--yes", "decide it")
    .option("--json", "as JSON")
    .addHelpText(
      "before",
      "Examples:\n  $ tributary decide undo-import --client casa-verde --import imp_5f0c... " +
        "--reason 'sent by mistake' --yes\n\n" +
        "What was booked for its rows goes back (import_undone). A sale that others have reported stays theirs, one\n" +
        "that a person has given to another partner stays as it is, and the same rows in a corrected file are new\n" +
        "events. Which stands of a total and its lines is said again (decide release --keep).\n" +
        "Without --yes it shows what the file brought.\n",
    )
    .action(undo);
};
