// Opens the stores and the log by name, starts the schedules, and closes in reverse.

import type { Pool } from "pg";
import { lateWire } from "../../infra/avro/late-wire.ts";
import { openRegistry } from "../../infra/avro/registry.ts";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { openApp } from "../../infra/http/app/open-app.ts";
import { type Kafka, openKafka } from "../../infra/kafka/kafka.ts";
import { openObjects } from "../../infra/objects/open.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { need } from "../../infra/runtime/errors.ts";
import type { Log } from "../../infra/runtime/log.ts";
import { folderOf, watchDisks } from "../../infra/runtime/metrics/disk-room.ts";
import type { Metrics } from "../../infra/runtime/metrics.ts";
import { closing, type Scope } from "../../infra/runtime/scope.ts";
import { keepDoing, type Schedule, SILENT_MS } from "../../infra/runtime/timing/schedule.ts";
import { sendWithSchemaIds } from "../../infra/spool/sending.ts";
import { openInstallationSecrets } from "../../modules/access/secrets/installation-secrets.ts";
import { openReference } from "../../modules/catalog/reference/reference.ts";
import { type AskClientFacts, clientFactsOf } from "../../modules/intake/path/facts.ts";
import { refusedByLog } from "../../modules/intake/path/refused-by-log.ts";
import { type ReadmitPorts, readmitted } from "../../modules/intake/path/refused-events.ts";
import { openProviders, postbackFactsOf } from "../../modules/intake/payment-notices/provider-settings.ts";
import { sourceFactsOf } from "../../modules/intake/sources/source-facts.ts";
import { openSources } from "../../modules/intake/sources/source-picture.ts";
import { letterSources } from "../../modules/log/dead-letters/failure.ts";
import { openSuppressions, type Suppressions } from "../../modules/privacy/suppressions.ts";
import { probeNames } from "../../modules/running/repair/incident.ts";
import { edgesOf, feedsOf } from "../../stream/topology.ts";
import { topics } from "../../topics.ts";
import { pipeline } from "../../topology.ts";
import type { Config } from "./config.ts";
import { figures } from "./figures.ts";
import {
  archivePurge,
  archiveRetention,
  eventsPurge,
  identityRetention,
  leadRetention,
  recordingRetention,
  refusedRetention,
  tablesPurge,
} from "./schedules/archive.ts";
import { deadLetterIndex, deadLetterRetries, type LetterPorts } from "./schedules/dead-letters.ts";
import { openJobs } from "./schedules/jobs.ts";
import { lastResort } from "./schedules/last-resort.ts";
import { moneyDays } from "./schedules/money-days.ts";
import { openMoves } from "./schedules/moves.ts";
import { nightly } from "./schedules/nightly.ts";
import { forgetting, outbox } from "./schedules/outbox.ts";
import { openRepairs } from "./schedules/repairs.ts";
import { openReplayLane } from "./schedules/replays.ts";
import { forgettingRequests } from "./schedules/requests.ts";
import { ROLLUP_HOUR_MS, rollupHours, rollups } from "./schedules/rollups.ts";
import { payloadPurge } from "./schedules/sources/payloads.ts";
import { forgettingPulls, pulls } from "./schedules/sources/pulls.ts";
import { intakeQuotas } from "./schedules/sources/quotas.ts";
import { strayRefunds } from "./schedules/stray-refunds.ts";
import { waiting } from "./schedules/waiting-sales.ts";

const STORE_MS = 5_000;
// A busy client on a busy machine takes this long for its minutes.
const ROLLUP_MS = 60_000;
/** Short, because a schedule that waits for the registry must still end in time. */
const REGISTRY_MS = 2_000;

interface Frame {
  readonly config: Config;
  readonly log: Log;
  readonly scope: Scope;
  readonly metrics: Metrics;
  readonly kafka: Kafka;
  /**
   * Runs a schedule until the keeper closes; readiness shows when it has not succeeded for too
   * long.
   */
  readonly begin: (schedule: Schedule) => Promise<void>;
}

/**
 * The app, for `run` of infra/runtime/scope.ts. Returns once every schedule has begun, and waits
 * for no store, log or registry: a schedule fails its runs until all that it needs answers.
 * `apiUrl` is the platform API, which mails alerts. `ingestUrls` are the ingest host, the primary
 * first.
 */
