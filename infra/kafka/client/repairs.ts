// Repairs faults of kafkajs 2.2.4, each in the class that has it.
import type { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { LogGap } from "../errors.ts";

/**
 * Decides for a member of a group whether a position that the log does not hold may be skipped.
 * True: the partition is read on from the start of the log. Topics carry the prefix.
 */
type OnOutOfRange = (topic: string, partition: number, position: number) => boolean;

/**
 * The decisions by member id, which is unique in the cluster: a permission ends with the membership
 * that it was given in, and no other group of the process has it.
 */
export const onOutOfRange = new Map<string, OnOutOfRange>();

/** Replaces methods of the client that `inside` loads; throws if one of them is missing. */
export const repair = (inside: NodeJS.Require): void => {
  const queue = inside("kafkajs/src/network/requestQueue/index.js").prototype;
  const group = inside("kafkajs/src/consumer/consumerGroup.js").prototype;
  const connection = inside("kafkajs/src/network/connection.js").prototype;
  const broker = inside("kafkajs/src/broker/index.js").prototype;
  const methods = [
    [queue, "scheduleCheckPendingRequests"],
    [queue, "scheduleRequestTimeoutCheck"],
    [group, "recoverFromOffsetOutOfRange"],
    [group, "recoverFromFetch"],
    [group, "fetch"],
    [broker, "connect"],
    [connection, "connect"],
    [connection, "processData"],
  ] as const;
  for (const [owner, method] of methods)
    if (typeof owner[method] !== "function") throw new Error(`this is not kafkajs 2.2.4: ${method} is gone`);
  setTimerWhileRequestsWait(queue);
  lookForTimeoutsEachSecond(queue);
  beginConnectionsEmpty(connection);
  hearBadAnswersAsBroken(connection);
  askBeforeReset(group);
  goOnWhereOthersLead(group);
  hearSilentConnectsAsBroken(broker, inside);
  readAsMemberOnly(group, inside);
};

/** A class of the client, whose methods are replaced. */
type Prototype = Record<string, any>;

/**
 * kafkajs bug: an open connection sets a 1 ms timer for ever, whether or not a request waits: 34-44
 * ms of CPU a second in an idle process.
 */
const setTimerWhileRequestsWait = (queue: Prototype): void => {
  queue.scheduleCheckPendingRequests = function (this: PendingRequests) {
    if (this.pending.length === 0 || this.throttleCheckTimeoutId) return;
    this.throttleCheckTimeoutId = setTimeout(
      () => {
        this.throttleCheckTimeoutId = null;
        this.checkPendingRequests();
      },
      Math.max(10, this.throttledUntil - Date.now()),
    );
  };
};

/**
 * kafkajs bug: each open connection looks ten times a second for requests without an answer, and a
 * process has dozens of connections. The shortest time limit of a request is ten seconds. After a
 * loop that was blocked, or had no processor, answers still lie in the socket: a late look is left
 * out, and the sockets are read before the next one.
 */
const lookForTimeoutsEachSecond = (queue: Prototype): void => {
  queue.scheduleRequestTimeoutCheck = function (this: RequestsUnderWay) {
    this.destroy();
    const everyMs = Math.min(this.requestTimeout, TIMEOUTS_MS);
    let due = performance.now() + everyMs;
    this.requestTimeoutIntervalId = setInterval(() => {
      const isLate = performance.now() - due > LATE_MS;
      due = performance.now() + everyMs;
      const now = Date.now();
      for (const request of isLate ? [] : this.inflight.values())
        if (now - request.sentAt > request.requestTimeout) request.timeoutRequest();
      if (!this.isConnected()) this.destroy();
    }, everyMs);
  };
};

/**
 * kafkajs bug: bytes of a lost connection stay in front of the answers of the next one, and its
 * late bytes come in between. Answers were read at the wrong position, which ended the process, or
 * answered a request that had no answer yet.
 */
const beginConnectionsEmpty = (connection: Prototype): void => {
  const { connect } = connection;
  connection.connect = function (this: Connection) {
    if (!this.isConnected()) {
      this.socket
        ?.removeAllListeners()
        .on("error", () => undefined)
        .destroy();
      Object.assign(this, { chunks: [], bytesBuffered: 0, bytesNeeded: SIZE_BYTES });
    }
    return connect.call(this);
  };
};

/**
 * kafkajs bug: an invalid answer (one shorter than its own length field, for example) is thrown
 * where no code can catch it.
 */
const hearBadAnswersAsBroken = (connection: Prototype): void => {
  const { processData } = connection;
  connection.processData = function (this: Connection, bytes: Buffer) {
    try {
      processData.call(this, bytes);
    } catch (error) {
      // Treated as a broken connection: requests under way fail, and are tried again on a new one.
      this.socket?.destroy(error as Error);
    }
  };
};

/**
 * kafkajs bug: a position that the log does not hold any more is replaced by its beginning or end,
 * and only a log line says so. Events would be lost without an error.
 */
const askBeforeReset = (group: Prototype): void => {
  const reset = group.recoverFromOffsetOutOfRange;
  group.recoverFromOffsetOutOfRange = async function (this: Group, { topic, partition }: Place) {
    const position = Number(this.offsetManager.nextOffset(topic, partition));
    if (onOutOfRange.get(this.memberId ?? "")?.(topic, partition, position) === true)
      return reset.call(this, { topic, partition });
    throw new LogGap(topic, partition, `the group's position ${position} is outside of what the log holds`);
  };
};

/**
 * kafkajs bug: when a partition's leader moves, its reader joins the group again. That stops all
 * members, once for each of them and again when the leader comes back. And a reader asks a silent
 * broker again until the process ends, although other brokers lead by then.
 */
const goOnWhereOthersLead = (group: Prototype): void => {
  const { recoverFromFetch } = group;
  group.recoverFromFetch = async function (this: Group, error: Failure) {
    const isSilent = error.name === "KafkaJSRequestTimeoutError";
    if (!isSilent && !moved.has(error.type ?? "")) return recoverFromFetch.call(this, error);
    if (isSilent) leave(this.cluster, error.broker);
    // An election may be under way.
    else await sleep(MOVING_MS);
    await this.cluster.refreshMetadata();
  };
};

/** Forgets a broker as after a lost connection: it is connected to again if it still leads. */
const leave = (cluster: Group["cluster"], address = ""): void => {
  const [, host, port] = /^(.*):(\d+)$/.exec(address) ?? [];
  const silent = Object.values(cluster.brokerPool.brokers).find(
    ({ connectionPool }) => connectionPool.host === host && connectionPool.port === Number(port),
  );
  if (silent === undefined) return;
  cluster.removeBroker(silent.connectionPool);
  breakOff(silent.connectionPool);
};

/**
 * Requests under way fail at once; closing a connection through the client would wait for them.
 */
const breakOff = ({ host, port, pool }: ConnectionPool): void => {
  for (const { socket } of pool) socket?.destroy(new Error(`${host}:${port} does not answer`));
};

/**
 * kafkajs bug: a broker that accepts a connection and stays silent is asked thirty times for its
 * versions, and the readers of all other brokers wait for the reader of this one.
 */
const hearSilentConnectsAsBroken = (broker: Prototype, inside: NodeJS.Require): void => {
  const { KafkaJSConnectionError } = inside("kafkajs/src/errors.js");
  const { connect } = broker;
  broker.connect = async function (this: { readonly connectionPool: ConnectionPool }) {
    try {
      return await connect.call(this);
    } catch (error) {
      const { name, message, broker: address } = error as Failure & Error;
      if (name !== "KafkaJSRequestTimeoutError") throw error;
      breakOff(this.connectionPool);
      throw new KafkaJSConnectionError(message, { broker: address });
    }
  };
};

/**
 * kafkajs bug: a reader that its group has forgotten, and whose next join fails, reads on without a
 * membership. It sends no heartbeat then, so it never hears that it owns nothing.
 */
const readAsMemberOnly = (group: Prototype, inside: NodeJS.Require): void => {
  const { createErrorFromCode } = inside("kafkajs/src/protocol/error.js");
  const { fetch } = group;
  group.fetch = async function (this: Group, nodeId: string) {
    // The client joins again after this error.
    if (this.memberId === null) throw createErrorFromCode(UNKNOWN_MEMBER_ID);
    return fetch.call(this, nodeId);
  };
};

const UNKNOWN_MEMBER_ID = 25;
const SIZE_BYTES = 4;
const TIMEOUTS_MS = 1_000;
const LATE_MS = 500;
const MOVING_MS = 100;
/** The answers of a broker that does not lead the partition now. */
const moved = new Set([
  "LEADER_NOT_AVAILABLE",
  "NOT_LEADER_FOR_PARTITION",
  "FENCED_LEADER_EPOCH",
  "UNKNOWN_LEADER_EPOCH",
]);
interface Place {
  readonly topic: string;
  readonly partition: number;
}
interface Failure {
  readonly name: string;
  readonly type?: string;
  /** Host and port of the broker that did not answer. */
  readonly broker?: string;
}
interface Address {
  readonly host: string;
  readonly port: number;
}
interface ConnectionPool extends Address {
  readonly pool: readonly { readonly socket?: Socket | null }[];
}
interface Group {
  /** Null while the reader is no member. */
  readonly memberId: string | null;
  readonly cluster: {
    readonly refreshMetadata: () => Promise<void>;
    readonly removeBroker: (broker: Address) => void;
    readonly brokerPool: {
      readonly brokers: Readonly<Record<string, { readonly connectionPool: ConnectionPool }>>;
    };
  };
  readonly offsetManager: { readonly nextOffset: (topic: string, partition: number) => unknown };
}
interface Connection {
  readonly socket?: Socket;
  readonly isConnected: () => boolean;
}
interface RequestsUnderWay {
  readonly inflight: ReadonlyMap<number, { sentAt: number; requestTimeout: number; timeoutRequest: () => void }>;
  readonly requestTimeout: number;
  readonly isConnected: () => boolean;
  readonly destroy: () => void;
  requestTimeoutIntervalId: NodeJS.Timeout;
}
interface PendingRequests {
  readonly pending: readonly unknown[];
  readonly throttledUntil: number;
  throttleCheckTimeoutId: NodeJS.Timeout | null;
  readonly checkPendingRequests: () => void;
}
