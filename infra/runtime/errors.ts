// Classifies any error by the reaction that it needs: another try of the step, a closer look at the
// data, or a stop.

import type { Verdict } from "../../stream/ports.ts";

abstract class Later extends Error {
  /** When the same request may succeed. */
  readonly retryAfterSec: number;
  constructor(message: string, retryAfterSec: number) {
    super(message);
    this.retryAfterSec = retryAfterSec;
  }
}

/** The request is valid but cannot be served now: the same request may succeed later. */
export class Unavailable extends Later {
  override readonly name = "Unavailable";
}

/** The sender has used up what it may send for now. */
export class QuotaSpent extends Later {
  override readonly name = "QuotaSpent";
}

/** Makes a readiness check: throws an error with `otherwise` unless the condition holds. */
export const need = (isSo: boolean, otherwise: string): void => {
  if (!isSo) throw new Error(otherwise);
};

/** Error classes of ours carry their own verdict. */
interface ErrorWithVerdict {
  readonly verdict: Verdict;
}

interface Loose {
  readonly name?: unknown;
  readonly message?: unknown;
  readonly code?: unknown;
  readonly type?: unknown;
  readonly verdict?: unknown;
  readonly severity?: unknown;
  readonly retriable?: unknown;
  readonly cause?: unknown;
  readonly errors?: unknown;
}

/** Node and undici: the other side is away, slow or full; all of it can heal. */
const transientSystemCodes = new Set(
  `ECONNREFUSED ECONNRESET ECONNABORTED EPIPE ETIMEDOUT ENOTFOUND EAI_AGAIN EHOSTUNREACH EHOSTDOWN ENETUNREACH
   ENETDOWN EADDRNOTAVAIL EBUSY EMFILE ENFILE ENOSPC ERR_SOCKET_CLOSED ERR_STREAM_PREMATURE_CLOSE
   UND_ERR_CONNECT_TIMEOUT UND_ERR_HEADERS_TIMEOUT UND_ERR_BODY_TIMEOUT UND_ERR_SOCKET UND_ERR_CLOSED`.split(/\s+/),
);

/**
 * https://kafka.apache.org/protocol.html#protocol_error_codes: errors that one record or batch
 * causes. kafkajs itself says whether they can be retried.
 */
const kafkaDataTypes = new Set(["MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_RECORD", "INVALID_TIMESTAMP"]);
const transientKafkaNames = new Set([
  "KafkaJSConnectionError",
  "KafkaJSConnectionClosedError",
  "KafkaJSRequestTimeoutError",
  "KafkaJSBrokerNotFound",
  "KafkaJSMetadataNotLoaded",
  "KafkaJSTopicMetadataNotLoaded",
  "KafkaJSGroupCoordinatorNotFound",
  "KafkaJSNoBrokerAvailableError",
  "KafkaJSLockTimeout",
]);

/**
 * Postgres appendix A, by class or by code. Transient: connection, rollback, resources, locks,
 * operator intervention, system. Data: values and constraints.
 */
const transientSqlStates = /^(08|40|53|57|58)|^(55P03|55006|25006|25P04)$/;
const dataSqlStates = /^(22|23)|^54000$/;

/** ClickHouse src/Common/ErrorCodes.cpp. */
const transientClickHouseCodes = new Set([
  159, 160, 198, 202, 203, 209, 210, 225, 236, 241, 242, 243, 252, 279, 285, 319, 335, 364, 394, 425, 439, 473, 745,
  999, 1000,
]);
const dataClickHouseCodes = new Set([
  6, 25, 26, 27, 33, 38, 41, 53, 69, 70, 72, 117, 130, 131, 190, 321, 349, 376, 407, 441, 457, 467, 675, 676, 691,
]);

/** Redis begins an error with a code word. */
const transientRedisWords = new Set([
  "LOADING",
  "BUSY",
  "TRYAGAIN",
  "CLUSTERDOWN",
  "MASTERDOWN",
  "READONLY",
  "MISCONF",
  "OOM",
  "NOREPLICAS",
]);

/**
 * Errors that pg, ioredis and the ClickHouse client raise without class or code, so that only their
 * whole text identifies them.
 */
const transientTexts = new Set([
  "Connection terminated unexpectedly",
  "Connection terminated due to connection timeout",
  "Connection terminated",
  "timeout exceeded when trying to connect",
  "Query read timeout",
  "Connection is closed.",
  "Command timed out",
  "Stream isn't writeable and enableOfflineQueue options is false",
  "Timeout error.",
]);

