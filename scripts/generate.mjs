// Writes, from topics.yaml and schemas/*.avsc, the record types (schemas/generated.ts), the schemas
// as data (schemas/generated-avro.ts), the topic constants (topics.ts), and what our own attributes
// say of the fields of an event (scripts/generate/).
// Usage: node scripts/generate.mjs [--check]
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { parse } from "yaml";
import { avroOf, checkAttributes } from "./generate/attributes.mjs";
import { columnsText } from "./generate/columns.mjs";
import { conditionsOf, fieldsText, nothingFoundText } from "./generate/fields.mjs";
import { tableText } from "./generate/tables.mjs";

const at = (path) => new URL(`../${path}`, import.meta.url);
const schemas = new Map(
  readdirSync(at("schemas"))
    .filter((file) => file.endsWith(".avsc"))
    .map((file) => JSON.parse(readFileSync(at(`schemas/${file}`), "utf8")))
    .map((schema) => [schema.name, schema]),
);
for (const schema of schemas.values()) checkAttributes(schema);
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

const COMMENT_COLUMNS = 100;
/** Writes a doc comment with lines of at most 100 columns. */
const comment = (doc, indent = "") => {
  if (doc === undefined) return "";
  const one = `${indent}/** ${doc} */`;
  if (one.length <= COMMENT_COLUMNS) return `${one}\n`;
  const lines = [`${indent} *`];
  for (const word of doc.split(" "))
    if (lines.at(-1).length + 1 + word.length <= COMMENT_COLUMNS) lines.push(`${lines.pop()} ${word}`);
    else lines.push(`${indent} * ${word}`);
  return `${indent}/**\n${lines.join("\n")}\n${indent} */\n`;
};

/**
 * The TypeScript type of an Avro type. Declares the records and enums inside it. A plain long is
 * always a time.
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
  if (type.type === "enum") declare(type.name, () => unionOf(type.name, type.symbols));
  if (type.type === "record") declareRecord(type);
  return type.name;
};
const unionOf = (name, members) => {
  const one = `export type ${name} = ${members.map((member) => `"${member}"`).join(" | ")};`;
  if (one.length <= 120) return one;
  return `export type ${name} =${members.map((member) => `\n  | "${member}"`).join("")};`;
};
const declare = (name, text) => {
  if (!declared.some((known) => known.name === name)) declared.push({ name, text: text() });
};
const declareRecord = (schema) =>
  declare(schema.name, () => {
    const fields = schema.fields.map(
      ({ name, type, doc }) => `${comment(doc, "  ")}  readonly ${name}: ${typeOf(type)};`,
    );
    return `${comment(schema.doc)}export interface ${schema.name} {\n${fields.join("\n")}\n}`;
  });

/**
 * One self-contained schema. Each record is written out at its first use and named from then on, as
 * Avro requires.
 */
const inline = (type, seen) => {
  if (Array.isArray(type)) return type.map((member) => inline(member, seen));
  if (typeof type === "string") return schemas.has(type) ? inline(schemas.get(type), seen) : type;
  if (type.type === "array") return { ...type, items: inline(type.items, seen) };
  if (type.name === undefined) return type;
  if (seen.has(type.name)) return `tributary.${type.name}`;
  seen.add(type.name);
  return type.fields
    ? {
        ...avroOf(type),
        fields: type.fields.map((field) => ({ ...avroOf(field), type: inline(field.type, seen) })),
      }
    : type;
};

const milliseconds = (retention) => {
  if (retention === "forever") return -1;
  const [, count, unit] = /^(\d+)(h|d)$/.exec(retention) ?? [];
  if (!unit) throw new Error(`topics.yaml: retention ${retention} is neither <n>h, <n>d nor forever`);
  return Number(count) * (unit === "h" ? 3_600_000 : 86_400_000);
};
const bytes = (size) => {
  const [, count] = /^(\d+)GiB$/.exec(size) ?? [];
  if (!count) throw new Error(`topics.yaml: retention_bytes ${size} is not <n>GiB`);
  return Number(count) * 1024 ** 3;
};
const constantOf = (name) => name.replace(/[.](.)/g, (_, letter) => letter.toUpperCase());
const path = (field) => `data.${field}`;
/**
 * The first of several fields that is not null. All but the last may be inside a record that is
 * null.
 */
const firstOf = (fields) =>
  [fields]
    .flat()
    .map((field, n, all) => path(n < all.length - 1 ? field.replaceAll(".", "?.") : field))
    .join(" ?? ");

