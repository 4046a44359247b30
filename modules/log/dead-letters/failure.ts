// Reads a record of a dead-letter topic: what failed, which client's event it holds, and which
// topic it goes back to when it is retried.
import { createHash } from "node:crypto";
import { uuidOf } from "../../../domain/ids.ts";
import type { Hides } from "../../../domain/personal/suppression.ts";
import { letterKindOf, letterTopics } from "../../../edges/dead-letters.ts";
import { comparedIn } from "../../../processors/settle/conflict.ts";
import type { Claim, EventAttributed, EventReceived } from "../../../schemas/generated.ts";
import { letterHeaders } from "../../../stream/dead-letters.ts";
import type { AnyTopic, Position, Recorded, UnixMs } from "../../../stream/flow.ts";
import type { InputMessage, OutputMessage } from "../../../stream/messages.ts";
import type { Wire } from "../../../stream/wire.ts";
import { UnreadableRecord } from "../../../stream/wire.ts";
import { topics } from "../../../topics.ts";
import { pipeline } from "../../../topology.ts";
import type { Failure } from "./letter.ts";

const readers = pipeline.nodes.filter((node) => node.is !== "edge");
/** Every topic that a stage or sink reads, hence every topic that a letter can come from. */
const sources: ReadonlyMap<string, AnyTopic> = new Map(readers.map(({ from }) => [from.name, from]));
/** The input topic of each stage and sink. */
const readBy: ReadonlyMap<string, AnyTopic> = new Map(readers.map(({ name, from }) => [name, from]));
/** The topics that a wire must be opened for to read letters. */
export const letterSources: readonly AnyTopic[] = [...sources.values()];

type OriginalMessage = Pick<InputMessage, "key" | "value" | "headers">;

/** Returns a header as text without U+0000, which Postgres does not store. */
const textOf = (headers: InputMessage["headers"], name: string): string | undefined =>
  headers[name]?.toString().replaceAll("\0", "");
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const INT = 2 ** 31;

/**
 * Returns the position of the refused record; undefined when no reader of the pipeline wrote it.
 */
const sourceOf = ({ headers }: OriginalMessage): Position | undefined => {
  const topic = textOf(headers, letterHeaders.topic);
  const partition = Number(textOf(headers, letterHeaders.partition) ?? Number.NaN);
  const offset = Number(textOf(headers, letterHeaders.offset) ?? Number.NaN);
  const isPlace =
    Number.isInteger(partition) && partition >= 0 && partition < INT && Number.isSafeInteger(offset) && offset >= 0;
  return topic !== undefined && sources.has(topic) && isPlace ? { topic, partition, offset } : undefined;
};
const FIRST = /^([a-z\d]+\.dlq)\/(\d{1,9})@(\d{1,15})$/;
/**
 * Returns the position of the bytes: that of the first letter for a retry that names it, else its
 * own. Letters that were written before name none.
 */
const keptOf = ({ headers }: OriginalMessage, at: Position): Position => {
  const [, topic, partition, offset] = FIRST.exec(textOf(headers, letterHeaders.first) ?? "") ?? [];
  return topic !== undefined && Object.values(letterTopics).includes(topic)
    ? { topic, partition: Number(partition), offset: Number(offset) }
    : at;
};
/**
 * Returns the topic whose schema the record has. A stage that is fused with others read its input
 * in memory, while its letter names the position in the log that the chain read.
 */
const topicOf = ({ headers }: OriginalMessage, source: Position): AnyTopic =>
  readBy.get(textOf(headers, letterHeaders.stage) ?? "") ?? sources.get(source.topic)!;

/** The contents of a refused record that could be decoded. */
interface RefusedRecord {
  readonly topic: AnyTopic;
  readonly record: Recorded<any>;
  /**
   * The event to send through the whole pipeline again; null when the record itself goes back to
   * its own topic.
   */
  readonly event: EventReceived | null;
}

/**
 * Returns the event in a record, so that it passes every stage again, since the fault may have been
 * fixed anywhere on its way.
 * Null for records that go back as they are: a later version of a row was made by a decision or a
 * second copy, and the event alone would not restore it; decisions, conversions and ledger entries
 * are not events. Their readers return the recorded outcome or write under the same id.
 */
