// Writes sinks/<table>/generated.ts for a record that is one row of Postgres: the columns of its
// fields, their values, and the input of its content hash.
import { plainType } from "./attributes.mjs";
import { emptyOf } from "./fields.mjs";

const TYPES = { string: "text", boolean: "bool", int: "int", long: "time" };

const plainColumn = ({ name, type, column }) => {
  const { plain } = plainType(type);
  const derived = plain.logicalType === "minor-units" ? "bigint" : plain.type === "enum" ? "text" : TYPES[plain];
  const named = column.type ?? derived;
  if (named === undefined) throw new Error(`${name} does not say the type of its column`);
  return named;
};

const valueText = ({ name, type }) => {
  const { plain, isNullable } = plainType(type);
  if (plain.logicalType !== "minor-units") return `data.${name}`;
  return isNullable ? `data.${name}?.toString() ?? null` : `data.${name}.toString()`;
};

/** Amounts in a list are written as decimal text, like the amounts beside it. */
const itemText = (item, name) =>
  item.fields.find((field) => field.name === name).type.logicalType === "minor-units"
    ? `${name}: \`\${${name}}\``
    : name;
const hashedText = (field) => {
  const { name, type, hashed } = field;
  if (hashed === "unless_default") return `  ...(data.${name} === ${emptyOf(field)} ? [] : [data.${name}]),`;
  if (!Array.isArray(hashed)) return `  data.${name},`;
  const items = hashed.map((one) => itemText(type.items, one)).join(", ");
  return `  data.${name}.map(({ ${hashed.join(", ")} }) => ({ ${items} })),`;
};

/** `content_hash` is of the type ContentHash. */
const parameterOf = (name) => name.replace(/(?:^|_)(.)/g, (_, letter) => letter.toUpperCase());

export const tableText = (record, doNotEdit) => {
  const held = record.fields
    .filter(({ column }) => column !== undefined)
    .map((field) => ({ ...field, column: field.column === true ? {} : field.column }));
  const columns = held.map((field) => {
    const type = plainColumn(field);
    return [field.column.name ?? field.name, plainType(field.type).isNullable ? `nullable(${type})` : type];
  });
  const helpers = new Set(columns.flatMap(([, type]) => type.match(/\w+/g)));
  const made = record.columns.map(({ name }) => name);
  const later = record.fields.filter(({ hashed }) => hashed === "unless_default");
  const hashed = [...record.fields.filter((field) => !later.includes(field)), ...later];
  return `// ${record.name} as a row: the columns that hold its fields. ${doNotEdit}
import { ${[...helpers].sort().join(", ")} } from "../../infra/postgres/columns.ts";
import type { ${record.name} } from "../../schemas/generated.ts";

export const fieldColumns = {
${columns.map(([name, type]) => `  ${name}: ${type},`).join("\n")}
};

/**
 * The row, with the values that the sink computes. A spread copy of an object with so many fields
 * would cost 2 us.
 */
export const rowOf = <${made.map(parameterOf).join(", ")}>(
  data: ${record.name},
  made: {
${made.map((name) => `    readonly ${name}: ${parameterOf(name)};`).join("\n")}
  },
) => ({
${held.map((field) => `  ${field.column.name ?? field.name}: ${valueText(field)},`).join("\n")}
${made.map((name) => `  ${name}: made.${name},`).join("\n")}
});

/**
 * The values that are hashed. Their order never changes. A newer field is included only if it
 * differs from its default.
 */
export const contentOf = (data: ${record.name}): readonly unknown[] => [
${hashed.map(hashedText).join("\n")}
];
`;
};
