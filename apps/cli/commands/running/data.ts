// `tributary send`: sends the rows of a CSV file as events.

import { existsSync } from "node:fs";
import type { Command } from "commander";
import { UsageError } from "../../../../infra/runtime/command-errors.ts";
import { print, printJson, tell } from "../../../../infra/runtime/output.ts";
import { readRun } from "../../config.ts";
import { pairsOf } from "../../csv-events.ts";
import { clientOf, withPool } from "../../pool.ts";
import { openProgress } from "../../progress.ts";
import { send } from "../../send.ts";

interface SendOptions {
  readonly client: string;
  readonly map?: string;
  readonly set?: string;
  readonly shiftTo?: string;
  readonly token?: string;
  readonly url?: string;
  readonly batch: string;
  readonly json?: boolean;
}
const SHOWN = 20;

/** Returns the addresses of the edge and its standby. */
const edgesHere = (): readonly string[] => {
  const { apps } = readRun();
  return ["ingest", "ingest-standby"].flatMap((name) => apps[name]?.url ?? []);
};

const sendFile = async (file: string, options: SendOptions): Promise<void> => {
  if (!existsSync(file)) throw new UsageError(`${file} does not exist`);
  const batchSize = Number(options.batch);
  if (!Number.isInteger(batchSize) || batchSize < 1 || batchSize > 10_000)
    throw new UsageError(`--batch: ${options.batch} is not 1 to 10,000`);
  const mapping = { columns: pairsOf("--map", options.map), constants: pairsOf("--set", options.set) };
  const client = await withPool((pool) => clientOf(pool, options.client));
  const urls = options.url?.split(",") ?? edgesHere();
  if (urls.length === 0) throw new Error("no ingest edge runs here; start one (npm start) or name it with --url");
  for (const url of urls) if (!URL.canParse(url)) throw new UsageError(`--url: ${url} is no address`);
  const token = options.token ?? readRun().demo?.clients.find(({ id }) => id === client.client_id)?.ingest_token;
  if (token === undefined)
    throw new UsageError(
      `--token: ${client.slug} is no demo client; make one: tributary tokens create --client ${client.slug}`,
    );
  const sent = await send(
    { file, urls, token, clientId: client.client_id, mapping, shiftTo: options.shiftTo, batchSize, now: Date.now() },
    openProgress("rows", options.json),
  );
  if (options.json) printJson(sent);
  else
    print(
      `${sent.rows} rows sent, ${sent.accepted} accepted, ${sent.rejected} ` +
        `rejected${sent.shiftDays === 0 ? "" : `; all dates moved by ${sent.shiftDays} days`}`,
    );
  for (const { line, field, code, message } of sent.refused.slice(0, SHOWN))
    tell(`line ${line}: ${field ?? "row"}: ${message} (${code})`);
  if (sent.refused.length > SHOWN) tell(`and ${sent.rejected - SHOWN} more`);
  if (sent.rejected > 0) process.exitCode = 1;
};

export const dataCommands = (program: Command): void => {
  program
    .command("send <file.csv>")
    .description("sends each row of a CSV file as an event; sending it again changes nothing")
    .requiredOption("--client <slug or id>", "whose events they are")
    .option(
      "--map <field=column,...>",
      "which column holds which field; fields other than did, ts, t, event_id, url, ref, ip, ua, " +
        "consent and svc_click_id are props",
    )
    .option("--set <field=value,...>", "fields that are the same in every row")
    .option(
      "--shift-to <day>",
      "moves all dates by the same number of days, so that the last one is yesterday, today or YYYY-MM-DD",
    )
    .option("--token <token>", "ingest token; by default the demo client's")
    .option(
      "--url <url,...>",
      "the edge, and others to go on with when it does not answer; by default those that run here",
    )
    .option("--batch <n>", "events a request", "1000")
    .option("--json", "as JSON")
    .addHelpText(
      "before",
      "Examples:\n  $ tributary send sales.csv --client casa-verde --map " +
        "did=customer,ts=day,order_id=order,revenue=total,product_id=sku,quantity=units\n  $ tributary " +
        "send examples/cdnow-sample.csv --client aurora-music --map " +
        "did=customer_id,ts=date,quantity=quantity,revenue=dollars \\\n      --set " +
        "product_id=cd,currency=USD --shift-to yesterday\n\nDates without a time are taken as noon in " +
        "Mexico City. Rows without order_id get <file>-<row>.\n",
    )
    .action(sendFile);
};
