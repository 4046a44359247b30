// Reads a record of a dead-letter topic: what failed, whose event it holds, and where it goes when
// it is tried again.
import { createHash } from "node:crypto";
import { uuidOf } from "../../../domain/ids.ts";
import type { Hides } from "../../../domain/personal/suppression.ts";
import type { Claim, EventAttributed, EventReceived } from "../../../schemas/generated.ts";
import { letterHeaders } from "../../../stream/dead-letters.ts";
import type { AnyTopic, Position, Recorded, UnixMs } from "../../../stream/flow.ts";
import type { InputMessage, OutputMessage } from "../../../stream/messages.ts";
import type { Wire } from "../../../stream/wire.ts";
import { Unreadable } from "../../../stream/wire.ts";
import { topics } from "../../../topics.ts";
import { pipeline } from "../../../topology.ts";
import { type Failure, letterKindOf } from "./letter.ts";

const readers = pipeline.nodes.filter((node) => node.is !== "edge");
/** Every topic that a stage or sink reads, hence every one that a letter can come from. */
const sources: ReadonlyMap<string, AnyTopic> = new Map(readers.map(({ from }) => [from.name, from]));
/** What each of them reads. */
const readBy: ReadonlyMap<string, AnyTopic> = new Map(readers.map(({ name, from }) => [name, from]));
/** What a wire must have been opened for to read letters. */
export const letterSources: readonly AnyTopic[] = [...sources.values()];

type Kept = Pick<InputMessage, "key" | "value" | "headers">;

/** Without U+0000, which no text of the index may hold. */
const textOf = (headers: InputMessage["headers"], name: string): string | undefined =>
  headers[name]?.toString().replaceAll("\0", "");
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const INT = 2 ** 31;

/** Where the refused record lay; undefined when no reader of the pipeline wrote this. */
const sourceOf = ({ headers }: Kept): Position | undefined => {
  const topic = textOf(headers, letterHeaders.topic);
  const partition = Number(textOf(headers, letterHeaders.partition) ?? Number.NaN);
  const offset = Number(textOf(headers, letterHeaders.offset) ?? Number.NaN);
  const isPlace =
    Number.isInteger(partition) && partition >= 0 && partition < INT && Number.isSafeInteger(offset) && offset >= 0;
  return topic !== undefined && sources.has(topic) && isPlace ? { topic, partition, offset } : undefined;
};
/**
 * A stage that is fused with others was given what the topic between them would hold, and its
 * letter says where the log was read.
 */
const topicOf = ({ headers }: Kept, source: Position): AnyTopic =>
  readBy.get(textOf(headers, letterHeaders.stage) ?? "") ?? sources.get(source.topic)!;

/** What a refused record holds, when it can be read. */
interface Held {
  readonly topic: AnyTopic;
  readonly record: Recorded<any>;
  /**
   * The event that goes through the pipeline again; null: the record itself goes back to where it
   * came from.
   */
  readonly event: EventReceived | null;
}

/**
 * An event goes through everything again, for mending may have been anywhere on its way. A later
 * version of a row was made by a decision or a second copy, and the event alone would not bring it
 * back; a decision, a conversion and a ledger entry are no events: these go back as they are, and
 * are answered with the recorded outcome or written under their own id.
 */
const eventIn = (name: string, data: any): EventReceived | null => {
  if (name === topics.eventsRaw.name) return data;
  if (name === topics.eventsEnriched.name || name === topics.eventsScored.name) return data.event;
  if (name === topics.eventsAttributed.name) return (data as EventAttributed).version === 1 ? data.event : null;
  if (name === topics.claims.name) return (data as Claim).kind === "decision" ? null : (data as Claim).attributed.event;
  return null;
};

