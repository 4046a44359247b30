// The pixel of a client: its configuration, and in plain words what keeps it from working.
import type { Command } from "commander";
import type { Pool } from "pg";
import { openClickhouse } from "../../../../infra/clickhouse/client.ts";
import { transaction } from "../../../../infra/postgres/sql.ts";
import { UsageError } from "../../../../infra/runtime/command-errors.ts";
import { print, printJson, table } from "../../../../infra/runtime/output.ts";
import { actorOf } from "../../../../modules/base/operations/operations.ts";
import { changePixel, type PixelPatch } from "../../../../modules/catalog/pixel/change.ts";
import { awaitedTypes, findingsOf } from "../../../../modules/catalog/pixel/findings.ts";
import {
  type PixelConfig,
  readPixelConfig,
  type SavedPixelConfig,
} from "../../../../modules/catalog/pixel/pixel-config.ts";
import { readSightings } from "../../../../modules/catalog/pixel/sightings.ts";
import { activityOf, weekOf } from "../../../../modules/figures/rollups/rollup-reads.ts";
import { CUSTOM_NAME } from "../../../../processors/admit/event-types.ts";
import { addresses } from "../../config.ts";
import { clientOf, withPool } from "../../pool.ts";
import { inWork, operatorAct } from "../../work.ts";

const ASKED_MS = 10_000;
const WEEK_MS = 7 * 24 * 3_600_000;

interface ClientOptions {
  readonly client: string;
  readonly json?: boolean;
}

const doctor = ({ client: named, json }: ClientOptions): Promise<void> =>
  withPool(async (pool) => {
    const { client_id: id, slug } = await clientOf(pool, named);
    const clickhouse = openClickhouse(addresses().clickhouseUrl, { name: "tributary-ops" });
    try {
      const { config, sightings } = await transaction(pool, [id], async (tx) => ({
        config: (await readPixelConfig(tx, id, [id]))!,
        sightings: await readSightings(tx, id, [id], Date.now() - WEEK_MS),
      }));
      const activity = await activityOf(clickhouse, id, "pixel", ASKED_MS);
      const week = await weekOf(clickhouse, { clientId: id, types: awaitedTypes(config) }, ASKED_MS);
      const findings = findingsOf({ ...activity, week, sightings }, config);
      if (json) return printJson({ client: slug, ...activity, findings, sightings });
      const newest = activity.last_seen_at === null ? "never" : new Date(activity.last_seen_at).toISOString();
      print(`${slug}: ${activity.events_last_hour} events of the pixel within the hour, the newest ${newest}`);
      if (findings.length === 0) print("nothing is wrong with its pixel");
      for (const { sentence, fix } of findings) print(`- ${sentence}\n  ${fix}`);
    } finally {
      await clickhouse.close();
    }
  });

const yes = (name: string, text: string): boolean => {
  if (text !== "true" && text !== "false") throw new UsageError(`--${name}: ${text} is neither true nor false`);
  return text === "true";
};
const listOf = (text: string): readonly string[] =>
  text
    .split(",")
    .map((one) => one.trim())
    .filter((one) => one !== "");

const eventsIn = (text: string): readonly string[] =>
  listOf(text).map((name) => {
    if (!CUSTOM_NAME.test(name)) throw new UsageError(`--tracked-events: ${name} is no name of an event`);
    return name;
  });
const typeIn = (text: string): PixelConfig["tracking_type"] => {
  const found = (["PIXEL", "HYBRID", "S2S", "APP"] as const).find((one) => one === text);
  if (found === undefined) throw new UsageError(`--tracking-type: ${text} is none of PIXEL, HYBRID, S2S, APP`);
  return found;
};
const jurisdictionIn = (text: string): PixelConfig["jurisdiction"] => {
  const found = (["MX", "EU", "UK", "BR"] as const).find((one) => one === text);
  if (found === undefined) throw new UsageError(`--jurisdiction: ${text} is none of MX, EU, UK, BR`);
  return found;
};
const maskIn = (text: string): number => {
  const mask = /^\d{1,3}$/.test(text) ? Number(text) : 256;
  if (mask > 255) throw new UsageError(`--consent-default: ${text} is no whole number from 0 to 255`);
  return mask;
};
const rateIn = (text: string): number => {
  const rate = /^\d{1,3}(?:\.\d+)?$/.test(text) ? Number(text) : -1;
  if (rate < 0 || rate > 100) throw new UsageError(`--replay-sample-rate: ${text} is no number from 0 to 100`);
  return rate;
};