for (const schema of schemas.values()) declareRecord(schema);
const records = new Set();
const constants = [];
for (const [name, { record, keyed_by, key, id, partitions, checked = false }] of Object.entries(topics)) {
  if (record === undefined) continue;
  if (!schemas.has(record))
    throw new Error(`topics.yaml: ${name} names the record ${record}, which schemas/ does not hold`);
  records.add(record);
  const lines = [
    `name: "${name}"`,
    `keyedBy: "${keyed_by}"`,
    `partitions: ${partitions}`,
    `checked: ${checked}`,
    `idOf: (data) => ${firstOf(id)}`,
    `keyOf: (data) => \`${key.map((field) => `\${${path(field)}}`).join(":")}\``,
    `record: schemas.${record}`,
  ];
  constants.push(`  ${constantOf(name)}: topic<${record}>({\n${lines.map((line) => `    ${line},\n`).join("")}  }),`);
}
const settings = Object.entries(topics).map(
  ([name, { partitions, retention, retention_bytes, compacted = false, money = false, why }]) => {
    const lines = [
      `name: "${name}"`,
      `partitions: ${partitions}`,
      `retentionMs: ${milliseconds(retention)}`,
      ...(retention_bytes === undefined ? [] : [`retentionBytes: ${bytes(retention_bytes)}`]),
      `compacted: ${compacted}`,
      `money: ${money}`,
    ];
    const row = `  { ${lines.join(", ")} },`;
    const rows = `  {\n${lines.map((line) => `    ${line},\n`).join("")}  },`;
    return `${comment(why, "  ")}${row.length > 120 ? rows : row}`;
  },
);
const shapes = [...records].map((name) => `  ${name}: ${JSON.stringify(inline(name, new Set()))},`);
/** The page with the list of conditions, which stands between its markers. */
const conditionsPage = () => {
  const page = readFileSync(at("docs/attribution.md"), "utf8");
  const list = lines(conditionsOf(schemas).map(({ name }) => `\`${name}\``));
  const [begin, end] = ["<!-- conditions: npm run generate -->\n", "  <!-- end of conditions -->"];
  return page.replace(new RegExp(`(${begin})[^]*(${end})`), `$1${list}$2`);
};
const PAGE_COLUMNS = 120;
/** Writes a list as lines of a page. */
const lines = (words) => {
  const all = [""];
  for (const [n, word] of words.entries()) {
    const text = n < words.length - 1 ? `${word},` : `${word}.`;
    const next = `${all.at(-1)} ${text}`;
    if (all.at(-1) !== "" && next.length + 1 > PAGE_COLUMNS) all.push(` ${text}`);
    else all[all.length - 1] = next;
  }
  return all.map((line) => ` ${line}\n`).join("");
};
const DO_NOT_EDIT = "Do not edit: npm run generate.";
const generated = {
  "schemas/generated.ts": `// Record types and topic names, from topics.yaml and schemas/*.avsc. ${DO_NOT_EDIT}

/** Milliseconds since 1970 in UTC. */
type UnixMs = number;

${unionOf("TopicName", Object.keys(topics))}

${declared.map(({ text }) => text).join("\n\n")}
`,
  "schemas/generated-avro.ts": `// The Avro schemas of records, from schemas/*.avsc: each one whole. ${DO_NOT_EDIT}
export const schemas = {
${shapes.join("\n")}
} as const;
`,
  "domain/nothing-found.ts": nothingFoundText(schemas, DO_NOT_EDIT),
  "schemas/generated-fields.ts": fieldsText(schemas, DO_NOT_EDIT),
  "sinks/analytics/generated.ts": columnsText(schemas, DO_NOT_EDIT),
  "docs/attribution.md": conditionsPage(),
  "sinks/conversions/generated.ts": tableText(schemas.get("Conversion"), DO_NOT_EDIT),
  "sinks/ledger/generated.ts": tableText(schemas.get("LedgerEntry"), DO_NOT_EDIT),
  "topics.ts": `// Every topic of the log, from topics.yaml. ${DO_NOT_EDIT}
import { topic } from "./infra/avro/codec.ts";
import type {
${[...records]
  .sort()
  .map((name) => `  ${name},`)
  .join("\n")}
} from "./schemas/generated.ts";
import { schemas } from "./schemas/generated-avro.ts";

/** The topics that hold records. */
export const topics = {
${constants.join("\n")}
} as const;

/** The settings of every topic on the broker; a retentionMs of -1 keeps records for good. */
export const topicSettings = [
${settings.join("\n")}
] as const;
`,
};
for (const [file, text] of Object.entries(generated)) {
  if (!process.argv.includes("--check")) writeFileSync(at(file), text);
  else if (readFileSync(at(file), "utf8") !== text) {
    console.error(`${file} does not match topics.yaml and schemas/*.avsc; run: npm run generate`);
    process.exitCode = 1;
  }
}