export const keeper =
  (config: Config, log: Log, apiUrl?: string, ingestUrls: readonly string[] = []) =>
  async (scope: Scope): Promise<void> => {
    const opening = { scope, config, log };
    const { metrics, ready } = await openApp("keeper", opening, "the schedules have not begun yet");
    metrics.expect({ probes: probeNames });
    await scope.open("disks", () => watchDisks({ objects: folderOf(config.OBJECT_STORE_URL) }, metrics));
    const checks: Record<string, () => void> = {};
    const kafka = openKafka({
      brokers: config.KAFKA_BROKERS,
      clientId: nameOf(config),
      topicPrefix: config.KAFKA_TOPIC_PREFIX,
      log,
    });
    const begin = async (schedule: Schedule): Promise<void> => {
      const running = await scope.open(schedule.name, () => keepDoing(schedule, { log, metrics }));
      const allowedMs = schedule.pauseMs + (schedule.silentMs ?? SILENT_MS);
      checks[schedule.name] = () =>
        need(running.silentMs() < allowedMs, `has not got through for ${allowedMs / 1_000} s; its log says why`);
    };
    const frame: Frame = { ...opening, metrics, kafka, begin };
    await beginRepairs(frame, apiUrl, ingestUrls);
    await beginWork(frame);
    await ready(checks);
  };

const nameOf = ({ INSTANCE_NAME }: Config): string => `tributary-${INSTANCE_NAME}`;

/** Begins first and with its own connections, because stores that are away must be watched too. */
const beginRepairs = async (
  { config, log, scope, metrics, kafka, begin }: Frame,
  apiUrl: string | undefined,
  ingestUrls: readonly string[],
): Promise<void> => {
  const repairs = await scope.open("repairs", () =>
    closing(openRepairs({ config, apiUrl, ingestUrls, kafka, log, metrics })),
  );
  repairs.start();
  for (const schedule of repairs.schedules) await begin(schedule);
};

const openStores = async ({ config, scope }: Frame) => {
  const name = nameOf(config);
  const pool = await scope.open("postgres", () => {
    const value = openPool(config.POSTGRES_URL, { name, max: 8, timeoutMs: STORE_MS });
    return { value, stop: () => value.end() };
  });
  const clickhouse = await scope.open("clickhouse", () =>
    closing(openClickhouse(config.CLICKHOUSE_URL, { name, timeoutMs: ROLLUP_MS })),
  );
  const slow = { name, timeoutMs: ROLLUP_HOUR_MS, connections: 1 };
  const ofHours = await scope.open("clickhouse of hours", () => closing(openClickhouse(config.CLICKHOUSE_URL, slow)));
  const objects = await scope.open("objects", () => closing(openObjects(config.OBJECT_STORE_URL)));
  return { pool, clickhouse, ofHours, objects };
};

/**
 * Opens the resources that the schedules share: the stores, the log, and the schemas of the topics
 * they write.
 */
const openWork = async (frame: Frame) => {
  const { config, scope, kafka } = frame;
  const producer = await scope.open("producer", () => closing(kafka.producer({ sendDeadlineMs: STORE_MS })));
  const registry = openRegistry({
    url: config.SCHEMA_REGISTRY_URL,
    topicPrefix: config.KAFKA_TOPIC_PREFIX,
    deadlineMs: REGISTRY_MS,
  });
  const written = [...new Set([...feedsOf(pipeline).map(({ to }) => to), ...letterSources])];
  const { wire, opened } = lateWire(written, registry);
  /** Begins a schedule that needs the wire; its runs fail until the registry answers. */
  const beginWired = (schedule: Schedule): Promise<void> => frame.begin(after(opened, schedule));
  return { ...frame, ...(await openStores(frame)), produce: producer.send, registry, wire, beginWired };
};
type Work = Awaited<ReturnType<typeof openWork>>;

const after = (opened: () => Promise<void>, schedule: Schedule): Schedule => ({
  ...schedule,
  work: async (isClosing) => {
    await opened();
    return schedule.work(isClosing);
  },
});

const beginWork = async (frame: Frame): Promise<void> => {
  const work = await openWork(frame);
  await beginBooks(work);
  await beginRetention(work);
  const suppressions = await work.scope.open("suppressions", () => closing(openSuppressions(work.pool)));
  await beginLogWork(work, suppressions);
  await beginJobs(work);
  await beginIntake(work, suppressions);
  await beginFigures(work);
};

/**
 * Begins the outbox, and the schedules that compute from the books: money, rollups, nightly
 * inspections.
 */
const beginBooks = async (work: Work): Promise<void> => {
  const { pool, clickhouse, ofHours, wire, produce, metrics, log, begin, beginWired } = work;
  await beginWired(outbox(pool, wire, produce));
  await begin(forgetting(pool));
  await begin(forgettingRequests(pool));
  await begin(moneyDays(pool));
  await begin(rollups(pool, clickhouse));
  await begin(rollupHours(pool, ofHours));
  await begin(waiting(pool, metrics, Date.now));
  await beginWired(strayRefunds({ pool, clickhouse, wire, produce, clock: Date.now }));
  await beginWired(nightly({ pool, clickhouse, wire, produce, log, clock: Date.now }));
};