const isClassified = (error: Loose): error is ErrorWithVerdict =>
  ["transient", "data", "fatal"].includes(error.verdict as string);

const ofKafka = (error: Loose): Verdict => {
  // The retry wrappers of kafkajs hide the cause.
  if (error.cause instanceof Error && error.cause !== error) return classify(error.cause);
  if (typeof error.type === "string" && kafkaDataTypes.has(error.type)) return "data";
  return transientKafkaNames.has(error.name as string) || (error.retriable === true && error.type !== undefined)
    ? "transient"
    : "fatal";
};

const ofSql = (code: string): Verdict =>
  transientSqlStates.test(code) ? "transient" : dataSqlStates.test(code) ? "data" : "fatal";

const ofClickHouse = (code: number): Verdict =>
  transientClickHouseCodes.has(code) ? "transient" : dataClickHouseCodes.has(code) ? "data" : "fatal";

/** Total: every value that can be thrown has a verdict, and unknown errors are fatal. */
export const classify = (thrown: unknown): Verdict => {
  if (typeof thrown !== "object" || thrown === null) return "fatal";
  const error = thrown as Loose;
  if (isClassified(error)) return error.verdict;
  const { name, code, type, message } = error;
  if (typeof name === "string" && name.startsWith("KafkaJS")) return ofKafka(error);
  if (typeof code === "string" && transientSystemCodes.has(code)) return "transient";
  if (typeof code === "string" && /^\d{1,4}$/.test(code) && typeof type === "string") return ofClickHouse(Number(code));
  if (typeof code === "string" && /^[0-9A-Z]{5}$/.test(code) && typeof error.severity === "string") return ofSql(code);
  if (name === "ReplyError" && typeof message === "string")
    return transientRedisWords.has(message.split(" ")[0]!) ? "transient" : "fatal";
  if (name === "MaxRetriesPerRequestError" || name === "TimeoutError") return "transient";
  if (typeof message === "string" && transientTexts.has(message)) return "transient";
  // fetch() hides the system error behind a TypeError; several addresses of one host fail together.
  if (error.cause instanceof Error && error.cause !== thrown) return classify(error.cause);
  if (Array.isArray(error.errors) && error.errors.length > 0)
    return error.errors.every((each) => classify(each) === "transient") ? "transient" : "fatal";
  return "fatal";
};

/** Postgres: a statement or a transaction took too long, or was cancelled. */
const sqlStatesOfTime = new Set(["57014", "25P04"]);
/** ClickHouse: the statement took too long, was too slow, or its connection was silent. */
const clickHouseCodesOfTime = new Set(["159", "160", "209"]);
/** The time limits of the clients of Postgres, Redis and ClickHouse. */
const textsOfTime = new Set(["Query read timeout", "Command timed out", "Timeout error."]);

/** Whether a statement was ended by its time limit, so that a smaller one may be within it. */
export const isTimeLimit = (thrown: unknown): boolean => {
  if (typeof thrown !== "object" || thrown === null) return false;
  const { code, type, severity, message } = thrown as Loose;
  if (typeof code === "string" && typeof severity === "string") return sqlStatesOfTime.has(code);
  if (typeof code === "string" && typeof type === "string") return clickHouseCodesOfTime.has(code);
  return typeof message === "string" && textsOfTime.has(message);
};

const isTransient = (error: unknown): boolean => classify(error) === "transient";

/**
 * Handles an error of a store that is asked: throws Unavailable while the store is away, and throws
 * every other error on. `isAway` tells which errors say so.
 */
export const orUnavailable =
  (message: string, retryAfterSec: number, isAway: (error: unknown) => boolean = isTransient) =>
  (error: unknown): never => {
    throw isAway(error) ? new Unavailable(message, retryAfterSec) : error;
  };

const settlingTypes = new Set([
  "GROUP_LOAD_IN_PROGRESS",
  "GROUP_COORDINATOR_NOT_AVAILABLE",
  "NOT_COORDINATOR_FOR_GROUP",
  "NOT_LEADER_FOR_PARTITION",
  "LEADER_NOT_AVAILABLE",
]);
/**
 * A broker that has just started first reads its groups, and leads its partitions a moment later.
 * Its client does not retry these errors everywhere.
 */
export const isSettling = (error: unknown): boolean => {
  const { type, cause } = (error ?? {}) as { readonly type?: unknown; readonly cause?: unknown };
  return (
    (typeof type === "string" && settlingTypes.has(type)) ||
    (cause instanceof Error && cause !== error && isSettling(cause))
  );
};
