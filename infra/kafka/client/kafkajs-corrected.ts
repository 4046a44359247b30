// Kafkajs 2.2.4, which is pinned and no longer released: its faults are repaired (repairs.ts), its
// slow and fragile `setOffsets` is replaced, and slow parts are rewritten.
import { createRequire } from "node:module";
import type { Socket } from "node:net";
import type * as Kafkajs from "kafkajs";
import { FetchedRecord, readRecordBatch } from "./fetched-records.ts";
import { type ProduceRequest, writeProduceRequest } from "./record-batch.ts";
import { repair } from "./repairs.ts";

const inside = createRequire(import.meta.url);
let corrected: typeof Kafkajs | undefined;

/** Returns the corrected client. */
export const correctedClient = (): typeof Kafkajs => {
  if (corrected !== undefined) return corrected;
  // This must run before the client is loaded, because its modules keep references to these
  // functions.
  replaceSlowParts();
  corrected = inside("kafkajs") as typeof Kafkajs;
  repair(inside);
  return corrected;
};

/** Throws when the module is not there. */
const replace = <T>(module: string, by: (original: T) => T): void => {
  const place = inside.resolve(`kafkajs/src/${module}.js`);
  const original = inside(place) as T;
  inside.cache[place]!.exports = by(original);
};

interface EncodedRequest {
  readonly buffer: Buffer;
}
interface Request {
  readonly correlationId: number;
  readonly clientId: string;
  readonly request: {
    readonly apiKey: number;
    readonly apiVersion: number;
    readonly encode: () => Promise<EncodedRequest>;
  };
}
interface Grouping {
  readonly topic: string;
  readonly partitionMetadata: readonly unknown[];
  readonly messages: readonly unknown[];
  readonly partitioner: (given: { topic: string; partitionMetadata: readonly unknown[]; message: unknown }) => number;
}
interface Cluster {
  readonly findGroupCoordinator: (group: {
    groupId: string;
  }) => Promise<{ readonly offsetCommit: (request: object) => Promise<unknown> }>;
}
interface FetchedPartition {
  readonly messages: readonly { readonly offset: number | string }[];
}
interface Batch {
  messagesWithinOffset: FetchedPartition["messages"];
  rawMessages: FetchedPartition["messages"];
  messages: FetchedPartition["messages"];
  firstOffset(): number | string | null;
  lastOffset(): number | string;
}
interface Decoder {
  readonly buffer: Buffer;
  readonly offset: number;
  readonly forward: (bytes: number) => void;
}

const replaceSlowParts = (): void => {
  sendAtOnce();
  writeProduceAtOnce();
  frameRequestsInOneCopy();
  groupWithoutCopies();
  setOffsetsWithoutMember();
  readFetchesAtOnce();
  keepFetchesAsTheyAre();
};

/**
 * kafkajs leaves Nagle's algorithm on: the kernel holds the end of a request back until its
 * beginning is acknowledged, which a broker's kernel may put off for 40 ms.
 */
const sendAtOnce = (): void => {
  replace<() => (given: object) => Socket>("network/socketFactory", (original) => () => {
    const open = original();
    return (given) => open(given).setNoDelay(true);
  });
};

/** In kafkajs, encoding takes two thirds of the cost of a message for its producer. */
const writeProduceAtOnce = (): void => {
  replace<(given: ProduceRequest & { transactionalId?: string | null; compression?: number }) => object>(
    "protocol/requests/produce/v3/request",
    (original) => (given) => ({
      ...original(given),
      ...(given.transactionalId || given.compression
        ? {}
        : { encode: async () => ({ buffer: writeProduceRequest(given, Date.now()) }) }),
    }),
  );
};

/** kafkajs copies each request twice, into buffers that it fills with zeros first. */
const frameRequestsInOneCopy = (): void => {
  replace<(request: Request) => Promise<EncodedRequest>>(
    "protocol/request",
    () =>
      async ({ correlationId, clientId, request }) => {
        const { buffer: body } = await request.encode();
        const name = Buffer.from(clientId);
        const head = 14 + name.length;
        const frame = Buffer.allocUnsafe(head + body.length);
        frame.writeInt32BE(frame.length - 4, 0);
        frame.writeInt16BE(request.apiKey, 4);
        frame.writeInt16BE(request.apiVersion, 6);
        frame.writeInt32BE(correlationId, 8);
        frame.writeInt16BE(name.length, 12);
        frame.set(name, 14);
        frame.set(body, head);
        return { buffer: frame };
      },
  );
};

/** kafkajs copies the group of a partition for every message of it. */
const groupWithoutCopies = (): void => {
  replace<(given: Grouping) => object>(
    "producer/groupMessagesPerPartition",
    () =>
      ({ topic, partitionMetadata, messages, partitioner }) => {
        const groups: Record<number, unknown[]> = {};
        if (partitionMetadata.length === 0) return groups;
        for (const message of messages) {
          const partition = partitioner({ topic, partitionMetadata, message });
          const group = groups[partition];
          if (group === undefined) groups[partition] = [message];
          else group.push(message);
        }
        return groups;
      },
  );
};

/**
 * kafkajs joins the group with a temporary member to commit in its name. That skips partitions that
 * the member was not assigned, takes 5 s, and holds the group for a session when its process dies.
 * Kafka's own tools send a commit without a member instead: it is all or nothing, and only accepted
 * while the group is Empty.
 */
const setOffsetsWithoutMember = (): void => {
  replace<(given: { readonly cluster: Cluster }) => object>("admin/index", (original) => (given) => ({
    ...original(given),
    setOffsets: async ({
      groupId,
      topic,
      partitions,
    }: {
      groupId: string;
      topic: string;
      partitions: readonly object[];
    }) => {
      const coordinator = await given.cluster.findGroupCoordinator({ groupId });
      await coordinator.offsetCommit({ groupId, groupGenerationId: -1, memberId: "", topics: [{ topic, partitions }] });
    },
  }));
};

/** In kafkajs, decoding takes half of the cost of a message for its consumer. */
const readFetchesAtOnce = (): void => {
  replace<(decoder: Decoder) => Promise<object>>("protocol/recordBatch/v0/decoder", (original) => async (decoder) => {
    const read = readRecordBatch(decoder.buffer, decoder.offset);
    if (read === null) return original(decoder);
    decoder.forward(read.end - decoder.offset);
    return read.batch;
  });
};

/**
 * kafkajs makes two 64-bit numbers of each message's offset, and copies the list of messages three
 * times.
 */
const keepFetchesAsTheyAre = (): void => {
  replace<new (topic: string, asked: string, fetched: FetchedPartition) => Batch>(
    "consumer/batch",
    (Original) =>
      class extends Original {
        constructor(topic: string, asked: string, fetched: FetchedPartition) {
          const { messages } = fetched;
          const isRead = messages.every((message) => message instanceof FetchedRecord);
          super(topic, asked, isRead ? { ...fetched, messages: [] } : fetched);
          if (!isRead) return;
          // A batch of the log may begin before the requested offset.
          const from = messages.findIndex(({ offset }) => (offset as number) >= Number(asked));
          this.rawMessages = messages;
          this.messages = from === 0 ? messages : from < 0 ? [] : messages.slice(from);
          this.messagesWithinOffset = this.messages;
        }
        override firstOffset(): string | null {
          const offset = super.firstOffset();
          return offset === null ? null : String(offset);
        }
        override lastOffset(): string {
          return String(super.lastOffset());
        }
      },
  );
};