interface ConfigOptions extends ClientOptions {
  readonly allowedDomains?: string;
  readonly trackedEvents?: string;
  readonly trackingType?: string;
  readonly autoSignals?: string;
  readonly replayEnabled?: string;
  readonly replaySampleRate?: string;
  readonly consentReplay?: string;
  readonly jurisdiction?: string;
  readonly consentDefault?: string;
  readonly yes?: boolean;
}

/** Throws UsageError for an invalid value. */
const patchOf = (given: ConfigOptions): PixelPatch => ({
  ...(given.allowedDomains !== undefined && { allowed_domains: listOf(given.allowedDomains) }),
  ...(given.trackedEvents !== undefined && { tracked_events: eventsIn(given.trackedEvents) }),
  ...(given.trackingType !== undefined && { tracking_type: typeIn(given.trackingType) }),
  ...(given.autoSignals !== undefined && { auto_signals: yes("auto-signals", given.autoSignals) }),
  ...(given.replayEnabled !== undefined && { replay_enabled: yes("replay-enabled", given.replayEnabled) }),
  ...(given.replaySampleRate !== undefined && { replay_sample_rate: rateIn(given.replaySampleRate) }),
  ...(given.consentReplay !== undefined && { consent_replay: yes("consent-replay", given.consentReplay) }),
  ...(given.jurisdiction !== undefined && { jurisdiction: jurisdictionIn(given.jurisdiction) }),
  ...(given.consentDefault !== undefined && { consent_default: maskIn(given.consentDefault) }),
});

/** Saves the given changes, or previews them without --yes. Returns the configuration. */
export const configurePixel = async (pool: Pool, given: ConfigOptions): Promise<SavedPixelConfig> => {
  const patch = patchOf(given);
  const { client_id } = await clientOf(pool, given.client);
  if (Object.keys(patch).length === 0)
    return transaction(pool, [client_id], async (tx) => (await readPixelConfig(tx, client_id, [client_id]))!);
  const change = { client_id, patch, version: undefined };
  const settings = { isSaved: given.yes === true };
  return inWork(pool, operatorAct(actorOf()), (work) => changePixel(work, change), settings);
};

const config = (given: ConfigOptions): Promise<void> =>
  withPool(async (pool) => {
    const shown = await configurePixel(pool, given);
    if (given.json) return printJson(shown);
    const rows = Object.entries(shown).map(([name, value]) => [
      name,
      Array.isArray(value) ? value.join(" ") : String(value),
    ]);
    print(table(["setting", "value"], rows));
    if (Object.keys(patchOf(given)).length > 0)
      print(given.yes ? "saved; pages follow within 5 minutes" : "nothing is saved yet: add --yes");
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
    .option("--tracked-events <names>", "the types to expect: page_view,purchase,lead_submit; empty: none")
    .option("--tracking-type <type>", "where events come from: PIXEL, HYBRID (pages and a server), S2S or APP")
    .option("--auto-signals <true or false>")
    .option("--replay-enabled <true or false>")
    .option("--replay-sample-rate <percent>", "0 to 100")
    .option("--consent-replay <true or false>")
    .option("--jurisdiction <law>", "MX, EU, UK or BR")
    .option("--consent-default <mask>", "0 to 255: what a visitor consents to who has chosen nothing")
    .option("--yes", "saves it")
    .option("--json", "as JSON")
    .addHelpText(
      "before",
      "Examples:\n  $ tributary pixel config --client casa-verde\n" +
        "  $ tributary pixel config --client casa-verde --allowed-domains shop.example,*.shop.example --yes\n",
    )
    .action(config);
};
