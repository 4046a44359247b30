// Writes schemas/generated.ts from topics.yaml and schemas/*.avsc: record types and topic
// constants. Usage: node scripts/generate.mjs [--check]
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { parse } from "yaml";

const at = (path) => new URL(`../${path}`, import.meta.url);
const schemas = new Map(
  readdirSync(at("schemas"))
    .filter((file) => file.endsWith(".avsc"))
    .map((file) => JSON.parse(readFileSync(at(`schemas/${file}`), "utf8")))
    .map((schema) => [schema.name, schema]),
);
const topics = parse(readFileSync(at("topics.yaml"), "utf8"));
const primitive = {
  string: "string",
  int: "number",
  long: "UnixMs",
  boolean: "boolean",
  bytes: "Buffer",
  double: "number",
};
const declared = [];

/**
 * The TypeScript type of an Avro type; records and enums met on the way are declared. A plain long
 * is always a time.
 */
const typeOf = (type) => {
  if (Array.isArray(type))
    return type
      .map((member) => (member === "null" ? "null" : typeOf(member)))
      .reverse()
      .join(" | ");
  if (typeof type === "string") return primitive[type] ?? type;
  if (type.logicalType === "minor-units") return "bigint";
  if (type.type === "array") return `readonly ${typeOf(type.items)}[]`;
  if (type.type === "enum")
    declare(type.name, () => `export type ${type.name} = ${type.symbols.map((symbol) => `"${symbol}"`).join(" | ")};`);
  if (type.type === "record") declareRecord(type);
  return type.name;
};
const declare = (name, text) => {
  if (!declared.some((known) => known.name === name)) declared.push({ name, text: text() });
};
const declareRecord = (schema) =>
  declare(schema.name, () => {
    const fields = schema.fields.map(
      ({ name, type, doc }) => `${doc ? `  /** ${doc} */\n` : ""}  readonly ${name}: ${typeOf(type)};`,
    );
    return `${schema.doc ? `/** ${schema.doc} */\n` : ""}export interface ${schema.name} {\n${fields.join("\n")}\n}`;
  });

/**
 * One self-contained schema: each record written out where it is met first, by name from then on,
 * as Avro wants it.
 */
const inline = (type, seen) => {
  if (Array.isArray(type)) return type.map((member) => inline(member, seen));
  if (typeof type === "string") return schemas.has(type) ? inline(schemas.get(type), seen) : type;
  if (type.type === "array") return { ...type, items: inline(type.items, seen) };
  if (type.name === undefined) return type;
  if (seen.has(type.name)) return `tributary.${type.name}`;
  seen.add(type.name);
  return type.fields
    ? { ...type, fields: type.fields.map((field) => ({ ...field, type: inline(field.type, seen) })) }
    : type;
};

const milliseconds = (retention) => {
  if (retention === "forever") return -1;
  const [, count, unit] = /^(\d+)(h|d)$/.exec(retention) ?? [];
  if (!unit) throw new Error(`topics.yaml: retention ${retention} is neither <n>h, <n>d nor forever`);
  return Number(count) * (unit === "h" ? 3_600_000 : 86_400_000);
};
const constantOf = (name) => name.replace(/[.](.)/g, (_, letter) => letter.toUpperCase());
const path = (field) => `data.${field}`;
/**
 * Of several fields the first that is not null; all but the last may lie in a record that is null.
 */
const firstOf = (fields) =>
  [fields]
    .flat()
    .map((field, n, all) => path(n < all.length - 1 ? field.replaceAll(".", "?.") : field))
    .join(" ?? ");

for (const schema of schemas.values()) declareRecord(schema);
const constants = [];
for (const [name, { record, keyed_by, key, id, partitions, checked = false }] of Object.entries(topics)) {
  if (record === undefined) continue;
  if (!schemas.has(record))
    throw new Error(`topics.yaml: ${name} names the record ${record}, which schemas/ does not hold`);
  constants.push(
    `  ${constantOf(name)}: topic<${record}>({\n    name: "${name}",\n    keyedBy: "${keyed_by}",\n    partitions: ${partitions},\n    checked: ${checked},\n` +
      `    idOf: (data) => ${firstOf(id)},\n    keyOf: (data) => \`${key.map((field) => `\${${path(field)}}`).join(":")}\`,\n` +
      `    record: ${JSON.stringify(inline(record, new Set()))},\n  }),`,
  );
}
const settings = Object.entries(topics).map(
  ([name, { partitions, retention, compacted = false, why }]) =>
    `  { name: "${name}", partitions: ${partitions}, retentionMs: ${milliseconds(retention)}, compacted: ${compacted}, why: ${JSON.stringify(why)} },`,
);
const text = `// schemas/generated.ts - record types and topic constants, from topics.yaml and schemas/*.avsc. Do not edit: npm run generate.
import { topic } from "../infra/avro/codec.ts";
import type { UnixMs } from "../stream/flow.ts";

${declared.map(({ text }) => text).join("\n\n")}

/** Every topic that holds records. */
export const topics = {
${constants.join("\n")}
} as const;

/** What the broker must hold; retentionMs -1 keeps for good. */
export const topicSettings = [
${settings.join("\n")}
] as const;
`;
const target = at("schemas/generated.ts");
if (!process.argv.includes("--check")) writeFileSync(target, text);
else if (readFileSync(target, "utf8") !== text) {
  console.error("schemas/generated.ts does not match topics.yaml and schemas/*.avsc; run: npm run generate");
  process.exit(1);
}
