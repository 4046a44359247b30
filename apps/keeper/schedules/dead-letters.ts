// The schedules of the dead letters: reading their topics into the index, and sending due letters
// again until they are confirmed.

import type { Pool } from "pg";
import type { Hides } from "../../../domain/personal/suppression.ts";
import { letterTopics } from "../../../edges/dead-letters.ts";
import { type Consumer, type Kafka, lastingAdmin } from "../../../infra/kafka/kafka.ts";
import type { Log } from "../../../infra/runtime/log.ts";
import type { Resource } from "../../../infra/runtime/scope.ts";
import type { Schedule } from "../../../infra/runtime/timing/schedule.ts";
import { confirmReprocessed, INDEX_GROUP } from "../../../modules/log/dead-letters/confirm-reprocessed.ts";
import { indexing, indexReading } from "../../../modules/log/dead-letters/index-letters.ts";
import {
  claimLetters,
  discardClaimed,
  indexInPostgres,
  lettersUnderWay,
  markPassed,
  markSent,
  type ProbedStore,
  parkLetters,
  wakeCorrected,
  wakeLetters,
} from "../../../modules/log/dead-letters/letter-index.ts";
import { type RetryPorts, sendDue } from "../../../modules/log/dead-letters/retry.ts";
import { hostings } from "../../../modules/log/groups/group-holds.ts";
import { hostsNow } from "../../../modules/log/groups/hosts.ts";
import { type Topology, writesRows } from "../../../stream/flow.ts";
import type { Produce } from "../../../stream/messages.ts";
import type { Wire } from "../../../stream/wire.ts";

/** Reading, sending and acknowledging this many letters takes about a second. */
const LETTERS_AT_ONCE = 500;
const ADMIN_MS = 15_000;

export interface LetterPorts {
  readonly topology: Topology;
  readonly pool: Pool;
  readonly kafka: Kafka;
  /** Opened for every topic that the pipeline reads. */
  readonly wire: Wire;
  readonly produce: Produce;
  readonly readmit: RetryPorts["readmit"];
  readonly hides: () => Promise<Hides | undefined>;
  readonly log: Pick<Log, "error">;
}

/** Returns the names of sinks by the probe of the store that they write. */
const stagesOf = ({ nodes }: Topology): Readonly<Record<ProbedStore, readonly string[]>> => {
  const into = (store: string) =>
    nodes.flatMap((node) => (node.is === "sink" && writesRows(node) && node.into.store === store ? node.name : []));
  return { analytics_store: into("clickhouse"), cache_store: into("redis"), relational_store: into("postgres") };
};

/**
 * A killed member holds its group for a session, and a broker takes half a minute to start.
 * Anything longer is an error.
 */
const JOINED_WITHIN_MS = 60_000;

/**
 * Joins the group of the index. Deleted records and a lost end of the log are skipped, because
 * continuing where the log begins changes nothing in the index; letters may be lost, so an operator
 * is alerted. A gap inside the log ends the consumer.
 */
const joinIndex = ({ pool, kafka, wire, log }: LetterPorts, onCrash: (error: Error) => void): Promise<Consumer> =>
  kafka.consumer({
    group: INDEX_GROUP,
    topics: Object.values(letterTopics),
    onOutOfRange: (lost) => log.error("dead_letters.out_of_range", { ...lost, alert: true }),
    reading: indexReading,
    onBatch: indexing(wire, (failures) => indexInPostgres(pool, failures)),
    onCrash,
  });

/**
 * The consumer of the index lives beside the schedules. When it has ended, the next run joins
 * again, because a log that is away must not end the process that reports it.
 */
export const deadLetterIndex = (ports: LetterPorts): Resource<Schedule> => {
  let consumer: Consumer | undefined;
  let joining: { readonly since: number } | undefined;
  let endedBy: Error | undefined;
  let isStopped = false;
  const join = async (): Promise<void> => {
    let hasEnded = false;
    const joined = await joinIndex(ports, (error) => {
      hasEnded = true;
      endedBy = error;
      consumer = undefined;
    });
    if (isStopped) await joined.stop();
    else if (!hasEnded) consumer = joined;
  };
  const startJoining = (): { readonly since: number } => {
    join()
      .catch((error) => {
        endedBy = error;
      })
      .finally(() => {
        joining = undefined;
      });
    return { since: performance.now() };
  };
  return {
    value: {
      name: "dead-letter-index",
      pauseMs: 1_000,
      work: async () => {
        // The error is logged and counted as a failed run; the next run joins again.
        const error = endedBy;
        endedBy = undefined;
        if (error !== undefined) throw error;
        if (consumer !== undefined) return 0;
        // Not awaited: a process that is to stop must not wait here.
        joining ??= startJoining();
        if (performance.now() - joining.since > JOINED_WITHIN_MS)
          throw new Error(`${INDEX_GROUP} is not joined after ${JOINED_WITHIN_MS / 1_000} s`);
        return 0;
      },
    },
    stop: async () => {
      isStopped = true;
      await consumer?.stop();
    },
  };
};

/** Confirms sent letters once every group that reads them has passed them. */
const confirmSent = ({ topology, pool }: LetterPorts, admin: ReturnType<typeof lastingAdmin>) =>
  confirmReprocessed(topology, {
    admin: {
      watermarks: (topic) => admin.ask((one) => one.watermarks(topic)),
      committed: (group, topic) => admin.ask((one) => one.committed(group, topic)),
    },
    hosts: () =>
      hostsNow({
        topology,
        recorded: () => hostings(pool),
        describeGroups: (groups) => admin.ask((one) => one.describeGroups(groups)),
      }),
    underWay: () => lettersUnderWay(pool),
    passed: (letters) => markPassed(pool, letters, Date.now()),
  });

const claimsIn = (pool: Pool): RetryPorts["claims"] => ({
  claim: (most, now, leaseMs) => claimLetters(pool, most, now, leaseMs),
  sent: (letters, now) => markSent(pool, letters, now),
  park: (letters, message) => parkLetters(pool, letters, message),
  discard: (letters, reason, now) => discardClaimed(pool, letters, reason, now),
});

export const deadLetterRetries = (ports: LetterPorts): Resource<Schedule> => {
  const { topology, pool, kafka, wire, produce, readmit, hides } = ports;
  const admin = lastingAdmin(kafka, ADMIN_MS);
  const confirm = confirmSent(ports, admin);
  const retrying: RetryPorts = {
    claims: claimsIn(pool),
    pick: (places) => kafka.pick(places),
    produce,
    wire,
    readmit,
    hides,
    clock: Date.now,
  };
  const stages = stagesOf(topology);
  return {
    value: {
      name: "dead-letters",
      pauseMs: 1_000,
      work: async (isClosing) => {
        await wakeLetters(pool, stages);
        await wakeCorrected(pool);
        let done = 0;
        while (!isClosing()) {
          const sent = await sendDue(retrying, LETTERS_AT_ONCE);
          done += sent;
          if (sent < LETTERS_AT_ONCE) break;
        }
        await confirm();
        return done;
      },
    },
    stop: admin.close,
  };
};
