// Attributes of schema fields beside the type: code is generated from them, and they are never
// registered.
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { fieldSources } from "../../sinks/analytics/generated.ts";
import { topics } from "../../topics.ts";

let copy: string;
beforeAll(() => {
  copy = mkdtempSync(join(tmpdir(), "generate-"));
  for (const path of ["schemas", "scripts", "docs/attribution.md", "topics.yaml", "topics.ts", "package.json"])
    cpSync(path, join(copy, path), { recursive: true });
  for (const folder of ["sinks/analytics", "sinks/conversions", "sinks/ledger", "domain"])
    mkdirSync(join(copy, folder), { recursive: true });
  symlinkSync(resolve("node_modules"), join(copy, "node_modules"));
});
afterAll(() => rmSync(copy, { recursive: true }));

/** The generated files after a change of one schema. */
const generatedWith = (file: string, before: string, after: string) => {
  const text = readFileSync(join("schemas", file), "utf8");
  expect(text.split(before)).toHaveLength(2);
  writeFileSync(join(copy, "schemas", file), text.replace(before, after));
  const { status, stderr } = spawnSync(process.execPath, ["scripts/generate.mjs"], { cwd: copy, encoding: "utf8" });
  cpSync(join("schemas", file), join(copy, "schemas", file));
  const read = (path: string) => readFileSync(join(copy, path), "utf8");
  if (status !== 0) return { error: /Error: (.*)/.exec(stderr)?.[1] };
  return {
    registered: read("schemas/generated-avro.ts"),
    fields: read("schemas/generated-fields.ts"),
    columns: read("sinks/analytics/generated.ts"),
  };
};
const order = '{ "name": "order_id", "type": ["null", "string"], "default": null,\n      ';
const declared = `${order}"merge": "fill", "column": true }`;

test("another merge, column or condition changes no schema that is registered", () => {
  const { registered, fields, columns } = generatedWith(
    "event-received.avsc",
    declared,
    `${order}"merge": "first", "of": "line", "column": { "seen": true }, "condition": true }`,
  );
  expect(registered).toBe(readFileSync("schemas/generated-avro.ts", "utf8"));
  expect(fields).not.toBe(readFileSync("schemas/generated-fields.ts", "utf8"));
  expect(columns).not.toBe(readFileSync("sinks/analytics/generated.ts", "utf8"));
});

test("what is registered has the attributes that Avro reads, and no other", () => {
  const known = ["type", "name", "namespace", "doc", "fields", "default", "items", "symbols", "logicalType", "size"];
  const attributesIn = (schema: unknown): readonly string[] =>
    Array.isArray(schema)
      ? schema.flatMap(attributesIn)
      : typeof schema === "object" && schema !== null
        ? Object.entries(schema).flatMap(([name, value]) => [name, ...attributesIn(value)])
        : [];
  const found = new Set(Object.values(topics).flatMap(({ schema }) => attributesIn(schema)));
  expect([...found].filter((name) => !known.includes(name))).toEqual([]);
});

test.each([
  {
    what: "a field without a merge",
    after: `${order}"column": true }`,
    error: "EventReceived.order_id does not say its merge: first, fill, decided, with_money",
  },
  {
    what: "an attribute that nothing reads",
    after: `${order}"merge": "fill", "colum": true }`,
    error: "EventReceived.order_id has the attribute colum; there are type, name",
  },
  {
    what: "a place behind no column",
    after: `${order}"merge": "fill", "column": { "after": "nowhere" } }`,
    error: "the column of order_id stands behind nowhere, which is no column",
  },
  {
    what: "a condition without a column",
    after: `${order}"merge": "fill", "condition": true }`,
    error: "a condition asks for order_id in the store too: give it a column of its own name",
  },
  {
    what: "a condition on a number",
    after: '{ "name": "order_id", "type": "int", "merge": "fill", "column": true, "condition": true }',
    error: "a condition compares texts, and order_id is none",
  },
])("$what is refused", ({ after, error }) =>
  expect(generatedWith("event-received.avsc", declared, after).error).toContain(error),
);

test("what an event shows only with consent is hidden where its device takes the consent back", () => {
  const folder = "migrations/clickhouse";
  const seen = Object.entries(fieldSources).flatMap(([name, source]) => ("when" in source ? [name] : []));
  for (const view of ["events_current", "event_versions"]) {
    const newest = readdirSync(folder)
      .sort()
      .map((file) => readFileSync(join(folder, file), "utf8"))
      .findLast((text) => text.includes(`view ${view} as`))!;
    const hidden = [...newest.matchAll(/null, (?:e\.)?(\w+)\) as \1/g)].map(([, name]) => name);
    expect(hidden.sort(), view).toEqual(seen.toSorted());
  }
});
