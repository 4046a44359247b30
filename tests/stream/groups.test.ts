// The command line of a worker, and the errors for wrong ones.
import { expect, test } from "vitest";
import { readConfig } from "../../apps/worker/config.ts";
import { groupsBeside, groupsOf } from "../../modules/log/groups/hosting.ts";
import { sink } from "../../stream/flow.ts";
import { topology } from "../../stream/topology.ts";
import { toy, toys } from "../support/toy.ts";

const into = { name: "t", store: "postgres" as const, key: [], tenantOf: () => 1, write: async () => {} };
const stored = topology(
  "stored",
  toy.deadLetters,
  ...toy.nodes,
  sink({ name: "sums", from: toys.sums, rows: () => [], into }),
  sink({ name: "more-sums", from: toys.sums, rows: () => [], into }),
  sink({ name: "paid", from: toys.paid, rows: () => [], into }),
);
const problemOf = (...args: string[]): string => {
  try {
    return groupsOf(stored, args)
      .map(({ is, name, reads }) => `${is} ${name} reads ${reads.name}`)
      .join("\n");
  } catch (error) {
    return (error as Error).message;
  }
};

test("a comma fuses and a space adds one more group, named after its first member", () =>
  expect(problemOf("check,walk,point", "settle", "sums,more-sums", "paid")).toBe(
    [
      "chain tributary.check reads toy.raw",
      "chain tributary.settle reads toy.claims",
      "sinks tributary.sums reads toy.sums",
      "sinks tributary.paid reads toy.paid",
    ].join("\n"),
  ));

test("sinks of two topics are not fused", () =>
  expect(problemOf("sums,paid")).toBe("paid reads toy.paid, the sinks before it toy.sums: put a space between"));

test("a stage and a sink are not fused", () => expect(problemOf("pay,paid")).toContain("paid is a sink, not a stage"));

test("a group that stands there twice is refused", () =>
  expect(problemOf("settle", "settle")).toBe("tributary.settle stands there twice"));

test("what no group names is hosted too: a stage alone, the sinks of a topic together, a copy alone", () => {
  const copied = topology(
    "copied",
    toy.deadLetters,
    sink({ name: "files", from: toys.paid, into: { name: "files", store: "objects" } }),
    ...stored.nodes,
  );
  const left = ["check", "walk", "point", "settle", "pay", "sums,more-sums", "paid", "files"];
  expect(groupsBeside(copied, [])).toEqual(left);
  expect(groupsBeside(copied, ["check,walk,point", "sums"])).toEqual(["settle", "pay", "more-sums", "paid", "files"]);
  expect(groupsOf(copied, groupsBeside(copied, [])).map(({ name }) => name)).toEqual(
    left.map((names) => `tributary.${names.split(",")[0]}`),
  );
});

test("without groups the usage names all that can be hosted", () =>
  expect(problemOf()).toContain("known: check walk point settle pay sums more-sums paid"));

test("every variable that is missing or wrong is reported at once, and no value is", () => {
  const read = () =>
    readConfig({ KAFKA_BROKERS: "b:1", REDIS_URL: "redis-without-scheme", TRIBUTARY_SECRET: "short", OPS_PORT: "" });
  const wrong = ["SCHEMA_REGISTRY", "REDIS", "POSTGRES", "CLICKHOUSE", "OBJECT_STORE"].map((name) => `${name}_URL`);
  expect(read).toThrow(new RegExp([...wrong, "TRIBUTARY_SECRET"].map((name) => `${name}: `).join(".*\\n.*")));
  expect(read).not.toThrow(/redis-without-scheme|short/);
});