const eventIn = (name: string, data: any): EventReceived | null => {
  if (name === topics.eventsRaw.name) return data;
  if (name === topics.eventsEnriched.name || name === topics.eventsScored.name) return data.event;
  if (name === topics.eventsAttributed.name) return (data as EventAttributed).version === 1 ? data.event : null;
  if (name === topics.claims.name) return (data as Claim).kind === "decision" ? null : (data as Claim).attributed.event;
  return null;
};

/**
 * Decodes a kept record; undefined when it is unreadable. Rejects while the registry is unreachable
 * and the schema is not cached.
 */
const heldIn = async (wire: Wire, kept: OriginalMessage, source: Position): Promise<RefusedRecord | undefined> => {
  const topic = topicOf(kept, source);
  const decode = (): Recorded<any> | undefined => {
    try {
      return wire.decode(topic, kept.value, source);
    } catch (error) {
      if (error instanceof UnreadableRecord) return undefined;
      throw error;
    }
  };
  let record: Recorded<any> | undefined;
  try {
    record = decode();
  } catch (error) {
    const { schemaId } = error as { schemaId?: number };
    if (schemaId === undefined) throw error;
    await wire.learn(schemaId);
    record = decode();
  }
  return record === undefined ? undefined : { topic, record, event: eventIn(topic.name, record.data) };
};

type Bytes = Pick<OriginalMessage, "key" | "value">;
const digestOf = ({ key, value }: Bytes): string =>
  createHash("sha256")
    .update(key ?? "")
    .update("\0")
    .update(value ?? "")
    .update(value === null ? "null" : "")
    .digest("hex");

/** Returns the same id whenever a reader meets the same bytes at the same position. */
export const failureIdOf = (stage: string, { topic, partition, offset }: Position, bytes: Bytes): string =>
  uuidOf("failure", stage, topic, partition, offset, digestOf(bytes));

/**
 * Returns the root in the header of a record that was sent again, else an id of its position and
 * bytes. The bytes count because positions are reused after a log is lost.
 */
const rootOf = (kept: OriginalMessage, source: Position): string => {
  const carried = textOf(kept.headers, letterHeaders.letter);
  return carried !== undefined && UUID.test(carried)
    ? carried
    : uuidOf("refused", source.topic, source.partition, source.offset, digestOf(kept));
};

const clientOf = (data: any): number | null =>
  data.client_id ?? data.event?.client_id ?? data.attributed?.event.client_id ?? null;
/**
 * Returns the client from the letter's header, because an event that an edge refused never became a
 * record.
 */
const clientNamed = ({ headers }: OriginalMessage): number | null => {
  const id = Number(textOf(headers, letterHeaders.client) ?? Number.NaN);
  return Number.isInteger(id) && id > 0 && id < INT ? id : null;
};
const eventIdOf = ({ record, event }: RefusedRecord): string =>
  String(
    event?.event_id ??
      record.data.event?.event_id ??
      record.data.attributed?.event.event_id ??
      record.data.event_id ??
      record.id,
  ).replaceAll("\0", "");

const orderIdOf = ({ record: { data }, event }: RefusedRecord): string | null => {
  const orderId: string | null | undefined =
    event?.order_id ?? data.event?.order_id ?? data.attributed?.event.order_id ?? data.order_id;
  return orderId?.replaceAll("\0", "") ?? null;
};

/**
 * Returns the subject of a record, and that of letters of before. A claim is known by what settle
 * compares too: of several orders under one event id all but one are refused, each for itself.
 */
const subjectsOf = (
  held: RefusedRecord | undefined,
  kept: OriginalMessage,
): Pick<Failure, "subject" | "subject_of_before"> => {
  if (held === undefined) return { subject: null, subject_of_before: null };
  const { topic, event } = held;
  if (event === null) return { subject: uuidOf(topic.name, digestOf(kept)), subject_of_before: null };
  const ofEvent = uuidOf("event", event.event_id);
  if (topic.name !== topics.claims.name) return { subject: ofEvent, subject_of_before: null };
  return { subject: uuidOf("event", event.event_id, ...comparedIn(event)), subject_of_before: ofEvent };
};

/**
 * The code of a record that no component of ours wrote: it is kept and counted, but never retried
 * automatically.
 */
const FOREIGN = "foreign_record";

