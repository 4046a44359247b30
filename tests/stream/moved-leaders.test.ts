// A broker that no longer leads, or does not answer, makes a reader look for the new leaders while
// it stays a member of its group.
import { once } from "node:events";
import { createRequire } from "node:module";
import { type AddressInfo, createServer } from "node:net";
import { beforeEach, describe, expect, test } from "vitest";
import { correctedClient } from "../../infra/kafka/client/kafkajs-corrected.ts";

const client = correctedClient();
const inside = createRequire(import.meta.url);
const ConsumerGroup = inside("kafkajs/src/consumer/consumerGroup.js");
const errors = inside("kafkajs/src/errors.js");
const { createErrorFromCode } = inside("kafkajs/src/protocol/error.js");

const done: string[] = [];
beforeEach(() => void done.splice(0));

const brokerAt = (host: string, port: number) => ({
  connectionPool: { host, port, pool: [{ socket: { destroy: () => done.push(`broke ${host}:${port}`) } }, {}] },
});
/** Recovers from an error; returns the actions. */
const doneAfter = async (error: Error): Promise<readonly string[]> => {
  const cluster = {
    brokerPool: { brokers: { 1: brokerAt("a.example", 9092), 2: brokerAt("b.example", 9093) } },
    removeBroker: ({ host, port }: { host: string; port: number }) => void done.push(`removed ${host}:${port}`),
    refreshMetadata: async () => void done.push("looked who leads"),
  };
  const logger = { debug: () => undefined };
  const group = { cluster, logger, joinAndSync: async () => void done.push("joined again") };
  await ConsumerGroup.prototype.recoverFromFetch.call(group, error);
  return done;
};

describe("a reader", () => {
  test.each([
    ["has moved", 6],
    ["is being chosen", 5],
    ["is of a later time", 74],
  ])("of a partition whose leader %s looks for it without joining again", async (_, code) =>
    expect(await doneAfter(new errors.KafkaJSProtocolError(createErrorFromCode(code)))).toEqual(["looked who leads"]),
  );

  test("leaves a broker that does not answer, and that one alone", async () =>
    expect(await doneAfter(new errors.KafkaJSRequestTimeoutError("Fetch", { broker: "b.example:9093" }))).toEqual([
      "removed b.example:9093",
      "broke b.example:9093",
      "looked who leads",
    ]));

  test("that has left it already only looks again", async () =>
    expect(await doneAfter(new errors.KafkaJSRequestTimeoutError("Fetch", { broker: "c.example:9092" }))).toEqual([
      "looked who leads",
    ]));

  test("of a topic that is gone joins again, as before", async () =>
    expect(await doneAfter(new errors.KafkaJSProtocolError(createErrorFromCode(3)))).toEqual([
      "looked who leads",
      "joined again",
    ]));

  test("hands on what it cannot mend", async () => {
    const refused = new errors.KafkaJSProtocolError(createErrorFromCode(29));
    await expect(doneAfter(refused)).rejects.toBe(refused);
  });
});

test("a broker that takes a connection and says nothing is one that cannot be connected to", async () => {
  const server = createServer(() => undefined).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const admin = new client.Kafka({
    brokers: [`127.0.0.1:${port}`],
    retry: { retries: 0 },
    requestTimeout: 200,
    logLevel: client.logLevel.NOTHING,
  }).admin();
  await expect(admin.connect()).rejects.toMatchObject({ cause: { name: "KafkaJSConnectionError" } });
  await admin.disconnect();
  server.close();
});
