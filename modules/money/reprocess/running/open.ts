// Opens the ports of reprocessing on the servers of this installation. All are read-only except the
// producer of decisions.
import type pg from "pg";
import { clickIdKey } from "../../../../domain/click-id.ts";
import { reference } from "../../../../domain/reference/reference.ts";
import { openRegistry } from "../../../../infra/avro/registry.ts";
import { openWire } from "../../../../infra/avro/wire.ts";
import { openClickhouse } from "../../../../infra/clickhouse/client.ts";
import { scopeOf } from "../../../../infra/clickhouse/query.ts";
import type { Kafka } from "../../../../infra/kafka/kafka.ts";
import type { Objects } from "../../../../infra/objects/objects.ts";
import { openObjects } from "../../../../infra/objects/open.ts";
import { postgresMemory } from "../../../../infra/postgres/durable-memory.ts";
import { CommandRefused } from "../../../../infra/runtime/command-errors.ts";
import type { Keyring } from "../../../../infra/runtime/keyring.ts";
import type { Log } from "../../../../infra/runtime/log.ts";
import { clickKeys, clickKeysOf } from "../../../../processors/attribute/facts.ts";
import { identityKeys, identityKeysOf } from "../../../../processors/enrich/facts.ts";
import { places } from "../../../../processors/enrich/places.ts";
import { latestRows } from "../../../../sinks/analytics/latest-rows.ts";
import { countReceived, receivedAndStoredAfter, shapingEvents } from "../../../../sinks/analytics/receipt-window.ts";
import { hoursOf, pastOf } from "../../../../sinks/archive/archive-reads.ts";
import { indexSize } from "../../../../sinks/claim-positions/reads.ts";
import type { UnixMs } from "../../../../stream/flow.ts";
import type { Produce } from "../../../../stream/messages.ts";
import { topics } from "../../../../topics.ts";
import { pipeline } from "../../../../topology.ts";
import { refuseOtherPepper, refuseWithoutNewest } from "../../../access/secrets/command-secrets.ts";
import { readPlaces } from "../../../catalog/facts/views.ts";
import { openReference, readOf } from "../../../catalog/reference/reference.ts";
import { hostsNow, recordedHostings } from "../../../log/groups/hosts.ts";
import { openSuppressions, withholdsOf } from "../../../privacy/suppressions.ts";
import { MOST_LATE } from "../log/event-search.ts";
import { type ArchiveReader, type Progress, sizeIn, stretchesOf } from "../log/stretches.ts";
import { defaultLimits, type Limits, type ReceiptWindow, type ReprocessPorts } from "../ports.ts";
import { type IndexWait, indexedClaims, indexing, untilIndexed } from "./claim-index.ts";

export interface OpenReprocess {
  readonly ports: ReprocessPorts;
  readonly produce: Produce;
  readonly close: () => Promise<void>;
}

const archiveOf = (objects: Objects): ArchiveReader => ({
  since: (at) => pastOf(objects, { since: () => at }),
  begins: async (topic) => {
    for await (const hour of hoursOf(objects, topic)) return hour;
    return null;
  },
});

/** A statement reads whole hours of a client. */
const STATEMENT_MS = 60_000;

/** The servers of the installation, its keyring, and the files that name places. */
export interface Installation {
  readonly kafka: Kafka;
  readonly registryUrl: string;
  readonly topicPrefix: string;
  readonly clickhouseUrl: string;
  readonly keyring: Keyring;
  /** Undefined: this installation has no archive. */
  readonly objectStoreUrl: string | undefined;
  readonly files: Parameters<typeof readPlaces>[0];
  readonly log: Pick<Log, "info" | "warn">;
}
export interface Opening {
  readonly now: UnixMs;
  /** The start of the window. */
  readonly needed: UnixMs;
  readonly progress: (unit: string) => Progress;
  /**
   * Limits of the data that is held in memory; the default is for a process that does nothing else.
   */
  readonly limits?: Limits;
}

/** Reads today's facts; the files of places are read when the first event needs them. */
const readFacts = (
  source: Parameters<typeof readOf>[0][string],
  { keyring, files, log }: Pick<Installation, "keyring" | "files" | "log">,
  now: UnixMs,
): ReprocessPorts["read"] => {
  let world: ReturnType<typeof readPlaces> | undefined;
  return readOf({
    [reference.view]: source,
    [clickKeys.view]: async () => clickKeysOf(keyring.accepted.map((secret) => clickIdKey(secret, 1))),
    [identityKeys.view]: async () => identityKeysOf(keyring.pepper),
    [places.view]: async () => {
      world ??= readPlaces(files, log, now);
      return world;
    },
  });
};

