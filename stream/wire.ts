// How events are encoded in the log: for edges (infra/avro/record-wire.ts implements it), and with
// what the runners need besides (infra/avro/wire.ts).
import type { Position, Recorded, Topic } from "./flow.ts";
import type { OutputMessage } from "./messages.ts";

/** Writes records, and reads whole ones. */
export interface RecordWire {
  /**
   * Encodes an event with its frame. The result is a slice of a larger buffer whose bytes are never
   * overwritten: you may keep it, but must not change it. Throws TooLarge.
   */
  readonly encode: <T>(topic: Topic<T>, event: Recorded<T>, origin: Position | null) => Buffer;
  /**
   * Decodes a message. Throws Unreadable for bytes that cannot be read, and UnknownSchema when
   * `learn` must be called first.
   */
  readonly decode: <T>(topic: Topic<T>, value: Buffer | null, read: Position) => Recorded<T>;
  /**
   * Fetches a schema by its id once. Afterwards `decode` can read messages written under it, or
   * throws Unreadable("unknown_schema") for good. Rejects while the registry is down.
   */
  readonly learn: (schemaId: number) => Promise<void>;
}

/** The wire of stages and sinks. */
export interface Wire extends RecordWire {
  /**
   * Like `decode`, with the same errors, but fields are decoded from `value` on first access where
   * possible. The record then has getters and no own fields, so it cannot be spread.
   */
  readonly view: RecordWire["decode"];
  readonly encodeOutcome: (outcome: RecordedOutcome) => Buffer;
  /**
   * Throws on bytes that this version cannot read, because a recorded decision must never be
   * guessed.
   */
  readonly decodeOutcome: (bytes: Uint8Array) => RecordedOutcome;
}

/**
 * The outcome of an event in durable memory, with the exact messages that were produced for it, so
 * that they can be sent again.
 */
export interface RecordedOutcome {
  /** The reason for a drop. Null if the event was not dropped. */
  readonly dropped: string | null;
  readonly messages: readonly RecordedMessage[];
}
export type RecordedMessage = OutputMessage & { readonly key: string; readonly value: Buffer };

/** The record is too large for any log: more than twice the limit of the broker. */
export class TooLarge extends Error {
  constructor(message: string) {
    super(message);
    this.name = "TooLarge";
  }
}

/** Why a record cannot be read: the code of its dead letter, and the reason in metrics. */
export const unreadableCodes = ["not_framed", "unknown_schema", "unreadable_body", "content_hash_mismatch"] as const;
export type UnreadableCode = (typeof unreadableCodes)[number];

/**
 * The bytes are not a record of their topic: truncated, altered, or written under a schema that the
 * current one cannot read. `code` has a fixed set of values.
 */
export class UnreadableRecord extends Error {
  readonly verdict = "data";
  readonly code: UnreadableCode;
  constructor(code: UnreadableCode, message: string) {
    super(message);
    this.name = "Unreadable";
    this.code = code;
  }
}

/**
 * The value was written under a schema that is not loaded yet. Call `learn` outside of the event
 * loop, then decode again.
 */
export class UnknownSchema extends Error {
  readonly verdict = "transient";
  readonly schemaId: number;
  constructor(schemaId: number) {
    super(`schema ${schemaId} has not been learnt yet`);
    this.name = "UnknownSchema";
    this.schemaId = schemaId;
  }
}
