// Imports go one way, down the list below. The test walks every import and prints the wrong ones.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { expect, test } from "vitest";

const roots = ["schemas", "stream", "infra", "domain", "processors", "edges", "sinks", "modules", "apps", "tools"];
const filesBelow = (root: string): readonly string[] =>
  readdirSync(root, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts"))
    .map((file) => join(root, file));
const files = ["topics.ts", "edges.ts", "topology.ts", ...roots.flatMap(filesBelow)];

/**
 * The imports that each part may have besides itself: everything below it. Pure parts do not import
 * I/O.
 */
const allowed: Readonly<Record<string, readonly string[]>> = {
  schemas: [],
  stream: ["schemas"],
  infra: ["stream", "schemas"],
  domain: ["stream", "schemas"],
  processors: ["domain", "stream", "schemas"],
  sinks: ["domain", "infra", "stream", "schemas"],
  "topics.ts": ["infra", "stream", "schemas"],
  edges: ["topics.ts", "processors", "stream"],
  "edges.ts": ["edges", "topics.ts", "processors", "domain", "stream", "schemas"],
  "topology.ts": ["edges.ts", "edges", "topics.ts", "sinks", "processors", "domain", "infra", "stream", "schemas"],
  modules: [
    "topology.ts",
    "edges.ts",
    "edges",
    "topics.ts",
    "sinks",
    "processors",
    "domain",
    "infra",
    "stream",
    "schemas",
  ],
  tools: [
    "modules",
    "topology.ts",
    "edges.ts",
    "edges",
    "topics.ts",
    "sinks",
    "processors",
    "domain",
    "infra",
    "stream",
    "schemas",
  ],
  apps: [
    "modules",
    "topology.ts",
    "edges.ts",
    "edges",
    "topics.ts",
    "sinks",
    "processors",
    "domain",
    "infra",
    "stream",
    "schemas",
  ],
};
/** A pure function imports nothing that reads or writes the world. Small pure parsers are fine. */
const pureLibraries = new Set(["node:buffer", "node:crypto", "bowser", "isbot", "ipaddr.js", "mmdb-lib"]);
const importsOf = (file: string): readonly string[] =>
  [...readFileSync(file, "utf8").matchAll(/^(?:import|export)\s[^;]*?from\s+"([^"]+)"|^import\s+"([^"]+)"/gm)].map(
    ([, from, bare]) => from ?? bare ?? "",
  );

/** Each file once, because the walks below pass the same files many times. */
const known = new Map<string, readonly string[]>();
const targetsOf = (file: string): readonly string[] => {
  const targets =
    known.get(file) ??
    importsOf(file)
      .filter((target) => target.startsWith("."))
      .map((target) => normalize(join(dirname(file), target)));
  known.set(file, targets);
  return targets;
};

const { circlesOf } = (await import(new URL("../../scripts/house/imports.mjs", import.meta.url).href)) as {
  readonly circlesOf: (
    files: readonly string[],
    targetsOf: (file: string) => readonly string[],
  ) => readonly (readonly string[])[];
};

test("no files import each other in a circle, types included", () => {
  const all = [...files, ...["browser", "bench"].flatMap(filesBelow)];
  const thereOf = (file: string) => targetsOf(file).filter((target) => existsSync(target));
  expect(circlesOf(all, thereOf)).toEqual([]);
});

/** Each app or tool is a part of its own, and none imports another. */
const partOf = (file: string): string =>
  /^(apps|tools)\//.test(file) ? file.split("/").slice(0, 2).join("/") : file.split("/")[0]!;

test("imports flow one way", () => {
  const wrong = files.flatMap((file) => {
    const part = partOf(file);
    return targetsOf(file)
      .filter((target) => partOf(target) !== part && !allowed[part.split("/")[0]!]!.includes(partOf(target)))
      .map((target) => `${file} -> ${target}`);
  });
  expect(wrong, "apps > modules > topology > edges > sinks, processors > domain > infra > stream > schemas").toEqual(
    [],
  );
});

test("processors import nothing that reads a clock, draws a number or opens a connection", () => {
  const wrong = files
    .filter((file) => /^(processors|domain)\//.test(file))
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
    kafkajs: /^infra\/kafka\//,
    avsc: /^(infra\/(avro|embedded)\/|sinks\/archive\/container\.ts$)/,
    "@kafkajs/confluent-schema-registry": /^infra\/avro\/registry\.ts$/,
    "@clickhouse/client": /^infra\/clickhouse\/client\.ts$/,
    "@aws-sdk/client-s3": /^infra\/objects\/s3\.ts$/,
    chdb: /^infra\/embedded\//,
  };
  const wrong = files.flatMap((file) =>
    importsOf(file)
      .filter((target) => owners[target] !== undefined && !owners[target].test(file))
      .map((target) => `${file} imports ${target}`),
  );
  expect(wrong).toEqual([]);
});

test("infra/kafka has two public files", () => {
  const inside = /^infra\/kafka\/(?!(kafka|producer)\.ts$)/;
  const wrong = files
    .filter((file) => !file.startsWith("infra/kafka/"))
    .flatMap((file) =>
      targetsOf(file)
        .filter((target) => inside.test(target))
        .map((target) => `${file} -> ${target}`),
    );
  expect(wrong).toEqual([]);
});

test("only the configuration of an app reads the environment", () => {
  // Armed failpoints are only loaded under `node --conditions=faults`, and read from the
  // environment which one to hit.
  const readers = /^((apps|tools)\/[a-z]+\/config|infra\/embedded\/config|stream\/failpoint\.armed)\.ts$/;
  const wrong = files.filter((file) => !readers.test(file) && /process\.env/.test(readFileSync(file, "utf8")));
  expect(wrong).toEqual([]);
});

/** The areas of modules/: each only imports those before it. */
const areas = ["base", "log", "figures", "access", "catalog", "intake", "privacy", "money", "running"];

test("an area of modules imports the areas before it, and no others", () => {
  expect(readdirSync("modules").sort()).toEqual([...areas].sort());
  const areaOf = (file: string): number => areas.indexOf(file.split("/")[1]!);
  const wrong = files
    .filter((file) => file.startsWith("modules/"))
    .flatMap((file) =>
      targetsOf(file)
        .filter((target) => target.startsWith("modules/") && areaOf(target) > areaOf(file))
        .map((target) => `${file} -> ${target}`),
    );
  expect(wrong, areas.join(" < ")).toEqual([]);
});

test("modules know no terminal and no HTTP", () => {
  const doors = /^(commander|express|infra\/http\/|infra\/runtime\/output)/;
  const wrong = files
    .filter((file) => file.startsWith("modules/"))
    .flatMap((file) => [
      ...[...importsOf(file), ...targetsOf(file)]
        .filter((target) => doors.test(target))
        .map((target) => `${file} -> ${target}`),
      ...(/console\.|process\.(stdout|stderr|argv|exit)/.test(readFileSync(file, "utf8")) ? [`${file} prints`] : []),
    ]);
  expect(wrong).toEqual([]);
});

/** `from` and every file that `targets` leads to from there. */
const reached = (
  from: string,
  targets: (file: string) => readonly string[],
  seen = new Set<string>(),
): ReadonlySet<string> => {
  if (seen.has(from)) return seen;
  seen.add(from);
  for (const target of targets(from)) reached(target, targets, seen);
  return seen;
};

/** The files that a file loads at run time, without type imports. */
const loadedBy = (file: string): readonly string[] =>
  [...readFileSync(file, "utf8").matchAll(/^(?:import|export)\s(?!type\s)[^;]*?from\s+"(\.[^"]+)"/gm)].map(
    ([, target]) => normalize(join(dirname(file), target!)),
  );