/**
 * The caller owns the pool. Throws WrongPepper, CommandRefused, and errors of unreachable servers.
 */
export const openReprocessing = async (
  pool: pg.Pool,
  installation: Installation,
  { now, needed, progress, limits = defaultLimits }: Opening,
): Promise<OpenReprocess> => {
  const { kafka, registryUrl, topicPrefix, clickhouseUrl, keyring, objectStoreUrl } = installation;
  await refuseOtherPepper(pool, keyring);
  await refuseWithoutNewest(pool, keyring);
  const objects = objectStoreUrl === undefined ? null : openObjects(objectStoreUrl);
  const wire = await openWire(Object.values(topics), openRegistry({ url: registryUrl, topicPrefix }));
  const clickhouse = openClickhouse(clickhouseUrl, { name: "tributary-ops", timeoutMs: STATEMENT_MS });
  const known = openReference(pool);
  const producer = kafka.producer();
  const suppressions = openSuppressions(pool);
  const close = async (): Promise<void> => {
    await producer.close();
    await known.close();
    await suppressions.close();
    await clickhouse.close();
    await objects?.close();
  };
  // Closes the list on failure: its polling timer would keep the process alive.
  const withholds = await withholdsOf(suppressions).catch(async (error: unknown) => {
    await close();
    throw error;
  });
  const read = readFacts(known.source, installation, now);
  const clientsIn = async ({ clientId }: Pick<ReceiptWindow, "clientId">): Promise<readonly number[]> =>
    clientId === null ? (await read(reference, now)).clientIds : [clientId];
  const stretching = {
    kafka,
    archived: objects === null ? null : archiveOf(objects),
    needed,
    progress,
  };
  return {
    ports: {
      topology: pipeline,
      wire,
      now,
      limits,
      memory: postgresMemory(pool),
      withholds,
      read,
      standing: (clientId, events) => latestRows(clickhouse, scopeOf(clientId), events),
      stretches: stretchesOf(stretching),
      messagesIn: (topic, stretches) => sizeIn(kafka, topic, stretches),
      indexed: async (received) => {
        await untilIndexThere(kafka, pool, { sizeOf: () => indexSize(clickhouse), progress });
        return indexedClaims(clickhouse, await clientsIn(received), received);
      },
      claimsAt: claimsIn(kafka, progress),
      countOf: async (received) => {
        const clients = await clientsIn(received);
        return clients.length === 0 ? 0 : countReceived(clickhouse, scopeOf(...clients), received);
      },
      storedAfter: async (received, since) => {
        const clients = await clientsIn(received);
        const asked = { since, limit: MOST_LATE + 1 };
        return clients.length === 0 ? [] : receivedAndStoredAfter(clickhouse, scopeOf(...clients), received, asked);
      },
      shaping: ({ client_id, ...question }) => shapingEvents(clickhouse, scopeOf(client_id), question),
    },
    produce: producer.send,
    close,
  };
};

const untilIndexThere = async (kafka: Pick<Kafka, "admin">, pool: pg.Pool, wait: IndexWait): Promise<void> => {
  const admin = await kafka.admin();
  try {
    const { describeGroups } = admin;
    const hosts = await hostsNow({ topology: pipeline, recorded: recordedHostings(pool), describeGroups });
    await untilIndexed({ admin, hosts }, wait);
  } finally {
    await admin.close();
  }
};

/** Reads claims by their positions. The topic has no end, so a claim that is not there was lost. */
const claimsIn =
  (kafka: Pick<Kafka, "ranges">, progress: Opening["progress"]): ReprocessPorts["claimsAt"] =>
  async (claims, onBatch) => {
    const topic = topics.claims.name;
    const tell = progress(`messages of ${topic}`);
    let done = 0;
    const ranges = claims.map(({ partition, offset }) => ({ topic, partition, start: offset, end: offset + 1 }));
    await kafka.ranges(ranges, async (batch, heartbeat) => {
      await onBatch(batch);
      done += batch.messages.length;
      tell.at(done, claims.length);
      await heartbeat();
    });
    if (done < claims.length)
      throw new CommandRefused(
        `${topic}: the log does not hold ${claims.length - done} claims that the index names, so it is that of ` +
          "another log; empty claim_positions and claim_receipts, then: " +
          `tributary rewind ${indexing.name} --to earliest`,
      );
    tell.done();
  };
