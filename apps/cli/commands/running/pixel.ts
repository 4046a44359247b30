// The pixel of a client: how it is configured, and what keeps it from working, in plain words.
import { randomUUID } from "node:crypto";
import type { Command } from "commander";
import { openClickhouse } from "../../../../infra/clickhouse/client.ts";
import { transaction } from "../../../../infra/postgres/sql.ts";
import { print, printJson, table } from "../../../../infra/runtime/output.ts";
import { UsageError } from "../../../../infra/runtime/refused.ts";
import { writeAudit } from "../../../../modules/base/audit/audit.ts";
import { actorOf } from "../../../../modules/base/operations/operations.ts";
import { findingsOf } from "../../../../modules/catalog/pixel/findings.ts";
import {
  hostOf,
  type PixelConfig,
  readPixelConfig,
  savePixelConfig,
} from "../../../../modules/catalog/pixel/pixel-config.ts";
import { readSightings } from "../../../../modules/catalog/pixel/sightings.ts";
import { activityOf, purchasesOf } from "../../../../modules/figures/rollups/rollup-reads.ts";
import { CUSTOM_NAME } from "../../../../processors/admit/event-types.ts";
import { addresses } from "../../config.ts";
import { clientOf, withPool } from "../../pool.ts";

const ASKED_MS = 10_000;
const WEEK_MS = 7 * 24 * 3_600_000;

interface Named {
  readonly client: string;
  readonly json?: boolean;
}

const doctor = ({ client: named, json }: Named): Promise<void> =>
  withPool(async (pool) => {
    const { client_id: id, slug } = await clientOf(pool, named);
    const clickhouse = openClickhouse(addresses().clickhouseUrl, { name: "tributary-ops" });
    try {
      const activity = await activityOf(clickhouse, id, "pixel", ASKED_MS);
      const purchases = await purchasesOf(clickhouse, id, ASKED_MS);
      const { config, sightings } = await transaction(pool, [id], async (tx) => ({
        config: (await readPixelConfig(tx, id, [id]))!,
        sightings: await readSightings(tx, id, [id], Date.now() - WEEK_MS),
      }));
      const findings = findingsOf({ ...activity, purchases, sightings }, config);
      if (json) return printJson({ client: slug, ...activity, purchases, findings, sightings });
      const newest = activity.last_seen_at === null ? "never" : new Date(activity.last_seen_at).toISOString();
      print(`${slug}: ${activity.events_last_hour} events of the pixel within the hour, the newest ${newest}`);
      if (findings.length === 0) print("nothing is wrong with its pixel");
      for (const { sentence, fix } of findings) print(`- ${sentence}\n  ${fix}`);
    } finally {
      await clickhouse.close();
    }
  });

type Settable = Omit<PixelConfig, "jurisdiction" | "consent_default">;
const yes = (name: string, text: string): boolean => {
  if (text !== "true" && text !== "false") throw new UsageError(`--${name}: ${text} is neither true nor false`);
  return text === "true";
};
const listOf = (text: string): readonly string[] =>
  text
    .split(",")
    .map((one) => one.trim())
    .filter((one) => one !== "");

const domainsIn = (text: string): readonly string[] =>
  listOf(text).map((given) => {
    const host = hostOf(given);
    if (host === undefined)
      throw new UsageError(`--allowed-domains: ${given} is no host like shop.example or *.shop.example`);
    return host;
  });
const eventsIn = (text: string): readonly string[] =>
  listOf(text).map((name) => {
    if (!CUSTOM_NAME.test(name)) throw new UsageError(`--tracked-events: ${name} is no name of an event`);
    return name;
  });
const typeIn = (text: string): Settable["tracking_type"] => {
  const found = (["PIXEL", "HYBRID", "S2S", "APP"] as const).find((one) => one === text);
  if (found === undefined) throw new UsageError(`--tracking-type: ${text} is none of PIXEL, HYBRID, S2S, APP`);
  return found;
};
const rateIn = (text: string): number => {
  const rate = /^\d{1,3}(?:\.\d+)?$/.test(text) ? Number(text) : -1;
  if (rate < 0 || rate > 100) throw new UsageError(`--replay-sample-rate: ${text} is no number from 0 to 100`);
  return rate;
};

