// Runs the nightly pass by hand: shows its findings and whom they concern, and decides with --yes.

import type { Command } from "commander";
import { dayOf, startOfDay } from "../../../../domain/calendar.ts";
import { toDecimal } from "../../../../domain/money.ts";
import { openClickhouse } from "../../../../infra/clickhouse/client.ts";
import { UsageError } from "../../../../infra/runtime/command-errors.ts";
import { print, printJson, table, tell } from "../../../../infra/runtime/output.ts";
import { type FoundConversion, type InspectedDay, inspectDay } from "../../../../modules/money/nightly/inspect-day.ts";
import { addresses } from "../../config.ts";
import { publishDecisions } from "../../connections.ts";
import { clientOf, withPool } from "../../pool.ts";

/** Returns the value of the conversions of a finding, by currency. */
const worthOf = (conversions: readonly FoundConversion[]): string => {
  const sums = new Map<string, bigint>();
  for (const { value_minor, currency } of conversions)
    sums.set(currency ?? "MXN", (sums.get(currency ?? "MXN") ?? 0n) + (value_minor ?? 0n));
  return [...sums].map(([currency, minor]) => `${toDecimal(minor, currency)} ${currency}`).join(", ") || "0";
};

const showNight = ({ findings, conversions, decisions }: InspectedDay): void => {
  if (findings.length === 0) {
    print("nothing was found");
    return;
  }
  print(
    table(
      ["partner", "finding", "weight", "evidence"],
      findings.map(({ partner_id, reason }) => [partner_id, reason.code, reason.weight, reason.evidence]),
    ),
  );
  const decided = new Map(conversions.map((one) => [one.event.event_id, one]));
  const concerned = decisions.flatMap(({ attributed, decision }) => {
    const one = decided.get(attributed.event.event_id);
    return one === undefined || decision === null ? [] : [{ one, code: decision.flags[0]?.code ?? null }];
  });
  if (concerned.length === 0) {
    print("\nevery conversion of these partners bears the finding already");
    return;
  }
  const rows = concerned.map(({ one, code }) => [
    one.partner_id,
    one.event.order_id ?? one.event.event_id,
    code,
    one.value_minor === null ? null : toDecimal(one.value_minor, one.currency ?? "MXN"),
    one.currency,
  ]);
  print(`\n${table(["partner", "order", "finding", "value", "currency"], rows)}`);
  print(`\n${concerned.length} decisions about ${worthOf([...new Set(concerned.map(({ one }) => one))])}`);
};

const nightlyByHand = (options: { client: string; day: string; yes?: boolean; json?: boolean }): Promise<void> =>
  withPool(async (pool) => {
    const now = Date.now();
    try {
      startOfDay(options.day);
    } catch (error) {
      throw new UsageError(`--day: ${(error as Error).message}`);
    }
    if (options.day >= dayOf(now)) throw new UsageError(`--day: ${options.day} is not over in Mexico City`);
    const client = await clientOf(pool, options.client);
    const clickhouse = openClickhouse(addresses().clickhouseUrl, { name: "tributary-ops", timeoutMs: 60_000 });
    try {
      const night = await inspectDay(clickhouse, client, options.day, now);
      if (options.json)
        printJson({
          findings: night.findings,
          decisions: night.decisions.map(({ order_key, decision }) => ({ order_key, ...decision })),
        });
      else showNight(night);
      if (night.decisions.length === 0) return;
      if (!options.yes) return tell("nothing was decided; add --yes to decide it");
      await publishDecisions(night.decisions);
      tell(`${night.decisions.length} decisions accepted`);
    } finally {
      await clickhouse.close();
    }
  });

export const fraudCommands = (program: Command): void => {
  program
    .command("fraud")
    .description("what is found over many events")
    .command("nightly")
    .description(
      "the pass of 03:30 by hand: floods of clicks, conversions that come too evenly; shows first, decides with --yes",
    )
    .requiredOption("--client <slug or id>", "whose events")
    .requiredOption("--day <YYYY-MM-DD>", "a day of Mexico City that is over")
    .option("--yes", "decide it")
    .option("--json", "as JSON")
    .addHelpText("before", "Example:\n  $ tributary fraud nightly --client casa-verde --day 2026-06-15\n")
    .action(nightlyByHand);
};
