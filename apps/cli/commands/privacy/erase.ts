// `tributary erase`: erases a person from every store. Shows first what it finds, and erases it
// with --yes or after a question.
import { createInterface } from "node:readline/promises";
import { text } from "node:stream/consumers";
import type { Command } from "commander";
import type { Pool } from "pg";
import { acrossPepperOf, identifyFor, pepperOf } from "../../../../domain/device-id.ts";
import type { SubjectKind } from "../../../../domain/personal/suppression.ts";
import { openClickhouse } from "../../../../infra/clickhouse/client.ts";
import { UsageError } from "../../../../infra/runtime/command-errors.ts";
import { print, printJson, table, tell } from "../../../../infra/runtime/output.ts";
import { refuseOtherPepper } from "../../../../modules/access/secrets/command-secrets.ts";
import { actorOf } from "../../../../modules/base/operations/operations.ts";
import { hintPrefixOf } from "../../../../modules/catalog/facts/views.ts";
import {
  type ErasurePorts,
  type ErasureRequest,
  eraseSubject,
  previewErasure,
} from "../../../../modules/privacy/erasure/erase.ts";
import type { ErasureReport } from "../../../../modules/privacy/erasure/report.ts";
import { subjectOf } from "../../../../modules/privacy/erasure/subject.ts";
import { addresses, keyring } from "../../config.ts";
import { withRedis } from "../../connections.ts";
import { clientOf, withPool } from "../../pool.ts";
import { byFlags } from "../../refusals.ts";
import { operatorAct } from "../../work.ts";

interface EraseOptions {
  readonly client: string;
  readonly email?: string;
  readonly phone?: string;
  readonly did?: string;
  readonly clientLeadId?: string;
  readonly orderId?: string;
  readonly reason: string;
  readonly actor?: string;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly json?: boolean;
}

const FLAGS = {
  email: "--email",
  phone: "--phone",
  did: "--did",
  client_lead_id: "--client-lead-id",
  order_id: "--order-id",
} as const satisfies Readonly<Record<SubjectKind, string>>;

/** Some statements read every sale of a client, or every event. */
const LONGEST_MS = 600_000;
/** The most hashes that are kept for one call. */
const HASHES = 100;

interface GivenSubject {
  readonly kind: SubjectKind;
  readonly value: string;
}

/** The subject as it was typed, or as stdin brings it. */
const givenIn = async ({ email, phone, did, clientLeadId, orderId }: EraseOptions): Promise<GivenSubject> => {
  const all = { email, phone, did, client_lead_id: clientLeadId, order_id: orderId };
  const [only, ...others] = (Object.keys(all) as SubjectKind[]).filter((kind) => all[kind] !== undefined);
  if (only === undefined || others.length > 0)
    throw new UsageError(`name one subject, with one of ${Object.values(FLAGS).join(", ")}`);
  const value = all[only]!;
  return { kind: only, value: value === "-" ? (await text(process.stdin)).replace(/\r?\n$/, "") : value };
};

/** The reason is kept in plain text for good. */
const checkReason = (reason: string, { value }: GivenSubject): void => {
  if (reason.trim() === "" || reason.length > 500) throw new UsageError("--reason: give 1 to 500 characters");
  if (reason.toLowerCase().includes(value.trim().toLowerCase()))
    throw new UsageError("--reason: it is kept, so it must not name the subject; name the request, e.g. its number");
};

/** Of a subject with more devices the ones that did most are shown; --json has all. */
const DEVICES_SHOWN = 20;
const showDevices = ({ device_uses }: ErasureReport): void => {
  if (device_uses.length === 0) return;
  const most = device_uses.toSorted((a, b) => Number(b.is_claimed) - Number(a.is_claimed) || b.events - a.events);
  print(
    table(
      ["device", "events", "of money", "whose"],
      most
        .slice(0, DEVICES_SHOWN)
        .map(({ did, events, sales, is_claimed }) => [did, events, sales, is_claimed ? "claimed" : "the subject's"]),
    ),
  );
  const claimed = device_uses.filter(({ is_claimed }) => is_claimed).length;
  if (claimed > 0)
    print(
      `claimed: ${claimed}; only a page said that it is the subject's, and a server uses it without saying so: there ` +
        "only what names the subject goes. If it is the subject's, erase it too, with --did",
    );
};