interface Given extends Named {
  readonly allowedDomains?: string;
  readonly trackedEvents?: string;
  readonly trackingType?: string;
  readonly autoSignals?: string;
  readonly replayEnabled?: string;
  readonly replaySampleRate?: string;
  readonly consentReplay?: string;
  readonly yes?: boolean;
}

/** Throws UsageError for what cannot be set so. */
const patchOf = (given: Given): Partial<Settable> => ({
  ...(given.allowedDomains !== undefined && { allowed_domains: [...new Set(domainsIn(given.allowedDomains))] }),
  ...(given.trackedEvents !== undefined && { tracked_events: [...new Set(eventsIn(given.trackedEvents))] }),
  ...(given.trackingType !== undefined && { tracking_type: typeIn(given.trackingType) }),
  ...(given.autoSignals !== undefined && { auto_signals: yes("auto-signals", given.autoSignals) }),
  ...(given.replayEnabled !== undefined && { replay_enabled: yes("replay-enabled", given.replayEnabled) }),
  ...(given.replaySampleRate !== undefined && { replay_sample_rate: rateIn(given.replaySampleRate) }),
  ...(given.consentReplay !== undefined && { consent_replay: yes("consent-replay", given.consentReplay) }),
});

const config = (given: Given): Promise<void> =>
  withPool(async (pool) => {
    const patch = patchOf(given);
    const { client_id: id } = await clientOf(pool, given.client);
    const isChange = Object.keys(patch).length > 0;
    const shown = await transaction(pool, [id], async (tx) => {
      const before = (await readPixelConfig(tx, id, [id]))!;
      if (!isChange || !given.yes) return { ...before, ...patch };
      await savePixelConfig(tx, id, { ...before, ...patch });
      const after = (await readPixelConfig(tx, id, [id]))!;
      const by = { actor: actorOf(), role: "operator", request_id: `cli-${randomUUID()}`, ip: null };
      await writeAudit(tx, by, {
        action: "pixel_config.updated",
        client_id: id,
        entity: `client:${id}`,
        before,
        after,
      });
      return after;
    });
    if (given.json) return printJson(shown);
    const rows = Object.entries(shown).map(([name, value]) => [
      name,
      Array.isArray(value) ? value.join(" ") : String(value),
    ]);
    print(table(["setting", "value"], rows));
    if (isChange) print(given.yes ? "saved; pages follow within 5 minutes" : "nothing is saved yet: add --yes");
  });

export const pixelCommands = (program: Command): void => {
  const pixel = program
    .command("pixel")
    .description("the pixel of a client: its configuration, and what is wrong with it");
  pixel
    .command("doctor")
    .description("says in plain words what is missing in an integration, with its fix")
    .requiredOption("--client <slug or id>", "whose pixel")
    .option("--json", "as JSON")
    .addHelpText("before", "Examples:\n  $ tributary pixel doctor --client casa-verde\n")
    .action(doctor);
  pixel
    .command("config")
    .description("shows the configuration of a pixel, and changes what is given with --yes")
    .requiredOption("--client <slug or id>", "whose pixel")
    .option("--allowed-domains <hosts>", "shop.example,*.shop.example; empty: every page")
    .option("--tracked-events <names>", "page_view,purchase,lead_submit")
    .option("--tracking-type <type>", "PIXEL, HYBRID, S2S or APP")
    .option("--auto-signals <true or false>")
    .option("--replay-enabled <true or false>")
    .option("--replay-sample-rate <percent>", "0 to 100")
    .option("--consent-replay <true or false>")
    .option("--yes", "saves it")
    .option("--json", "as JSON")
    .addHelpText(
      "before",
      "Examples:\n  $ tributary pixel config --client casa-verde\n" +
        "  $ tributary pixel config --client casa-verde --allowed-domains shop.example,*.shop.example --yes\n",
    )
    .action(config);
};
