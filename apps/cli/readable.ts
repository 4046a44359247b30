// Formats a record of the log for people: Avro as JSON, amounts as decimals, and unreadable bytes
// in hex.
import { toDecimal } from "../../domain/money.ts";
import { letterHeaders } from "../../stream/dead-letters.ts";
import type { AnyTopic, Recorded, Topic } from "../../stream/flow.ts";
import type { PlacedMessage } from "../../stream/messages.ts";
import { UnknownSchema, type Wire } from "../../stream/wire.ts";
import { topics } from "../../topics.ts";

const byName = new Map<string, AnyTopic>(Object.values(topics).map((topic) => [topic.name, topic]));
/** The most unreadable bytes that are shown; they fit on a screen. */
const SHOWN_BYTES = 200;

export interface Readable {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly appended_at: string;
  readonly key: string | null;
  readonly event?: { readonly id: string; readonly at: string; readonly received_at: string; readonly data: unknown };
  /** Replaces `event` if the record cannot be read. */
  readonly unreadable?: { readonly why: string; readonly bytes: number; readonly hex: string };
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * Formats minor units, which are the only 64-bit numbers in a record, as an amount with the
 * currency beside or around them: 12345n of MXN is "123.45 MXN".
 */
export const withAmounts = (value: unknown, around: string | null = null): unknown => {
  if (Array.isArray(value)) return value.map((one) => withAmounts(one, around));
  if (typeof value === "bigint") return around === null ? value.toString() : amountOf(value, around);
  if (typeof value !== "object" || value === null) return value;
  const { currency } = value as { currency?: unknown };
  const own = typeof currency === "string" ? currency : around;
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, withAmounts(part, own)]));
};
const amountOf = (minor: bigint, currency: string): string => {
  try {
    return `${toDecimal(minor, currency)} ${currency}`;
  } catch {
    return `${minor} minor units of ${currency}`;
  }
};

/** Never throws, whatever a record holds. A dead letter is shown with the input of its stage. */
export const readable = async (wire: Wire, record: PlacedMessage): Promise<Readable> => {
  const { topic, partition, offset, key, value } = record;
  const headers = Object.fromEntries(Object.entries(record.headers).map(([name, text]) => [name, String(text)]));
  const shown = {
    topic,
    partition,
    offset,
    appended_at: new Date(record.appendedAt).toISOString(),
    key: key === null ? null : key.toString(),
    ...(Object.keys(headers).length > 0 && { headers }),
  };
  const type = byName.get(topic) ?? byName.get(headers[letterHeaders.topic] ?? "");
  const asBytes = (why: string): Readable => ({
    ...shown,
    unreadable: { why, bytes: value?.length ?? 0, hex: value?.subarray(0, SHOWN_BYTES).toString("hex") ?? "" },
  });
  if (type === undefined) return asBytes("this topic has no record type");
  try {
    const event = await decoded(wire, type, record);
    return {
      ...shown,
      event: {
        id: event.id,
        at: new Date(event.at).toISOString(),
        received_at: new Date(event.receivedAt).toISOString(),
        data: event.data,
      },
    };
  } catch (error) {
    return asBytes((error as Error).message);
  }
};

/** Asks the registry for unknown schemas. Throws UnreadableRecord for bytes that cannot be read. */
export const decoded = async <T>(
  wire: Wire,
  type: Topic<T>,
  { topic, partition, offset, value }: Pick<PlacedMessage, "topic" | "partition" | "offset" | "value">,
): Promise<Recorded<T>> => {
  const at = { topic, partition, offset };
  try {
    return wire.decode(type, value, at);
  } catch (error) {
    if (!(error instanceof UnknownSchema)) throw error;
    await wire.learn(error.schemaId);
    return wire.decode(type, value, at);
  }
};

/** Returns the client of a record of any type; null for a record without a client. */
export const clientIdOf = ({ event, key }: Readable): number | null => {
  const inside = (value: unknown): number | null => {
    if (typeof value !== "object" || value === null) return null;
    const {
      client_id: own,
      event: nested,
      attributed,
    } = value as { client_id?: unknown; event?: unknown; attributed?: unknown };
    return typeof own === "number" ? own : (inside(nested) ?? inside(attributed));
  };
  const named = /^(\d+):/.exec(key ?? "")?.[1];
  return inside(event?.data) ?? (named === undefined ? null : Number(named));
};