/** Undefined: unreadable. Rejects while a schema that is not known yet cannot be asked for. */
const heldIn = async (wire: Wire, kept: Kept, source: Position): Promise<Held | undefined> => {
  const topic = topicOf(kept, source);
  const decode = (): Recorded<any> | undefined => {
    try {
      return wire.decode(topic, kept.value, source);
    } catch (error) {
      if (error instanceof Unreadable) return undefined;
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

type Bytes = Pick<Kept, "key" | "value">;
const digestOf = ({ key, value }: Bytes): string =>
  createHash("sha256")
    .update(key ?? "")
    .update("\0")
    .update(value ?? "")
    .update(value === null ? "null" : "")
    .digest("hex");

/** The same whenever a reader meets the same bytes in the same place. */
export const failureIdOf = (stage: string, { topic, partition, offset }: Position, bytes: Bytes): string =>
  uuidOf("failure", stage, topic, partition, offset, digestOf(bytes));

/**
 * The root that a record which was sent again carries, else that of its own place and bytes: places
 * are given again when a log is lost, bytes are not.
 */
const rootOf = (kept: Kept, source: Position): string => {
  const carried = textOf(kept.headers, letterHeaders.letter);
  return carried !== undefined && UUID.test(carried)
    ? carried
    : uuidOf("refused", source.topic, source.partition, source.offset, digestOf(kept));
};

const clientOf = (data: any): number | null =>
  data.client_id ?? data.event?.client_id ?? data.attributed?.event.client_id ?? null;
/** What an edge refused was never a record: its letter says whose it is. */
const clientNamed = ({ headers }: Kept): number | null => {
  const id = Number(textOf(headers, letterHeaders.client) ?? Number.NaN);
  return Number.isInteger(id) && id > 0 && id < INT ? id : null;
};
const eventIdOf = ({ record, event }: Held): string =>
  String(
    event?.event_id ??
      record.data.event?.event_id ??
      record.data.attributed?.event.event_id ??
      record.data.event_id ??
      record.id,
  ).replaceAll("\0", "");

/** Of a record that nothing of ours wrote: it is kept, counted, and goes nowhere by itself. */
const FOREIGN = "foreign_record";

/**
 * `appendedAt` is when the log took the record. Every record of a dead-letter topic is a failure of
 * some letter: none is passed over.
 */
export const failureOf = async (wire: Wire, kept: Kept, at: Position, appendedAt: UnixMs): Promise<Failure> => {
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
    subject:
      held === undefined
        ? null
        : held.event === null
          ? uuidOf(held.topic.name, digestOf(kept))
          : uuidOf("event", held.event.event_id),
    stage,
    code: text(letterHeaders.code, FOREIGN),
    message: text(letterHeaders.message, "the record does not say why it lies here"),
    source: from,
    kept: at,
    event_id: held === undefined ? null : eventIdOf(held),
    client_id: held === undefined ? clientNamed(kept) : clientOf(held.record.data),
    sender: textOf(kept.headers, letterHeaders.sender) ?? null,
    first_failed_at: Number.isFinite(first) ? first : appendedAt,
    failed_at: appendedAt,
  };
};

/**
 * A claim is asked about by the event that it is about; a decision on a whole order holds a blank
 * one with the order's id.
 */
const isErased = ({ topic, record, event }: Held, hides: Hides | undefined): boolean => {
  if (hides === undefined) return false;
  const about = event ?? (topic.name === topics.claims.name ? (record.data as Claim).attributed.event : null);
  return about === null ? hides(record, topic.name) : hides({ ...record, data: about }, topics.eventsRaw.name);
};

/**
 * The message that takes a letter's record into the pipeline again; `no_way_back`: the record is
 * not of the pipeline; `erased`: its subject must not come back (law R4).
 */
export const reentryOf = async (
  wire: Wire,
  kept: Kept,
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
  // The same id, times and content as when an edge took it; where it enters is its new place.
  const { at, receivedAt } = held.record;
  const key = eventsRaw.keyOf(held.event);
  const position = { topic: eventsRaw.name, partition: -1, offset: -1 };
  const event = { id: eventsRaw.idOf(held.event), key, at, receivedAt, position, data: held.event };
  return { topic: eventsRaw.name, key, value: wire.encode(eventsRaw, event, null), headers };
};

/**
 * A letter as a person reads it: the record as JSON where it can be read, else the bytes as hex.
 */
export const shownOf = async (
  wire: Wire,
  kept: Kept,
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
