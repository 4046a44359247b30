// How values become events and events values: what the runners ask of the encoding of the log.
// infra/avro/wire.ts implements it.
import type { Position, Recorded, Topic } from "./flow.ts";
import type { OutputMessage } from "./messages.ts";

export interface Wire {
  /**
   * The framed value. It is a part of a larger buffer that nothing else is written to; keep it, do
   * not change it. Throws TooLarge.
   */
  readonly encode: <T>(topic: Topic<T>, event: Recorded<T>, origin: Position | null) => Buffer;
  /**
   * Throws Unreadable for bytes that cannot be read, UnknownSchema when `learn` must be asked
   * first.
   */
  readonly decode: <T>(topic: Topic<T>, value: Buffer | null, read: Position) => Recorded<T>;
  /**
   * The same event, or the same error. What is read of it is read from `value` when it is asked
   * for, where that is possible: its records have getters, and no fields of their own to spread.
   */
  readonly view: Wire["decode"];
  /**
   * Fetches the schema of an id once; afterwards `decode` reads what was written under it, or calls
   * it Unreadable("unknown_schema") for good. Rejects while the registry is away.
   */
  readonly learn: (schemaId: number) => Promise<void>;
  readonly encodeOutcome: (outcome: RecordedOutcome) => Buffer;
  /** Throws on bytes that this version cannot read: a recorded decision is never guessed. */
  readonly decodeOutcome: (bytes: Uint8Array) => RecordedOutcome;
}

/**
 * What became of an event, as durable memory keeps it: the very messages that were produced for it,
 * so that it can be answered again.
 */
export interface RecordedOutcome {
  /** Why nothing was emitted; null when the event was not dropped. */
  readonly dropped: string | null;
  readonly messages: readonly RecordedMessage[];
}
export type RecordedMessage = OutputMessage & { readonly key: string; readonly value: Buffer };

/** A record that no log takes: twice what the broker does, and more. */
export class TooLarge extends Error {
  constructor(message: string) {
    super(message);
    this.name = "TooLarge";
  }
}

export type UnreadableCode = "not_framed" | "unknown_schema" | "unreadable_body" | "content_hash_mismatch";

/**
 * Bytes that are not a record of the topic they lie in: cut, altered, or written under a schema
 * that today's cannot read. `code` is closed.
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
 * A value under a schema id not met before: learn it outside of the loop over events, then decode
 * again.
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
