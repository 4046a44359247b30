// Opens what the host of every edge needs: Postgres, which no request waits for, the installation's
// secrets, the path into the log, and the record of the path's state.
import { resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { openRecordWire, wireWithoutIds } from "../../../infra/avro/record-wire.ts";
import { openRegistry, type Registry } from "../../../infra/avro/registry.ts";
import { openProducers } from "../../../infra/kafka/producer.ts";
import type { Objects } from "../../../infra/objects/objects.ts";
import { openObjects } from "../../../infra/objects/open.ts";
import { openPool } from "../../../infra/postgres/sql.ts";
import type { Environment, edgeVariables } from "../../../infra/runtime/environment.ts";
import { need } from "../../../infra/runtime/errors.ts";
import type { Log } from "../../../infra/runtime/log.ts";
import type { Metrics } from "../../../infra/runtime/metrics.ts";
import { closing, type Scope } from "../../../infra/runtime/scope.ts";
import { openLastResort } from "../../../infra/spool/last-resort.ts";
import { sendWithSchemaIds } from "../../../infra/spool/sending.ts";
import { openSpool } from "../../../infra/spool/spool.ts";
import type { AnyTopic, Topology } from "../../../stream/flow.ts";
import { edgesOf } from "../../../stream/topology.ts";
import type { RecordWire } from "../../../stream/wire.ts";
import { openInstallationSecrets } from "../../access/secrets/installation-secrets.ts";
import { openPath } from "./path.ts";
import { openPathChecks, recordIngestPath } from "./path-checks.ts";
import { refusedByLog } from "./refused-by-log.ts";

export interface EdgeOpening {
  readonly scope: Scope;
  readonly config: Environment<(typeof edgeVariables)[number]>;
  readonly log: Log;
  readonly metrics: Metrics;
  /** The edges of this host. */
  readonly edges: Topology;
  /** The most connections to Postgres. */
  readonly connections: number;
  /** How long a sender waits for the log; defaults to the deadline of the log's client. */
  readonly publishDeadlineMs?: number;
}

const POSTGRES_MS = 2_000;
const REGISTRY_MS = 3_000;
/**
 * Longest time for which new events wait while the last waiting ones are sent. After it they are
 * stored in the same place as before.
 */
const DRAIN_MS = 4_000;
const REPORT_MS = 5_000;

/** Opens everything by name in the scope of a host; `checks` are the readiness checks. */
export const openEdge = async (opening: EdgeOpening) => {
  const { scope, config, log, metrics, connections } = opening;
  const { INSTANCE_NAME: instance, TRIBUTARY_SECRET: keyring } = config;
  const startedAt = Date.now();
  const pool = await scope.open("postgres", () => {
    const settings = { name: `tributary-${instance}`, max: connections, timeoutMs: POSTGRES_MS };
    const value = openPool(config.POSTGRES_URL, settings);
    return { value, stop: () => value.end() };
  });
  const secrets = openInstallationSecrets(pool, { instance, keyring, log, fail: scope.fail, signal: scope.closing });
  const way = await openWay(opening);
  const { path, probe, wire } = way;
  const record = recordIngestPath.bind(undefined, pool);
  await scope.open("path-checks", () =>
    openPathChecks({ instance, state: path.state, probe, record, log, now: Date.now }),
  );
  await scope.open("waiting", () => reportWaiting(way, metrics));
  return {
    pool,
    secrets,
    way,
    checks: {
      // Events are stored even without the registry. Only the start waits briefly for it, so that
      // an edge does not begin in failover.
      schemas: () => need(wire.isNamed() || Date.now() - startedAt > REGISTRY_MS, "the schema ids are not known yet"),
      storing: path.expectRoom,
      spool: () => {
        const { spoolProblem } = path.state();
        need(spoolProblem === null, `what waits in the spool is unknown: ${spoolProblem}`);
      },
      secrets: () => need(secrets.isConfirmed(), "the pepper is not confirmed yet"),
    },
  };
};
export type Edge = Awaited<ReturnType<typeof openEdge>>;

/** The path into the log; the start succeeds without any server. */
const openWay = async (opening: EdgeOpening) => {
  const { scope, config, log, publishDeadlineMs } = opening;
  const written = [...new Set(edgesOf(opening.edges).map(({ to }) => to))];
  const newProducer = openProducers({
    brokers: config.KAFKA_BROKERS,
    clientId: `tributary-${config.INSTANCE_NAME}`,
    topicPrefix: config.KAFKA_TOPIC_PREFIX,
    log,
  });
  const producer = await scope.open("producer", () =>
    closing(newProducer(publishDeadlineMs === undefined ? {} : { publishDeadlineMs })),
  );
  // A separate producer, so that a probe measures the log and not the queue in front of it.
  const prober = await scope.open("prober", () => closing(newProducer({ publishDeadlineMs: 1_500 })));
  // Another separate producer: waiting events are sent in order and awaited, while requests have a
  // deadline.
  const drainer = await scope.open("drainer", () => closing(newProducer({ sendDeadlineMs: DRAIN_MS })));
  const probe = () => prober.publish([{ topic: "probe", key: null, value: Buffer.from(config.INSTANCE_NAME) }]);
  const registry = openRegistry({
    url: config.SCHEMA_REGISTRY_URL,
    topicPrefix: config.KAFKA_TOPIC_PREFIX,
    deadlineMs: 2_000,
  });
  const wire = await scope.open("wire", () => resolving(registry, written, log));
  const objects = await scope.open("objects", () => closing(openObjects(config.OBJECT_STORE_URL)));
  const setAside = refusedByLog({ send: drainer.send, objects, wire: wire.wire, written, log });
  const path = await scope.open("path", () =>
    openPath({
      publish: producer.publish,
      setAside,
      send: sendWithSchemaIds(registry, drainer.send, setAside),
      probe,
      isNamed: wire.isNamed,
      log,
      ...waitingPlaces(opening, objects, written),
    }),
  );
  return { producer, probe, wire, objects, path };
};
type Way = Awaited<ReturnType<typeof openWay>>;

/** The places where events wait while the log is unreachable. */
const waitingPlaces = ({ config, log }: EdgeOpening, objects: Objects, written: readonly AnyTopic[]) => {
  const schemas = Object.fromEntries(written.map(({ name, schema }) => [name, schema]));
  return {
    openSpool: () =>
      openSpool({
        folder: resolve(config.TRIBUTARY_HOME ?? ".tributary", "spool", config.INSTANCE_NAME),
        schemas,
        onTorn: (torn) => log.warn("spool.tail_cut", torn),
        onUnmarked: (error) => log.warn("spool.not_marked", { error }),
      }),
    lastResort: openLastResort({
      objects,
      instance: config.INSTANCE_NAME,
      schemas,
      onDamaged: (key, error) => log.error("last_resort.damaged", { object: key, error }),
    }),
  };
};

/**
 * Resolves the schema ids until the registry returns them; values are stored without ids before.
 */
const resolving = (
  registry: Registry,
  written: readonly AnyTopic[],
  log: Log,
): { value: { readonly wire: () => RecordWire; readonly isNamed: () => boolean }; stop: () => Promise<void> } => {
  const stopped = new AbortController();
  let wire = wireWithoutIds(written);
  let isNamed = false;
  const ask = async (): Promise<void> => {
    while (!isNamed && !stopped.signal.aborted) {
      try {
        wire = await openRecordWire(written, registry);
        isNamed = true;
      } catch (error) {
        log.warn("wire.not_open", { error });
        await sleep(1_000, undefined, { signal: stopped.signal }).catch(() => undefined);
      }
    }
  };
  const asked = ask();
  return {
    value: { wire: () => wire, isNamed: () => isNamed },
    stop: () => {
      stopped.abort();
      return asked;
    },
  };
};

/** Reports in the metrics what waits for the log; a resource of the host. */
const reportWaiting = ({ path, producer }: Way, metrics: Metrics) => {
  const report = (): void => {
    const { active, spooledEvents, lastResortEvents } = path.state();
    metrics.setKnown("spool", spooledEvents !== null);
    metrics.setKnown("last_resort", lastResortEvents !== null);
    metrics.setWaiting({
      inFlight: producer.waiting().messages,
      spooled: spooledEvents,
      lastResort: lastResortEvents,
      isFailover: active,
    });
  };
  // Without this, a host that starts with a full spool would first report an empty one.
  report();
  const timer = setInterval(report, REPORT_MS);
  return { value: timer, stop: () => clearInterval(timer) };
};
