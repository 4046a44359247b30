// The alerts about the stores, and the mails that the embedded stack has kept.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Command } from "commander";
import { readMail } from "../../../../infra/mail/read-mail.ts";
import { UsageError } from "../../../../infra/runtime/command-errors.ts";
import { print, printJson, table, tell } from "../../../../infra/runtime/output.ts";
import { listAlerts } from "../../../../modules/base/alerts/kept-alerts.ts";
import { listProbes } from "../../../../modules/running/repair/probe-states.ts";
import { homeOf } from "../../config.ts";
import { withPool } from "../../pool.ts";

const second = (at: number | null): string | null =>
  at === null ? null : `${new Date(at).toISOString().slice(0, 19)}Z`;
const numberOf = (text: string, name: string): number => {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 1 || number > 1_000)
    throw new UsageError(`${name}: ${text} is no number from 1 to 1000`);
  return number;
};

const alerts = ({ limit, json }: { limit: string; json?: boolean }): Promise<void> =>
  withPool(async (pool) => {
    const found = await listAlerts(pool, numberOf(limit, "--limit"));
    if (json)
      return printJson({
        data: found.map((row) => ({ ...row, told_at: second(row.told_at), mailed_at: second(row.mailed_at) })),
      });
    const mailOf = (mailedAt: number | null, error: string | null) =>
      mailedAt !== null ? "sent" : error === null ? "kept" : `failed: ${error}`;
    print(
      table(
        ["time", "service", "status", "severity", "downtime", "mail", "incident", "reason"],
        found.map((row) => [
          second(row.told_at),
          row.service,
          row.status,
          row.severity,
          row.duration,
          mailOf(row.mailed_at, row.mail_error),
          row.incident_id,
          row.reason.replace(/\s+/g, " "),
        ]),
      ),
    );
  });

const probes = ({ json }: { json?: boolean }): Promise<void> =>
  withPool(async (pool) => {
    const found = await listProbes(pool);
    const isoOf = ({ since, checked_at, last_ok_at, failing_since, restarted_at, ...row }: (typeof found)[number]) => ({
      ...row,
      ...{
        since: second(since),
        checked_at: second(checked_at),
        last_ok_at: second(last_ok_at),
        failing_since: second(failing_since),
      },
      restarted_at: restarted_at.map(second),
    });
    if (json) return printJson({ data: found.map(isoOf) });
    print(
      table(
        ["store", "state", "failures", "since", "checked", "last ok", "restarts", "last error"],
        found
          .map(isoOf)
          .map((row) => [
            row.name,
            row.state,
            row.failures,
            row.since,
            row.checked_at,
            row.last_ok_at,
            row.restarted_at.length,
            row.last_error,
          ]),
      ),
    );
  });

const folder = (): string => join(homeOf(), "mail");
/** The newest mail comes first. */
const mailsHere = (): readonly string[] => {
  try {
    return readdirSync(folder())
      .filter((file) => file.endsWith(".eml"))
      .sort()
      .reverse();
  } catch {
    return [];
  }
};

const listMails = ({ limit, json }: { limit: string; json?: boolean }): void => {
  const rows = mailsHere()
    .slice(0, numberOf(limit, "--limit"))
    .map((file, n) => {
      const { to, subject } = readMail(readFileSync(join(folder(), file), "utf8"));
      const at = second(Number(file.split("-")[0]));
      return {
        number: n + 1,
        at,
        to,
        subject,
        file: join(folder(), file),
      };
    });
  if (json) {
    printJson({ data: rows });
    return;
  }
  print(
    table(
      ["n", "taken", "to", "subject"],
      rows.map(({ number, at, to, subject }) => [number, at, to, subject]),
    ),
  );
  tell(`as a page: ${pathToFileURL(join(folder(), "mailbox.html")).href}`);
};

const showMail = (number: string, { raw: isRaw }: { raw?: boolean }): void => {
  const file = mailsHere()[numberOf(number, "number") - 1];
  if (file === undefined) throw new Error(`there is no mail ${number} in ${folder()}; see: tributary mail list`);
  const raw = readFileSync(join(folder(), file), "utf8");
  const { to, subject, text } = readMail(raw);
  print(isRaw || text === "" ? raw.trimEnd() : `To: ${to}\nSubject: ${subject}\n\n${text.trimEnd()}`);
};

export const alertCommands = (program: Command): void => {
  program
    .command("alerts")
    .description("alerts of stores that failed and recovered, newest first")
    .option("--limit <n>", "at most so many", "20")
    .option("--json", "as JSON")
    .addHelpText("before", "Examples:\n  $ tributary alerts\n  $ tributary alerts --limit 100 --json\n")
    .action(alerts);
  program
    .command("probes")
    .description("how the keeper finds each store")
    .option("--json", "as JSON")
    .addHelpText("before", "Examples:\n  $ tributary probes\n")
    .action(probes);
  const mail = program.command("mail").description("mails that the embedded stack has kept instead of delivering them");
  mail
    .command("list", { isDefault: true })
    .description("newest first")
    .option("--limit <n>", "at most so many", "20")
    .option("--json", "as JSON")
    .addHelpText("before", "Examples:\n  $ tributary mail\n  $ tributary mail show 1\n")
    .action(listMails);
  mail
    .command("show <number>")
    .description("one of them, its text")
    .option("--raw", "as it came")
    .addHelpText("before", "Examples:\n  $ tributary mail show 1\n  $ tributary mail show 1 --raw\n")
    .action(showMail);
};