test("no production app reaches the embedded stack", () => {
  const wrong = ["ingest", "links", "pixel", "upload", "worker", "keeper", "api"].flatMap((app) =>
    files
      .filter((file) => file.startsWith(`apps/${app}/`))
      .flatMap((file) => [...reached(file, targetsOf)])
      .filter((file) => file.startsWith("infra/embedded/"))
      .map((file) => `apps/${app} reaches ${file}`),
  );
  expect(wrong).toEqual([]);
});

/**
 * The most files that each host of edges may load at its start, without the files of edges, which
 * grow with each edge. The numbers may only fall, but for what every host of edges must do: count
 * against the quotas of clients and read credentials from files, one file each, and show the
 * figures and the disk that alert rules read, three files. What admits pages also reads the choice
 * that the script has made, in a file that both load.
 */
const mostLoaded = { links: 94, pixel: 116, upload: 118 };

test("a host of edges starts without stages and sinks, and with few files", () => {
  for (const [app, most] of Object.entries(mostLoaded)) {
    const loaded = [...reached(`apps/${app}/main.ts`, loadedBy)].filter(
      (file) => !file.startsWith("processors/admit/"),
    );
    const needless = loaded.filter((file) => file.startsWith("sinks/") || file === "topology.ts");
    expect([app, needless]).toEqual([app, []]);
    expect(loaded.length, `${app} loads ${loaded.length} files`).toBeLessThanOrEqual(most);
  }
});
