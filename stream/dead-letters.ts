// Makes the message that keeps what was refused: the bytes as they came, and headers that say
// where, why and how often.

import type { UnreadRecord } from "./decode.ts";
import type { Recorded, UnixMs } from "./flow.ts";
import type { InputBatch, InputMessage, Letter, OutputMessage } from "./messages.ts";
import type { LogPorts } from "./ports.ts";

// Names of Kafka Connect, which tools that look into dead letters already know; what Connect has no
// name for begins with `tributary-`.
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
  /** On what is sent again: which letter it is. It stays when that fails again. */
  letter: "tributary-letter",
  /** Of what no stage has read: which client it names. */
  client: "tributary-client",
  /** Of what an edge refused: whose settings read it. */
  sender: "tributary-sender",
} as const;

/** A message may quote what it could not read; the bytes themselves are in the value. */
const LONGEST_MESSAGE = 1_000;

const textOf = (header: Buffer | string | undefined): string | undefined => header?.toString();

/**
 * `tributary-kind` is the name of the dead-letter topic without its ending. A letter that was sent
 * again and failed again carries its earlier headers:
 * its attempt counts on and its first failure stays.
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

/** What a stage, a sink or a reader refused. */
export interface RefusedMessage {
  readonly by: string;
  readonly code: string;
  /** The code, when left out. */
  readonly message?: string;
  /** Undefined: it could not be read. */
  readonly event: Recorded<any> | undefined;
  readonly batch: Pick<InputBatch, "topic" | "partition">;
  readonly source: InputMessage;
  /** The bytes that it was given, where they are not those of the log. */
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

/** The letter of bytes that cannot be read, as a chain or a group of sinks met them. */
export const unreadLetter = (
  ports: Pick<LogPorts, "deadLetter" | "deadLetters">,
  by: string,
  batch: RefusedMessage["batch"],
  { source, error: { code, message } }: UnreadRecord,
): OutputMessage => letterOf(ports, { by, code, message, event: undefined, batch, source });