const beginRetention = async ({ pool, clickhouse, objects, log, begin }: Work): Promise<void> => {
  await begin(archiveRetention(objects, Date.now));
  await begin(archivePurge({ pool, objects, log, clock: Date.now }));
  await begin(eventsPurge(pool, clickhouse, Date.now));
  await begin(tablesPurge(pool, Date.now));
  await begin(refusedRetention(objects, Date.now));
  await begin(recordingRetention(pool, objects, Date.now));
  await begin(identityRetention(pool, Date.now));
  await begin(leadRetention(pool, Date.now));
};

/** Begins what reads figures for the metrics alone. */
const beginFigures = async ({ config, pool, clickhouse, metrics, begin }: Work): Promise<void> => {
  const hasMailServer = config.SMTP_URL !== undefined;
  for (const schedule of figures({ pool, clickhouse, topology: pipeline, hasMailServer, metrics }))
    await begin(schedule);
};

/** Begins the work on the log itself: events of the last resort, replays, and moves of groups. */
const beginLogWork = async (work: Work, suppressions: Suppressions): Promise<void> => {
  const { config, scope, objects, registry, wire, produce, kafka, metrics, log, begin } = work;
  const ofEdges = [...new Set(edgesOf(pipeline).map(({ to }) => to))];
  const setAside = refusedByLog({ send: produce, objects, wire: () => wire, written: ofEdges, log });
  await begin(lastResort(objects, sendWithSchemaIds(registry, produce, setAside)));
  const ofReplays = { config, topology: pipeline, kafka, registry, produce, suppressions, metrics, log };
  await begin(await scope.open("replay lane", () => openReplayLane(ofReplays)));
  const ofMoves = { config, topology: pipeline, kafka, registry, produce, log };
  await begin(await scope.open("moves", () => openMoves(ofMoves)));
};

/** Jobs read and write every topic, so they have their own wire. */
const beginJobs = async ({ config, scope, pool, registry, produce, log, begin }: Work): Promise<void> => {
  const { wire, opened } = lateWire(Object.values(topics), registry);
  const jobs = await scope.open("jobs work", () => openJobs({ config, pool, wire, produce, log }));
  await begin(after(opened, jobs));
};

/** Begins dead letters and pulls, which admit events as an edge does. */
const beginIntake = async (work: Work, { hides }: Suppressions): Promise<void> => {
  const { config, scope, pool, kafka, wire, produce, log, begin, beginWired } = work;
  const { TRIBUTARY_SECRET: keyring } = config;
  const facts = await openFacts(work, pool);
  const moreFacts = await openMoreFacts(work, pool);
  const readmit: LetterPorts["readmit"] = (kept, letter) =>
    readmitted({ keyring, wire, facts, moreFacts, clock: Date.now }, kept, letter);
  const ofLetters = { topology: pipeline, pool, kafka, wire, produce, readmit, hides, log };
  for (const open of [deadLetterIndex, deadLetterRetries])
    await beginWired(await scope.open("dead letters", () => open(ofLetters)));
  const ofPulls = { pool, kafka, wire, produce, keyring, facts, hides, log, signal: scope.closing };
  await beginWired(await scope.open("pulls", () => pulls(ofPulls)));
  await begin(forgettingPulls(pool));
  await begin(payloadPurge(pool, Date.now));
  await begin(intakeQuotas(pool));
};

/** Events are admitted here as an edge would admit them now: with current clients and pepper. */
const openFacts = async ({ config, log, scope }: Frame, pool: Pool): Promise<AskClientFacts> => {
  const { INSTANCE_NAME: instance, TRIBUTARY_SECRET: keyring } = config;
  const secrets = openInstallationSecrets(pool, { instance, keyring, log, fail: scope.fail, signal: scope.closing });
  const onError = (error: unknown) => log.warn("reference.not_refreshed", { error });
  const { reference } = await scope.open("reference", () => closing(openReference(pool, { onError })));
  return clientFactsOf(secrets.pepper, reference);
};

/**
 * Refused events are read again with the current mapping of their source or account of a provider.
 */
const openMoreFacts = async (
  { config, log, scope }: Frame,
  pool: Pool,
): Promise<NonNullable<ReadmitPorts["moreFacts"]>> => {
  const onError = (error: unknown) => log.warn("sources.not_refreshed", { error });
  const { TRIBUTARY_SECRET: keyring } = config;
  const sources = await scope.open("sources", () => closing(openSources(pool, { keyring, onError })));
  const generic = sourceFactsOf(sources, { bearCredential: false });
  const external = sourceFactsOf(sources, { bearCredential: true });
  const postback = postbackFactsOf(openProviders(pool, keyring));
  return { generic, external, postback };
};