/**
 * Turns every record of a dead-letter topic into a failure; none is skipped. `appendedAt` is when
 * the log took the record.
 */
export const failureOf = async (
  wire: Wire,
  kept: OriginalMessage,
  at: Position,
  appendedAt: UnixMs,
): Promise<Failure> => {
  const source = sourceOf(kept);
  const text = (name: string, otherwise: string) => textOf(kept.headers, name) || otherwise;
  const first = Date.parse(text(letterHeaders.firstFailedAt, ""));
  const held = source === undefined ? undefined : await heldIn(wire, kept, source);
  const from = source ?? at;
  const stage = text(letterHeaders.stage, "unknown");
  return {
    failure_id: failureIdOf(stage, from, kept),
    kind: letterKindOf(at.topic),
    root: rootOf(kept, from),
    ...subjectsOf(held, kept),
    stage,
    code: text(letterHeaders.code, FOREIGN),
    message: text(letterHeaders.message, "the record does not say why it lies here"),
    source: from,
    kept: keptOf(kept, at),
    event_id: held === undefined ? null : eventIdOf(held),
    order_id: held === undefined ? null : orderIdOf(held),
    client_id: held === undefined ? clientNamed(kept) : clientOf(held.record.data),
    sender: textOf(kept.headers, letterHeaders.sender) ?? null,
    is_stranger: textOf(kept.headers, letterHeaders.stranger) !== undefined,
    first_failed_at: Number.isFinite(first) ? first : appendedAt,
    failed_at: appendedAt,
  };
};

/**
 * Tests whether the subject is erased. A claim is checked by its event; a decision on a whole order
 * holds a blank event with the order's id.
 */
const isErased = ({ topic, record, event }: RefusedRecord, hides: Hides | undefined): boolean => {
  if (hides === undefined) return false;
  const about = event ?? (topic.name === topics.claims.name ? (record.data as Claim).attributed.event : null);
  return about === null ? hides(record, topic.name) : hides({ ...record, data: about }, topics.eventsRaw.name);
};

/**
 * Returns the message that takes a letter's record into the pipeline again. `no_way_back`: the
 * record is not one of the pipeline. `erased`: its subject must not come back (law R4).
 */
export const reentryOf = async (
  wire: Wire,
  kept: OriginalMessage,
  root: string,
  hides: Hides | undefined,
): Promise<OutputMessage | "no_way_back" | "erased"> => {
  const source = sourceOf(kept);
  if (source === undefined) return "no_way_back";
  const headers: Record<string, string | Buffer> = { [letterHeaders.letter]: root };
  for (const [name, value] of Object.entries(kept.headers))
    if (value !== undefined && name !== letterHeaders.letter) headers[name] = value;
  const held = await heldIn(wire, kept, source);
  const { eventsRaw } = topics;
  if (held !== undefined && isErased(held, hides)) return "erased";
  if (held === undefined || held.event === null || held.topic === eventsRaw)
    return { topic: held?.topic.name ?? source.topic, key: kept.key, value: kept.value, headers };
  // Id, times and content come from the first arrival; only the position is new.
  const { at, receivedAt } = held.record;
  const key = eventsRaw.keyOf(held.event);
  const position = { topic: eventsRaw.name, partition: -1, offset: -1 };
  const event = { id: eventsRaw.idOf(held.event), key, at, receivedAt, position, data: held.event };
  return { topic: eventsRaw.name, key, value: wire.encode(eventsRaw, event, null), headers };
};

/**
 * Formats a letter for people: the record as JSON where it can be decoded, else the bytes as hex.
 */
export const shownOf = async (
  wire: Wire,
  kept: OriginalMessage,
): Promise<{ readonly record: object | null; readonly hex: string | null; readonly bytes: number | null }> => {
  const source = sourceOf(kept);
  const held = source === undefined ? undefined : await heldIn(wire, kept, source);
  const bytes = kept.value?.length ?? null;
  if (held === undefined) return { record: null, hex: kept.value?.toString("hex") ?? null, bytes };
  const { id, key, at, receivedAt, data } = held.record;
  return {
    record: { id, key, at: new Date(at).toISOString(), received_at: new Date(receivedAt).toISOString(), data },
    hex: null,
    bytes,
  };
};
