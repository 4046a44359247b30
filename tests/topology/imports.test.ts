// Imports flow one way: apps -> topology -> processors | sinks -> schemas -> stream/flow. This test walks every import and prints the arrow that does not.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { expect, test } from "vitest";

const roots = ["stream", "schemas", "processors", "sinks", "apps"];
const files = [
  "topology.ts",
  ...roots.flatMap((root) =>
    readdirSync(root, { recursive: true, encoding: "utf8" })
      .filter((file) => file.endsWith(".ts"))
      .map((file) => join(root, file)),
  ),
];

/** What each part may import, by the first folder of the path. stream/flow and stream/codec are what a topic constant is made of. */
const allowed: Readonly<Record<string, (target: string) => boolean>> = {
  stream: (target) => target.startsWith("stream/"),
  schemas: (target) => target === "stream/flow.ts" || target === "stream/codec.ts",
  processors: (target) => target.startsWith("processors/") || target === "schemas/generated.ts" || target === "stream/flow.ts",
  sinks: (target) => !target.startsWith("apps/") && target !== "topology.ts",
  "topology.ts": (target) => !target.startsWith("apps/"),
  apps: () => true,
};
/** What reads the world, or writes to it, has no place in a pure function. Small pure parsers are fine. */
const pureLibraries = new Set(["node:buffer", "node:crypto", "bowser", "isbot", "ipaddr.js", "mmdb-lib", "big.js"]);
const importsOf = (file: string): readonly string[] =>
  [...readFileSync(file, "utf8").matchAll(/^(?:import|export)\s[^;]*?from\s+"([^"]+)"|^import\s+"([^"]+)"/gm)].map(
    ([, from, bare]) => from ?? bare ?? "",
  );

test("imports flow one way", () => {
  const wrong = files.flatMap((file) => {
    const part = file === "topology.ts" ? file : file.split("/")[0]!;
    return importsOf(file)
      .filter((target) => target.startsWith("."))
      .map((target) => normalize(join(dirname(file), target)))
      .filter((target) => !allowed[part]!(target))
      .map((target) => `${file} -> ${target}`);
  });
  expect(wrong, "apps -> topology -> processors | sinks -> schemas -> stream/flow").toEqual([]);
});

test("processors import nothing that reads a clock, draws a number or opens a connection", () => {
  const wrong = files
    .filter((file) => file.startsWith("processors/"))
    .flatMap((file) => [
      ...importsOf(file)
        .filter((target) => !target.startsWith(".") && !pureLibraries.has(target))
        .map((target) => `${file} imports ${target}`),
      ...[
        ...readFileSync(file, "utf8").matchAll(
          /Date\.now|new Date\(\)|Math\.random|randomUUID|randomBytes|\bprocess\.|setTimeout|fetch\(/g,
        ),
      ].map(([word]) => `${file} uses ${word}`),
    ]);
  expect(wrong).toEqual([]);
});

test("one module touches each client library", () => {
  const owners: Readonly<Record<string, RegExp>> = {
    kafkajs: /^stream\/kafka(js-corrected)?\.ts$/,
    "@kafkajs/confluent-schema-registry": /^stream\/registry\.ts$/,
    "@clickhouse/client": /^sinks\/clickhouse\/client\.ts$/,
    "@aws-sdk/client-s3": /^sinks\/objects\/s3\.ts$/,
    chdb: /^apps\/stack\//,
  };
  const wrong = files.flatMap((file) =>
    importsOf(file)
      .filter((target) => owners[target] !== undefined && !owners[target].test(file))
      .map((target) => `${file} imports ${target}`),
  );
  expect(wrong).toEqual([]);
});

test("only the configuration of an app reads the environment", () => {
  // The armed failpoints are loaded under `node --conditions=faults` alone and are told by the environment which one to hit.
  const readers = /^(apps\/[a-z]+\/config|stream\/failpoint\.armed)\.ts$/;
  const wrong = files.filter((file) => !readers.test(file) && /process\.env/.test(readFileSync(file, "utf8")));
  expect(wrong).toEqual([]);
});
