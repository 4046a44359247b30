// `tributary import`: uploads a file as a partner does, follows its import to the end, and prints
// what became of its rows.
import { createReadStream, existsSync, statSync } from "node:fs";
import { basename } from "node:path";
import { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import type pg from "pg";
import { pageOfRows } from "../../../../infra/postgres/rows.ts";
import { transaction } from "../../../../infra/postgres/sql.ts";
import { UsageError } from "../../../../infra/runtime/command-errors.ts";
import { print, printJson } from "../../../../infra/runtime/output.ts";
import { cancellable, importRows, withSums } from "../../../../modules/intake/imports/import-reads.ts";
import { readRun } from "../../config.ts";
import { clientOf, withPool } from "../../pool.ts";
import { openProgress } from "../../progress.ts";

interface ImportOptions {
  readonly client: string;
  readonly partner: string;
  readonly token?: string;
  readonly url?: string;
  readonly json?: boolean;
}
interface ImportKey {
  readonly client_id: number;
  readonly import_id: string;
}

const LOOK_MS = 300;
const SHOWN = [
  ...(["id", "status", "total", "accepted", "duplicate", "rejected", "bytes", "read_bytes", "error"] as const),
  ...(["file_revenue", "stored_revenue", "currency", "other_currencies", "error_codes", "same_file_as"] as const),
];

/**
 * The demonstration has an upload token for each partner of its links, in the order of the links.
 */
const demoToken = (partnerId: number): string | undefined => {
  const { demo } = readRun();
  const partners = [...new Set(demo?.links.map(({ partner_id }) => partner_id))];
  return demo?.upload_tokens[partners.indexOf(partnerId)] || undefined;
};

const uploaded = async (file: string, address: string, token: string, isQuiet: boolean): Promise<string> => {
  const { size } = statSync(file);
  const progress = openProgress("bytes", isQuiet);
  let sent = 0;
  const bytes = async function* () {
    for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) {
      sent += chunk.length;
      progress.at(sent, size);
      yield chunk;
    }
  };
  const answer = await fetch(address, {
    method: "PUT",
    body: Readable.toWeb(Readable.from(bytes())) as ReadableStream,
    duplex: "half",
    headers: { authorization: `Bearer ${token}` },
  } as RequestInit);
  progress.done();
  const body = (await answer.json()) as { readonly import_id?: string; readonly detail?: string };
  if (body.import_id === undefined) throw new Error(`not taken (${answer.status}): ${body.detail}`);
  return body.import_id;
};

const rowOf = (pool: pg.Pool, { client_id, import_id }: ImportKey) =>
  transaction(pool, [client_id], async (tx) => {
    const reading = { names: SHOWN, sort: "created_at", clients: [client_id] };
    return withSums((await pageOfRows(tx, importRows({ import_id }), reading, { limit: 1 })).rows[0]!);
  });

/** Waits until the import has ended, however long no process takes it. */
const followed = async (pool: pg.Pool, which: ImportKey, isQuiet: boolean) => {
  const progress = openProgress("bytes imported", isQuiet);
  for (;;) {
    const row = await rowOf(pool, which);
    progress.at(row.read_bytes, row.bytes);
    if (!cancellable.includes(row.status)) {
      progress.done();
      return row;
    }
    await sleep(LOOK_MS);
  }
};

const importFile = async (file: string, options: ImportOptions): Promise<void> => {
  if (!existsSync(file)) throw new UsageError(`${file} does not exist`);
  const partnerId = Number(options.partner);
  if (!Number.isInteger(partnerId)) throw new UsageError(`--partner: ${options.partner} is no id`);
  const token = options.token ?? demoToken(partnerId);
  if (token === undefined)
    throw new UsageError(`--token: make one: tributary tokens create --kind upload --partner ${partnerId}`);
  const url = options.url ?? readRun().apps.ingest?.url;
  if (url === undefined || !URL.canParse(url))
    throw new UsageError("--url: name the ingest host, e.g. http://127.0.0.1:8080");
  const isQuiet = options.json === true;
  const row = await withPool(async (pool) => {
    const { client_id } = await clientOf(pool, options.client);
    const name = basename(file).replaceAll(/[^A-Za-z0-9._-]/g, "_");
    const address = `${url}/upload/${client_id}/${partnerId}/${encodeURIComponent(name)}`;
    const import_id = await uploaded(file, address, token, isQuiet);
    return followed(pool, { client_id, import_id }, isQuiet);
  });
  if (isQuiet) printJson(row);
  else print(linesOf(row).join("\n"));
  if (row.status !== "completed") process.exitCode = 1;
};

const linesOf = (row: Readonly<Record<string, any>>): readonly string[] => [
  `${row.id} ${row.status}${row.error === null ? "" : `: ${row.error}`}`,
  `${row.total} rows: ${row.accepted} accepted, ${row.duplicate} duplicate, ${row.rejected} rejected`,
  ...[row, ...row.other_currencies].map(
    ({ currency, file_revenue, stored_revenue }) =>
      `${currency}: the file says ${file_revenue}, ${stored_revenue} of it was taken`,
  ),
  ...row.error_codes.map(({ code, count }: { code: string; count: number }) => `${count} rejected: ${code}`),
  ...(row.rejected === 0 ? [] : [`their lines, with what is wrong: GET /api/imports/${row.id}/errors`]),
  ...(row.same_file_as === null ? [] : [`the same file as ${row.same_file_as}`]),
];

export const importCommand = (program: Command): void => {
  program
    .command("import <file.csv>")
    .description("uploads a CSV file of a partner, follows its import, and prints counts and both sums")
    .requiredOption("--client <slug or id>", "whose sales they are")
    .requiredOption("--partner <id>", "who gets the credit")
    .option("--token <token>", "upload token of the partner; by default the demonstration's")
    .option("--url <url>", "the ingest host; by default the one that runs here")
    .option("--json", "the import as JSON")
    .addHelpText("before", "Examples:\n  $ tributary import sales.csv --client casa-verde --partner 1\n")
    .action(importFile);
};
