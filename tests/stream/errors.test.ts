// The reaction to each error of each client; an error that is not listed stops the worker.
import { types } from "avsc";
import fc from "fast-check";
import kafkajs from "kafkajs";
import { expect, test } from "vitest";
import { LogGap, LogUnavailable, MembershipLost, Overloaded } from "../../infra/kafka/kafka.ts";
import { classify, isSettling, orUnavailable, Unavailable } from "../../infra/runtime/errors.ts";
import { UnknownSchema, UnreadableRecord } from "../../stream/wire.ts";

const like = (name: string, fields: object = {}, message = "something") =>
  Object.assign(new Error(message), { name }, fields);
const postgres = (code: string) => like("error", { code, severity: "ERROR" });
const clickhouse = (code: string, type: string) => like("ClickHouseError", { code, type });
const redis = (message: string) => like("ReplyError", {}, message);
const kafka = (type: string, retriable: boolean) => like("KafkaJSProtocolError", { type, retriable, code: 1 });
const caught = (step: () => unknown): unknown => {
  try {
    step();
  } catch (error) {
    return error;
  }
};

test.each([
  ["a refused connection", like("Error", { code: "ECONNREFUSED" })],
  ["a full disk", like("Error", { code: "ENOSPC" })],
  ["fetch to a dead host", new TypeError("fetch failed", { cause: like("Error", { code: "ECONNRESET" }) })],
  [
    "all addresses of a host refused",
    new AggregateError([like("Error", { code: "ECONNREFUSED" }), like("Error", { code: "ETIMEDOUT" })]),
  ],
  ["a closed connection of Kafka", new kafkajs.KafkaJSConnectionError("closed")],
  [
    "a timeout of Kafka inside a retry wrapper",
    like("KafkaJSNumberOfRetriesExceeded", { cause: like("KafkaJSRequestTimeoutError") }),
  ],
  ["a Kafka partition without leader", kafka("LEADER_NOT_AVAILABLE", true)],
  ["a Postgres that shuts down", postgres("57P01")],
  ["a Postgres deadlock", postgres("40P01")],
  ["a Postgres statement timeout", postgres("57014")],
  ["a pg connection lost", new Error("Connection terminated unexpectedly")],
  ["a ClickHouse query out of time", clickhouse("159", "TIMEOUT_EXCEEDED")],
  ["a ClickHouse with too many parts", clickhouse("252", "TOO_MANY_PARTS")],
  ["a Redis that loads", redis("LOADING Redis is loading the dataset in memory")],
  ["a Redis client out of tries", like("MaxRetriesPerRequestError")],
  ["our own LogUnavailable", new LogUnavailable()],
  ["our own Overloaded", new Overloaded()],
  ["a schema not learnt yet", new UnknownSchema(7)],
])("%s is transient", (_, error) => expect(classify(error)).toBe("transient"));

test.each([
  ["unreadable bytes", new UnreadableRecord("unreadable_body", "cut")],
  ["a Postgres constraint", postgres("23514")],
  ["a Postgres number out of range", postgres("22003")],
  ["a ClickHouse text that is no number", clickhouse("72", "CANNOT_PARSE_NUMBER")],
  ["a ClickHouse value of another type", clickhouse("53", "TYPE_MISMATCH")],
  ["a Kafka record that is too large", kafka("MESSAGE_TOO_LARGE", false)],
])("%s is about the data", (_, error) => expect(classify(error)).toBe("data"));

test.each([
  ["a bug", caught(() => (null as any).x)],
  ["a plain error", new Error("?")],
  ["an Avro record that does not fit its schema", caught(() => new types.IntType().toBuffer("x" as never))],
  ["a missing table in Postgres", postgres("42P01")],
  ["a wrong password of Postgres", postgres("28P01")],
  ["an unknown table in ClickHouse", clickhouse("60", "UNKNOWN_TABLE")],
  ["a Redis without permission", redis("NOPERM this user has no permissions")],
  ["a Kafka without permission", kafka("TOPIC_AUTHORIZATION_FAILED", false)],
  ["a gap in the log", new LogGap("t", 0, "gone")],
  ["a lost membership, which the step cannot heal", new MembershipLost(new Error())],
  ["nothing", undefined],
  ["a text", "ECONNREFUSED"],
])("%s is fatal", (_, error) => expect(classify(error)).toBe("fatal"));

test("whatever is thrown has a verdict", () =>
  fc.assert(fc.property(fc.anything(), (thrown) => ["transient", "data", "fatal"].includes(classify(thrown)))));

test("a broker that settles says so itself or inside of the client's wrappers, and no other error does", () => {
  const inside = Object.assign(new Error("gave up"), {
    name: "KafkaJSNumberOfRetriesExceeded",
    cause: like("KafkaJSProtocolError", { type: "NOT_COORDINATOR_FOR_GROUP" }),
  });
  expect(isSettling(like("KafkaJSProtocolError", { type: "GROUP_LOAD_IN_PROGRESS" }))).toBe(true);
  expect(isSettling(inside)).toBe(true);
  for (const other of [
    like("KafkaJSProtocolError", { type: "UNKNOWN_TOPIC_OR_PARTITION" }),
    new Error("x"),
    null,
    undefined,
    "x",
    1,
  ])
    expect(isSettling(other)).toBe(false);
});

test("a store that is away makes its reader unavailable, and every other error is thrown on", () => {
  const thrownFor = (error: unknown, isAway?: () => boolean) => caught(() => orUnavailable("later", 2, isAway)(error));
  expect(thrownFor(postgres("57P01"))).toMatchObject({ name: "Unavailable", message: "later", retryAfterSec: 2 });
  for (const error of [postgres("42P01"), new Unavailable("sooner", 1), new Error("a fault")])
    expect(thrownFor(error)).toBe(error);
  expect(thrownFor(new Error("not in time"), () => true)).toBeInstanceOf(Unavailable);
});
