// Probes the log: produces a record to the topic `probe`, and fetches it again with a consumer.
import { randomUUID } from "node:crypto";
import { type Kafka, lastingAdmin } from "../../../infra/kafka/kafka.ts";

/** Declared in topics.yaml; it has no schema, so the probe needs no registry. */
const topic = "probe";
/**
 * Both limits together are shorter than a probe's 10 s, so that the log's own error is reported.
 */
const SEND_MS = 4_000;
const FETCH_MS = 5_000;
/**
 * How many of the newest records are searched. Edges produce to the same topic too: one record a
 * health report, at most every two seconds.
 */
const LOOKED_AT = 100;

/**
 * `look` rejects while the log does not accept a record or does not return it. It produces first,
 * so that a hanging broker is found before anything else waits for it. Leaves no group behind.
 */
export const openLogProbe = (kafka: Pick<Kafka, "admin" | "producer" | "replay">, instance: string) => {
  const producer = kafka.producer({ sendDeadlineMs: SEND_MS });
  const admin = lastingAdmin(kafka, SEND_MS);
  const look = async (): Promise<void> => {
    const value = Buffer.from(randomUUID());
    await producer.send([{ topic, key: instance, value }]);
    const marks = await admin.ask((one) => one.watermarks(topic));
    const from = new Map(marks.map(({ partition, low, high }) => [partition, Math.max(low, high - LOOKED_AT)]));
    let isFound = false;
    await kafka.replay({
      topics: [topic],
      from: new Map([[topic, from]]),
      signal: AbortSignal.timeout(FETCH_MS),
      onBatch: ({ messages }) => {
        isFound ||= messages.some((message) => message.value?.equals(value) === true);
      },
    });
    if (!isFound) throw new Error("the log took a record and did not give it back");
  };
  const close = async (): Promise<void> => void (await Promise.all([producer.close(), admin.close()]));
  return { look, close };
};
