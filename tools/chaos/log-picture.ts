// What lies in the log since the session began, by id: read on from where the last reading ended,
// never from metrics.
import { createHash } from "node:crypto";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import type { EventReceived } from "../../schemas/generated.ts";
import { letterHeaders } from "../../stream/dead-letters.ts";
import type { Recorded, Topic } from "../../stream/flow.ts";
import { UnknownSchema, UnreadableRecord } from "../../stream/wire.ts";
import { topics } from "../../topics.ts";
import type { Target } from "./target.ts";

/** One id of a topic: every record of it must have one content. */
interface Content {
  readonly hash: string;
  records: number;
}
/** One event of `events.raw`, as its first record says. */
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
  /** By topic and id, of the topics that decide money. */
  readonly recorded: ReadonlyMap<string, ReadonlyMap<string, Content>>;
  /** Ids with a second content. */
  readonly contradictions: readonly string[];
  /** By event id: every version that `events.attributed` holds. */
  readonly versions: ReadonlyMap<string, ReadonlySet<number>>;
  readonly letters: readonly DeadLetter[];
  /** Where records lie that cannot be read, as `topic/partition@offset`. */
  readonly unreadable: readonly string[];
  /**
   * Records of the topics of money by id: those of `claims` that are decisions, and of which event.
   */
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

/** Begins at the ends that the topics have now. */
export const openLogReader = async (target: Target): Promise<LogReader> => {
  const next = new Map<string, Map<number, number>>();
  await target.withAdmin(async (admin) => {
    for (const topic of read)
      next.set(topic, new Map((await admin.watermarks(topic)).map(({ partition, high }) => [partition, high])));
  });
  const byName = new Map(Object.values(topics).map((topic) => [topic.name, topic as Topic<any>]));
  const raw = new Map<string, RawEvent>();
  const recorded = new Map<string, Map<string, Content>>(moneyTopics.map((topic) => [topic, new Map()]));
  const contradictions: string[] = [];
  const versions = new Map<string, Set<number>>();
  const letters: DeadLetter[] = [];
  const unreadable: string[] = [];
  const decisions = new Map<string, string>();
  let rawRecords = 0;

  const note = (topic: string, partition: number, { id, data }: Recorded<any>): void => {
    if (topic === "events.raw") {
      const { sender_event_id: senderId, client_id: clientId } = data as EventReceived;
      const known = raw.get(id);
      rawRecords += 1;
      if (known === undefined) raw.set(id, { id, senderId, clientId, topicPartition: partition, records: 1 });
      else known.records += 1;
      return;
    }
    if (topic === "events.attributed") {
      const eventId = data.event.event_id as string;
      versions.set(eventId, (versions.get(eventId) ?? new Set()).add(data.version));
      return;
    }
    const known = recorded.get(topic)!.get(id);
    const hash = hashOf(data);
    if (topic === "claims" && data.decision !== null) decisions.set(id, data.attributed.event.event_id);
    if (known === undefined) recorded.get(topic)!.set(id, { hash, records: 1 });
    else {
      known.records += 1;
      // A sale that a sender sends again is another reception of it, and so another claim under its
      // id; what is decided of it is not.
      if (known.hash !== hash && topic !== "claims") contradictions.push(`${topic} ${id}`);
    }
  };
  const decodes = (
    topic: string,
    value: Buffer | null,
    at: { topic: string; partition: number; offset: number },
  ): Recorded<any> | null => {
    try {
      return target.wire.decode(byName.get(topic)!, value, at);
    } catch (error) {
      if (error instanceof UnreadableRecord || error instanceof UnknownSchema) return null;
      throw error;
    }
  };
  const noteLetter = (kind: string, headers: Readonly<Record<string, unknown>>, value: Buffer | null): void => {
    const said = (name: string): string => String(headers[name] ?? "");
    const topic = said(letterHeaders.topic);
    const at = { topic, partition: Number(said(letterHeaders.partition)), offset: Number(said(letterHeaders.offset)) };
    const event = byName.has(topic) ? decodes(topic, value, at) : null;
    letters.push({
      at: `${topic}/${at.partition}@${at.offset}`,
      kind,
      stage: said(letterHeaders.stage),
      code: said(letterHeaders.code),
      topic,
      eventId: event?.id ?? null,
    });
  };

  return {
    update: async () => {
      // What was read is noted record by record, so a reading that a broken connection ends goes on
      // where it stopped.
      const readOn = (): Promise<void> =>
        target.kafka.replay({
          topics: [...read],
          from: next,
          onBatch: ({ topic, partition, messages }) => {
            for (const { offset, headers, value } of messages) {
              if (topic.endsWith(".dlq")) noteLetter(topic.replace(".dlq", ""), headers, value);
              else {
                const event = decodes(topic, value, { topic, partition, offset });
                if (event === null) unreadable.push(`${topic}/${partition}@${offset}`);
                else note(topic, partition, event);
              }
              next.get(topic)!.set(partition, offset + 1);
            }
          },
        });
      await until("the log can be read", PATIENCE_MS, readOn);
      return { raw, rawRecords, recorded, contradictions, versions, letters, unreadable, decisions };
    },
  };
};
