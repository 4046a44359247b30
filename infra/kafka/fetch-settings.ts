// The sizes of fetches for each kind of reader, and the fetched records as messages.
import type { InputMessage } from "../../stream/messages.ts";
import { FetchedRecord, NO_HEADERS } from "./client/fetched-records.ts";
import type { ClientBatch } from "./client/types.ts";

export interface FetchSettings {
  readonly minBytes: number;
  readonly maxWaitTimeInMs: number;
  readonly maxBytesPerPartition: number;
  readonly maxBytes: number;
}

export interface ReadSettings {
  readonly fetch: FetchSettings;
  readonly sessionTimeoutMs: number;
  readonly partitionsAtOnce: number;
}

const KIB = 1024;
const MIB = 1024 * KIB;

/**
 * A stage has a short session, so that a killed one is replaced within 30 s
 * (docs/design/architecture.md, "Hosting"). The fixed cost of a batch (memory, one request a
 * partition, a commit) is shared by more events when the broker gathers a little: at 10,000 events
 * a second 128 KiB fill in 26 ms, which is 20 events a partition; 200 ms bring 170. The sinks' own
 * gathering is the larger part of the second that an event takes to the stores.
 */
export const stageReading = {
  fetch: { minBytes: 2 * MIB, maxWaitTimeInMs: 200, maxBytesPerPartition: 4 * MIB, maxBytes: 16 * MIB },
  sessionTimeoutMs: 10_000,
  partitionsAtOnce: 1,
};
/**
 * For a stage with durable memory a batch costs a transaction with its sync, however few
 * conversions are in it. At two in a hundred of 16,700 events a second 200 ms bring 17 a partition,
 * half a second 42 (bench/money/conversion.ts).
 */
export const durableReading = { ...stageReading, fetch: { ...stageReading.fetch, maxWaitTimeInMs: 500 } };
/**
 * For a sink the broker gathers about one insert a second. All batches of a fetch are handed over
 * in the same turn of the loop, so that they can join one write. All events of a fetch live until
 * it is written: more than 12 MiB of them outgrow the young generation of the heap, and a sink that
 * lags would then pay most when it has least time.
 */
export const sinkReading = {
  fetch: { minBytes: 8 * MIB, maxWaitTimeInMs: 1_000, maxBytesPerPartition: 2 * MIB, maxBytes: 12 * MIB },
  sessionTimeoutMs: 30_000,
  partitionsAtOnce: 64,
};

/**
 * A copy of the log reads small pieces, since a piece is not needed any more once it is compressed.
 * A partition that pauses between two pieces is asked for again within the wait.
 */
export const copyReading = {
  fetch: { minBytes: MIB, maxWaitTimeInMs: 200, maxBytesPerPartition: 4 * MIB, maxBytes: 8 * MIB },
  sessionTimeoutMs: 30_000,
  partitionsAtOnce: 1,
};

/** A repeated header keeps its last value. */
const headersOf = (given: Record<string, unknown> | undefined): InputMessage["headers"] => {
  let headers: Record<string, Buffer | string | undefined> | undefined;
  for (const name in given) {
    const value = given[name] as Buffer | string | undefined | (Buffer | string)[];
    headers ??= {};
    headers[name] = Array.isArray(value) ? value.at(-1) : value;
  }
  return headers ?? NO_HEADERS;
};

/**
 * Records that the client has read itself (compressed batches and batches of transactions) become
 * the same kind of message.
 */
const messageOf = (message: ClientBatch["batch"]["messages"][number] | FetchedRecord): InputMessage =>
  message instanceof FetchedRecord
    ? message
    : {
        offset: Number(message.offset),
        key: message.key,
        value: message.value,
        headers: headersOf(message.headers as Record<string, unknown> | undefined),
        appendedAt: Number(message.timestamp),
      };

export const messagesOf = ({ messages }: ClientBatch["batch"]): InputMessage[] => messages.map(messageOf);