const show = (report: ErasureReport): void => {
  const { places, devices, shared_devices } = report;
  print(
    table(
      ["place", "found", "erased"],
      places.map(({ place, found, erased }) => [place, found, erased]),
    ),
  );
  if (devices > 0) print(`devices: ${devices}`);
  if (shared_devices > 0)
    print(`devices that other people use too: ${shared_devices}; there only what names the subject goes`);
  showDevices(report);
};

const showKept = ({ stays }: ErasureReport): void => {
  print("\nWhat stays:");
  print(
    table(
      ["where", "until"],
      stays.map(({ where, until }) => [where, until]),
    ),
  );
};

/** Asks on a terminal; elsewhere the answer is no. */
const isConfirmed = async (): Promise<boolean> => {
  if (!process.stdin.isTTY || !process.stderr.isTTY) return false;
  const asking = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return /^y(es)?$/i.test((await asking.question("Erase it? What is erased cannot be brought back. [y/N] ")).trim());
  } finally {
    asking.close();
  }
};

const withPorts = async (pool: Pool, work: (ports: ErasurePorts) => Promise<void>): Promise<void> => {
  const { clickhouseUrl, topicPrefix } = addresses();
  const clickhouse = openClickhouse(clickhouseUrl, { name: "tributary-ops", timeoutMs: LONGEST_MS });
  const prefixes = {
    memoryPrefix: `${topicPrefix}memory`,
    hintPrefix: hintPrefixOf({ KAFKA_TOPIC_PREFIX: topicPrefix }),
  };
  try {
    await withRedis((redis) => work({ pool, clickhouse, redis, ...prefixes }));
  } finally {
    await clickhouse.close();
  }
};

const requestOf = async (pool: Pool, options: EraseOptions): Promise<ErasureRequest> => {
  const given = await givenIn(options);
  checkReason(options.reason, given);
  const keys = keyring();
  // With another pepper every hash would be another, and nothing would be found.
  await refuseOtherPepper(pool, keys);
  const { client_id: clientId } = await clientOf(pool, options.client);
  const identify = identifyFor(pepperOf(keys.pepper, clientId), HASHES, acrossPepperOf(keys.pepper));
  const subject = subjectOf(given.kind, given.value, identify);
  return { clientId, subject, reason: options.reason, act: operatorAct(actorOf(options.actor)), now: Date.now() };
};

const erase = (options: EraseOptions): Promise<void> =>
  withPool(
    async (pool) => {
      const request = await requestOf(pool, options).catch(byFlags(FLAGS));
      await withPorts(pool, async (ports) => {
        const found = await previewErasure(ports, request);
        if (!options.json) show(found);
        if (options.dryRun || !(options.yes || (!options.json && (await isConfirmed())))) {
          if (options.json) printJson(found);
          else showKept(found);
          return tell("nothing was erased; add --yes to erase it");
        }
        tell("waiting 10 s until every process knows the subject, then erasing");
        const report = await eraseSubject(ports, { ...request, now: Date.now() });
        if (options.json) return printJson(report);
        show(report);
        showKept(report);
      });
    },
    { timeoutMs: LONGEST_MS },
  );

export const eraseCommand = (program: Command): void => {
  program
    .command("erase")
    .description("erases a person from every store; shows first what it finds, and erases it with --yes")
    .requiredOption("--client <slug or id>", "whose visitor or customer it is")
    .option("--email <address>", "the person, by an e-mail address; - reads it from stdin, as of each of these")
    .option("--phone <number>", "the person, by a telephone number")
    .option("--did <id>", "a device, as its sender knows it or as events show it")
    .option("--client-lead-id <id>", "a lead, by the client's own id")
    .option("--order-id <id>", "an order")
    .requiredOption("--reason <text>", "why, in words; kept for good, so it must not name the subject")
    .option("--actor <e-mail>", "who decides, beside the account of this machine")
    .option("--dry-run", "only count what would be erased")
    .option("--yes", "erase it without a question")
    .option("--json", "as JSON")
    .addHelpText(
      "before",
      "Examples:\n  $ tributary erase --client aurora-music --email ana@example.com --reason 'request 17' --dry-run\n" +
        "  $ printf %s \"$ADDRESS\" | tributary erase --client aurora-music --email - --reason 'request 17' --yes\n" +
        "  $ tributary erase --client aurora-music --did my-device --reason 'request 18' --yes\n\n" +
        "It may be run again at any time: after a crash it goes on, and a second run finds nothing. What stays and " +
        "until when: docs/privacy.md\n",
    )
    .action(erase);
};
