// Quotas of events: what is spent of them, and what each plan allows in a day.
import type { Command } from "commander";
import type { PoolClient } from "pg";
import { transaction } from "../../../../infra/postgres/sql.ts";
import { UsageError } from "../../../../infra/runtime/command-errors.ts";
import { print, printJson, table } from "../../../../infra/runtime/output.ts";
import { actorOf } from "../../../../modules/base/operations/operations.ts";
import type { Work } from "../../../../modules/base/work.ts";
import { type PlanChange, setPlan } from "../../../../modules/intake/quotas/set-plan.ts";
import { type QuotaPlan, readPlans, readUsage } from "../../../../modules/intake/quotas/usage.ts";
import { minuteOf } from "../../moments.ts";
import { withPool } from "../../pool.ts";
import { byFlags } from "../../refusals.ts";
import { inWork, operatorAct } from "../../work.ts";

interface ListOptions {
  readonly json?: boolean;
}
const reading = <Rows>(read: (tx: PoolClient) => Promise<Rows>, show: (rows: Rows) => void): Promise<void> =>
  withPool(async (pool) => show(await transaction(pool, null, read)));

const whole = (amount: number): string => Math.round(amount).toLocaleString("en-US");

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"] as const;
const bytesText = (bytes: number): string => {
  const power = Math.min(UNITS.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  return `${Number((bytes / 1024 ** power).toFixed(1))} ${UNITS[power]}`;
};

const list = ({ json }: ListOptions): Promise<void> =>
  reading(readUsage, (rows) => {
    if (json) return printJson({ data: rows.map((row) => ({ ...row, refused_at: minuteOf(row.refused_at) })) });
    if (rows.length === 0) return print("nothing was sent yet that a quota counts");
    print(
      table(
        ["client", "plan", "side", "spent", "events", "of", "bytes", "of", "refused", "last refused"],
        rows.map((row) => [
          ...[row.slug ?? (row.client_id === 0 ? "(strangers)" : row.client_id), row.plan, row.side],
          ...[`${(row.share * 100).toFixed(1)} %`, whole(row.events), whole(row.most_events)],
          ...[bytesText(row.bytes), bytesText(row.most_bytes), whole(row.refused), minuteOf(row.refused_at)],
        ]),
      ),
    );
  });

const showPlans = (rows: readonly QuotaPlan[]): void =>
  print(
    table(
      ["plan", "events a day", "bytes a day", "at once"],
      rows.map((row) => [
        ...[row.plan, whole(row.events_a_day), bytesText(row.bytes_a_day), `${row.burst_hours} hours of it`],
      ]),
    ),
  );

const plans = ({ json }: ListOptions): Promise<void> =>
  reading(readPlans, (rows) => (json ? printJson({ data: rows }) : showPlans(rows)));

interface SetOptions {
  readonly eventsADay?: string;
  readonly bytesADay?: string;
  readonly burstHours?: string;
  readonly new?: boolean;
  readonly yes?: boolean;
}
const POWERS: Readonly<Record<string, number>> = { "": 0, k: 1, m: 2, g: 3, t: 4 };

/** Throws UsageError for what is no number. */
const wholeOf = (option: string, text: string | undefined): number | undefined => {
  if (text === undefined) return undefined;
  if (!/^\d{1,15}$/.test(text)) throw new UsageError(`--${option}: ${text} is no whole number`);
  return Number(text);
};
const bytesOf = (text: string | undefined): number | undefined => {
  if (text === undefined) return undefined;
  const [, digits, unit] = /^(\d{1,15})([kmgt]?)(?:i?b)?$/i.exec(text) ?? [];
  if (digits === undefined) throw new UsageError(`--bytes-a-day: ${text} is no number of bytes, like 500M or 20G`);
  return Number(digits) * 1024 ** POWERS[unit!.toLowerCase()]!;
};

const FLAGS = { events_a_day: "--events-a-day", bytes_a_day: "--bytes-a-day", burst_hours: "--burst-hours" };

const set = (plan: string, { eventsADay, bytesADay, burstHours, new: isNew, yes }: SetOptions): Promise<void> =>
  withPool(async (pool) => {
    const given = {
      events_a_day: wholeOf("events-a-day", eventsADay),
      bytes_a_day: bytesOf(bytesADay),
      burst_hours: wholeOf("burst-hours", burstHours),
    };
    const change = { plan, ...given } as PlanChange;
    const isSaved = yes === true;
    const saving = (work: Work) => setPlan(work, change, { isNew: isNew === true });
    showPlans([await inWork(pool, operatorAct(actorOf()), saving, { isSaved }).catch(byFlags(FLAGS))]);
    if (!isSaved) print("nothing is saved yet: give --yes");
  });

export const quotaCommands = (program: Command): void => {
  const quotas = program
    .command("quotas")
    .description("how much of its quota of events each client has spent, and what each plan allows");
  quotas
    .command("list")
    .description("what is spent of each quota now, the fullest first")
    .option("--json", "as JSON")
    .action(list);
  quotas
    .command("plans")
    .description("what each plan allows in a day; standard holds for a plan without a row")
    .option("--json", "as JSON")
    .action(plans);
  quotas
    .command("set <plan>")
    .description("sets what a plan allows; what is not given stays")
    .option("--events-a-day <number>", "events of each side in a day")
    .option("--bytes-a-day <number>", "bytes of their bodies, like 500M or 20G")
    .option("--burst-hours <number>", "how many hours of a day may come at once, 1 to 24")
    .option("--new", "the plan is a new one; what is not given is that of standard")
    .option("--yes", "saves it; without it, only shows it")
    .addHelpText(
      "before",
      "Examples:\n  $ tributary quotas set enterprise --events-a-day 1000000000 --yes\n" +
        "  $ tributary quotas set strangers --bytes-a-day 500M --burst-hours 2 --yes\n",
    )
    .action(set);
};
