// Builds dead letters: the rejected bytes as they arrived, with headers that say where, why and how
// often they were rejected.

import type { UnreadRecord } from "./decode.ts";
import type { Recorded, UnixMs } from "./flow.ts";
import type { InputBatch, InputMessage, Letter, OutputMessage } from "./messages.ts";
import type { LogPorts } from "./ports.ts";

// Header names of Kafka Connect, because dead-letter tools already read them. Headers that Connect
// does not define begin with `tributary-`.
export const letterHeaders = {
  topic: "__connect.errors.topic",
  partition: "__connect.errors.partition",
  offset: "__connect.errors.offset",
  message: "__connect.errors.exception.message",
  kind: "tributary-kind",
  stage: "tributary-stage",
  code: "tributary-code",
  attempt: "tributary-attempt",
  firstFailedAt: "tributary-first-failed-at",
  /**
   * Marks a letter that was sent again with the id of the original letter. The header stays if the
   * message fails again.
   */
  letter: "tributary-letter",
  /**
   * The position of the first letter, `pixel.dlq/2@17`, which keeps the bytes. A retry that fails
   * again at an edge names it and keeps none of its own.
   */
  first: "tributary-first",
  /** The client that the message names, when no stage has read it. */
  client: "tributary-client",
  /** The client or address whose settings the edge used when it refused the event. */
  sender: "tributary-sender",
  /** Set when the sender had shown no credential. */
  stranger: "tributary-stranger",
} as const;

/**
 * An error message may quote the input, so it is cut here. The value of the letter holds the bytes
 * in full.
 */
const LONGEST_MESSAGE = 1_000;

const textOf = (header: Buffer | string | undefined): string | undefined => header?.toString();

/**
 * Turns a rejected message into a dead letter. `tributary-kind` is the name of the dead-letter
 * topic without its suffix. A message that fails again after a resend keeps the headers of its
 * first failure, and its attempt count goes up.
 */
export const deadLetterOf = (letter: Letter, now: UnixMs): OutputMessage => {
  const { headers, position } = letter;
  const before = Number(textOf(headers[letterHeaders.attempt]) ?? 0);
  const kept = Object.entries(headers).filter((entry): entry is [string, Buffer | string] => entry[1] !== undefined);
  return {
    topic: letter.to,
    key: letter.key,
    value: letter.value,
    headers: {
      ...Object.fromEntries(kept),
      [letterHeaders.topic]: position.topic,
      [letterHeaders.partition]: String(position.partition),
      [letterHeaders.offset]: String(position.offset),
      [letterHeaders.message]: letter.message.slice(0, LONGEST_MESSAGE),
      [letterHeaders.kind]: letter.to.replace(/\.dlq$/, ""),
      [letterHeaders.stage]: letter.stage,
      [letterHeaders.code]: letter.code,
      [letterHeaders.attempt]: String((Number.isSafeInteger(before) ? before : 0) + 1),
      [letterHeaders.firstFailedAt]: textOf(headers[letterHeaders.firstFailedAt]) ?? new Date(now).toISOString(),
    },
  };
};

/** A message that a stage, a sink or a reader rejected. */
export interface RefusedMessage {
  readonly by: string;
  readonly code: string;
  /** The code, if absent. */
  readonly message?: string;
  /** Undefined if the message could not be decoded. */
  readonly event: Recorded<any> | undefined;
  readonly batch: Pick<InputBatch, "topic" | "partition">;
  readonly source: InputMessage;
  /** The bytes that the stage received, if they differ from those in the log. */
  readonly given?: Pick<InputMessage, "key" | "value">;
}

export const letterOf = (
  ports: Pick<LogPorts, "deadLetter" | "deadLetters">,
  { by, code, message = code, event, batch: { topic, partition }, source, given = source }: RefusedMessage,
): OutputMessage =>
  ports.deadLetter({
    to: ports.deadLetters(event),
    stage: by,
    code,
    message,
    position: { topic, partition, offset: source.offset },
    key: given.key,
    value: given.value,
    headers: source.headers,
  });

/** Builds the dead letter for a message that a chain or a group of sinks could not decode. */
export const unreadLetter = (
  ports: Pick<LogPorts, "deadLetter" | "deadLetters">,
  by: string,
  batch: RefusedMessage["batch"],
  { source, error: { code, message } }: UnreadRecord,
): OutputMessage => letterOf(ports, { by, code, message, event: undefined, batch, source });

/** Why a sink gives an event to the dead letters: the code of the letter, the reason in metrics. */
export const sinkRefusals = ["unmappable_row", "refused_by_store"] as const;
export type SinkRefusal = (typeof sinkRefusals)[number];

export const countByCode = (codes: readonly string[]): ReadonlyMap<string, number> => {
  const counts = new Map<string, number>();
  for (const code of codes) counts.set(code, (counts.get(code) ?? 0) + 1);
  return counts;
};
