// Opens an edge's path into the log: clients of the log, the schemas of its topics, and the places
// where events wait while the log is unreachable.
import { resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { edges } from "../../../edges.ts";
import { openRegistry, type Registry } from "../../../infra/avro/registry.ts";
import { openWire, wireWithoutIds } from "../../../infra/avro/wire.ts";
import { type Admin, type Kafka, openKafka } from "../../../infra/kafka/kafka.ts";
import type { Objects } from "../../../infra/objects/objects.ts";
import { openObjects } from "../../../infra/objects/open.ts";
import type { Environment } from "../../../infra/runtime/environment.ts";
import type { Log } from "../../../infra/runtime/log.ts";
import type { Metrics } from "../../../infra/runtime/metrics.ts";
import { closing, type Scope } from "../../../infra/runtime/scope.ts";
import { openLastResort } from "../../../infra/spool/last-resort.ts";
import { sendWithSchemaIds } from "../../../infra/spool/send-with-schema-ids.ts";
import { openSpool } from "../../../infra/spool/spool.ts";
import { edgesOf } from "../../../stream/topology.ts";
import type { Wire } from "../../../stream/wire.ts";
import { openPath } from "./path.ts";
import { refusedByLog } from "./refused-by-log.ts";

export interface WayOpening {
  readonly scope: Scope;
  readonly config: Environment<
    | "INSTANCE_NAME"
    | "KAFKA_BROKERS"
    | "KAFKA_TOPIC_PREFIX"
    | "SCHEMA_REGISTRY_URL"
    | "OBJECT_STORE_URL"
    | "TRIBUTARY_HOME"
  >;
  readonly log: Log;
  /** How long a sender waits for the log; defaults to the deadline of the log's client. */
  readonly publishDeadlineMs?: number;
}

/**
 * Longest time for which new events wait while the last waiting ones are sent. After it they are
 * stored in the same place as before.
 */
const DRAIN_MS = 4_000;
const LEAVE_MS = 1_000;
const REPORT_MS = 5_000;
/** Every topic that an edge writes. */
const written = [...new Set(edgesOf(edges).map(({ to }) => to))];

/** Opens everything by name in the scope of a host; the start succeeds without any server. */
export const openWay = async (opening: WayOpening) => {
  const { scope, config, log, publishDeadlineMs } = opening;
  const kafka = openKafka({
    brokers: config.KAFKA_BROKERS,
    clientId: `tributary-${config.INSTANCE_NAME}`,
    topicPrefix: config.KAFKA_TOPIC_PREFIX,
    log,
  });
  const producer = await scope.open("producer", () =>
    closing(kafka.producer(publishDeadlineMs === undefined ? {} : { publishDeadlineMs })),
  );
  // A producer of its own, so that a probe measures the log and not the queue in front of it.
  const prober = await scope.open("prober", () => closing(kafka.producer({ publishDeadlineMs: 1_500 })));
  // A producer of its own too: waiting events are sent in order and awaited, beside requests with a
  // deadline.
  const drainer = await scope.open("drainer", () => closing(kafka.producer({ sendDeadlineMs: DRAIN_MS })));
  const probe = () => prober.publish([{ topic: "probe", key: null, value: Buffer.from(config.INSTANCE_NAME) }]);
  const admin = await scope.open("admin", () => lasting(kafka));
  const registry = openRegistry({
    url: config.SCHEMA_REGISTRY_URL,
    topicPrefix: config.KAFKA_TOPIC_PREFIX,
    deadlineMs: 2_000,
  });
  const wire = await scope.open("wire", () => resolving(registry, log));
  const objects = await scope.open("objects", () => closing(openObjects(config.OBJECT_STORE_URL)));
  const setAside = refusedByLog({ send: drainer.send, objects, wire: wire.wire, log });
  const path = await scope.open("path", () =>
    openPath({
      publish: producer.publish,
      setAside,
      send: sendWithSchemaIds(registry, drainer.send, setAside),
      probe,
      isNamed: wire.isNamed,
      log,
      ...waitingPlaces(opening, objects),
    }),
  );
  return { producer, probe, admin, wire, objects, path };
};
export type LogPath = Awaited<ReturnType<typeof openWay>>;

/** The places where events wait while the log is unreachable. */
const waitingPlaces = ({ config, log }: WayOpening, objects: Objects) => {
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
  log: Log,
): { value: { readonly wire: () => Wire; readonly isNamed: () => boolean }; stop: () => Promise<void> } => {
  const stopped = new AbortController();
  let wire = wireWithoutIds(written);
  let isNamed = false;
  const ask = async (): Promise<void> => {
    while (!isNamed && !stopped.signal.aborted) {
      try {
        wire = await openWire(written, registry);
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

/** One connection for the health report, opened on first use and again after a failure. */
const lasting = (kafka: Kafka): { value: () => Promise<Admin>; stop: () => Promise<void> } => {
  let opened: Promise<Admin> | undefined;
  const open = (): Promise<Admin> => {
    opened ??= kafka.admin().catch((error) => {
      opened = undefined;
      throw error;
    });
    return opened;
  };
  // A log that hangs responds neither to connecting nor to leaving.
  const leave = async (): Promise<void> => (await opened?.catch(() => undefined))?.close();
  return { value: open, stop: () => Promise.race([leave(), sleep(LEAVE_MS, undefined, { ref: false })]) };
};

/** Reports in the metrics what waits for the log; a resource of the host. */
export const reportWaiting = ({ path, producer }: Pick<LogPath, "path" | "producer">, metrics: Metrics) => {
  const report = (): void => {
    const { active, spooledEvents, lastResortEvents } = path.state();
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
