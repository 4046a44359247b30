// The content of the log since the session began, by id. It is always read from the log, never from
// metrics, and each reading continues where the last one ended.
import { createHash } from "node:crypto";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import type { EventReceived } from "../../schemas/generated.ts";
import { letterHeaders } from "../../stream/dead-letters.ts";
import type { Recorded, Topic } from "../../stream/flow.ts";
import { UnknownSchema, UnreadableRecord } from "../../stream/wire.ts";
import { topics } from "../../topics.ts";
import type { Target } from "./target.ts";

/** One id of a topic; every record of it must have the same content. */
interface Content {
  readonly hash: string;
  records: number;
}
/** One event of `events.raw`, with the values of its first record. */
interface RawEvent {
  readonly id: string;
  readonly senderId: string | null;
  readonly clientId: number;
  readonly topicPartition: number;
  records: number;
}
interface DeadLetter {
  readonly at: string;
  readonly kind: string;
  readonly stage: string;
  readonly code: string;
  readonly topic: string;
  readonly eventId: string | null;
}
export interface LogPicture {
  readonly raw: ReadonlyMap<string, RawEvent>;
  readonly rawRecords: number;
  /** By topic and id, for the topics that decide money. */
  readonly recorded: ReadonlyMap<string, ReadonlyMap<string, Content>>;
  /** Ids with a second content. */
  readonly contradictions: readonly string[];
  /** By event id: every version in `events.attributed`. */
  readonly versions: ReadonlyMap<string, ReadonlySet<number>>;
  readonly letters: readonly DeadLetter[];
  /** Places of unreadable records, as `topic/partition@offset`. */
  readonly unreadable: readonly string[];
  /** Decisions in `claims`: the id of the record, and the event that it decides about. */
  readonly decisions: ReadonlyMap<string, string>;
}
export interface LogReader {
  readonly update: () => Promise<LogPicture>;
}

const moneyTopics = ["claims", "conversions", "ledger.entries"] as const;
const letterTopics = ["clicks.dlq", "pixel.dlq", "s2s.dlq"] as const;
const read = ["events.raw", "events.attributed", ...moneyTopics, ...letterTopics] as const;

const PATIENCE_MS = 30_000;

const hashOf = (data: unknown): string =>
  createHash("sha256")
    .update(JSON.stringify(data, (_, part) => (typeof part === "bigint" ? `${part}` : part)))
    .digest("base64url");

/** The picture while it is built, one record at a time. */
interface GrowingPicture extends LogPicture {
  readonly raw: Map<string, RawEvent>;
  rawRecords: number;
  readonly recorded: ReadonlyMap<string, Map<string, Content>>;
  readonly contradictions: string[];
  readonly versions: Map<string, Set<number>>;
  readonly letters: DeadLetter[];
  readonly unreadable: string[];
  readonly decisions: Map<string, string>;
}
const emptyPicture = (): GrowingPicture => ({
  raw: new Map(),
  rawRecords: 0,
  recorded: new Map(moneyTopics.map((topic) => [topic, new Map()])),
  contradictions: [],
  versions: new Map(),
  letters: [],
  unreadable: [],
  decisions: new Map(),
});

const noteRaw = (picture: GrowingPicture, topicPartition: number, { id, data }: Recorded<EventReceived>): void => {
  const { sender_event_id: senderId, client_id: clientId } = data;
  const known = picture.raw.get(id);
  picture.rawRecords += 1;
  if (known === undefined) picture.raw.set(id, { id, senderId, clientId, topicPartition, records: 1 });
  else known.records += 1;
};

const noteAttributed = ({ versions }: GrowingPicture, { data }: Recorded<any>): void => {
  const eventId = data.event.event_id as string;
  versions.set(eventId, (versions.get(eventId) ?? new Set()).add(data.version));
};

const noteMoney = (picture: GrowingPicture, topic: string, { id, data }: Recorded<any>): void => {
  const { recorded, decisions, contradictions } = picture;
  const known = recorded.get(topic)!.get(id);
  const hash = hashOf(data);
  if (topic === "claims" && data.decision !== null) decisions.set(id, data.attributed.event.event_id);
  if (known === undefined) recorded.get(topic)!.set(id, { hash, records: 1 });
  else {
    known.records += 1;
    // A sale that its sender repeats is received again, which makes another claim under the same
    // id; its conversion and its ledger entries stay the same.
    if (known.hash !== hash && topic !== "claims") contradictions.push(`${topic} ${id}`);
  }
};

const note = (picture: GrowingPicture, topic: string, partition: number, record: Recorded<any>): void => {
  if (topic === "events.raw") noteRaw(picture, partition, record);
  else if (topic === "events.attributed") noteAttributed(picture, record);
  else noteMoney(picture, topic, record);
};

interface Place {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
}
type Headers = Readonly<Record<string, unknown>>;
/** Null where the record cannot be read. */
type Decode = (topic: string, value: Buffer | null, at: Place) => Recorded<any> | null;

const byName = new Map(Object.values(topics).map((topic) => [topic.name, topic as Topic<any>]));

const decoderOf =
  ({ wire }: Target): Decode =>
  (topic, value, at) => {
    try {
      return wire.decode(byName.get(topic)!, value, at);
    } catch (error) {
      if (error instanceof UnreadableRecord || error instanceof UnknownSchema) return null;
      throw error;
    }
  };

const letterOf = (kind: string, headers: Headers, value: Buffer | null, decode: Decode): DeadLetter => {
  const header = (name: string): string => String(headers[name] ?? "");
  const topic = header(letterHeaders.topic);
  const partition = Number(header(letterHeaders.partition));
  const offset = Number(header(letterHeaders.offset));
  const event = byName.has(topic) ? decode(topic, value, { topic, partition, offset }) : null;
  return {
    at: `${topic}/${partition}@${offset}`,
    kind,
    stage: header(letterHeaders.stage),
    code: header(letterHeaders.code),
    topic,
    eventId: event?.id ?? null,
  };
};

/** Begins at the ends that the topics have now. */
export const openLogReader = async (target: Target): Promise<LogReader> => {
  const next = new Map<string, Map<number, number>>();
  await target.withAdmin(async (admin) => {
    for (const topic of read)
      next.set(topic, new Map((await admin.watermarks(topic)).map(({ partition, high }) => [partition, high])));
  });
  const picture = emptyPicture();
  const decode = decoderOf(target);
  // The position moves with each record, so a reading that a broken connection ended goes on where
  // it stopped.
  const readOn = (): Promise<void> =>
    target.kafka.replay({
      topics: [...read],
      from: next,
      onBatch: ({ topic, partition, messages }) => {
        for (const { offset, headers, value } of messages) {
          if (topic.endsWith(".dlq")) picture.letters.push(letterOf(topic.replace(".dlq", ""), headers, value, decode));
          else {
            const record = decode(topic, value, { topic, partition, offset });
            if (record === null) picture.unreadable.push(`${topic}/${partition}@${offset}`);
            else note(picture, topic, partition, record);
          }
          next.get(topic)!.set(partition, offset + 1);
        }
      },
    });
  return {
    update: async () => {
      await until("the log can be read", PATIENCE_MS, readOn);
      return { ...picture };
    },
  };
};
