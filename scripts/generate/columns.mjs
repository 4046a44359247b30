// Writes sinks/analytics/generated.ts: the columns of the analytics table, the sources of their
// values, and the records that are read back from them.
import { plainType, recordsIn } from "./attributes.mjs";
import { emptyOf } from "./fields.mjs";

const ROOT = "EventAttributed";
const NATIVE = { string: "String", boolean: "Bool", int: "Int32", long: "DateTime64(3, 'UTC')" };

/** The type of a column: that of its value, unless the declaration has a narrower one. */
const nativeType = ({ name, type, column }, isInNullable) => {
  const { plain, isNullable } = plainType(type);
  const derived =
    plain.logicalType === "minor-units"
      ? "Int64"
      : plain.type === "enum" || column.json !== undefined
        ? "String"
        : plain.type === "array" && plain.items === "string"
          ? "Array(String)"
          : NATIVE[plain];
  const native = column.type ?? derived;
  if (native === undefined) throw new Error(`${name} does not say the type of its column`);
  return isNullable || isInNullable ? `Nullable(${native})` : native;
};

/** The columns of a record and of the records in it, in the order of their fields. */
const columnsOf = (schemas, record, path = "", isInNullable = false) =>
  record.fields.flatMap((field) => {
    const at = `${path}${field.name}`;
    const { plain, isNullable } = plainType(field.type);
    const inner = schemas.get(plain) ?? (plain.type === "record" ? plain : undefined);
    if (inner !== undefined) return columnsOf(schemas, inner, `${at}.`, isNullable);
    if (field.column === undefined) return [];
    const column = field.column === true ? {} : field.column;
    const type = nativeType({ ...field, column }, isInNullable);
    return [{ ...column, name: column.name ?? field.name, type, path: at, field: field.name, record: record.name }];
  });

/** Orders the columns by their fields. A column with `after` stands behind the named one. */
const ordered = (columns) => {
  const placed = columns.filter(({ after }) => after === undefined);
  let waiting = columns.filter(({ after }) => after !== undefined);
  while (waiting.length > 0) {
    const [next] = waiting.filter(({ after }) => placed.some(({ name }) => name === after));
    if (next === undefined) {
      const [{ name, after }] = waiting;
      throw new Error(`the column of ${name} stands behind ${after}, which is no column`);
    }
    placed.splice(placed.findIndex(({ name }) => name === next.after) + 1, 0, next);
    waiting = waiting.filter((one) => one !== next);
  }
  return placed;
};

const declaredText = ({ name, type, volatile }) => {
  const head = `{ name: "${name}", type: "${type}"`;
  return volatile === undefined ? `  ${head} },` : `  ${head},\n    volatile: "${volatile}" },`;
};

const sourceText = ({ name, path, seen, json }) => {
  if (json === undefined) return `  ${name}: ${seen === true ? "fieldWhen(isSeen, " : "field("}"${path}"),`;
  const fields = `{ ${json.join(", ")} }`;
  return `  ${name}: made(({ data }) =>\n    listAsJson(data.${path}, (${fields}) =>\n      (${fields})),\n  ),`;
};

/** Code that reads a record from its columns. Fields without a column are empty. */
const readText = (columns, record, indent = "  ") =>
  record.fields
    .map((field) => {
      const column = columns.find((one) => one.record === record.name && one.field === field.name);
      if (column?.json !== undefined) {
        const [item] = recordsIn(field.type);
        return `${indent}${field.name}: JSON.parse(row.${column.name}) as readonly ${item.name}[],`;
      }
      const { plain } = plainType(field.type);
      if (column !== undefined) {
        const cast = plain.type === "enum" ? ` as ${plain.name}` : "";
        return `${indent}${field.name}: row.${column.name}${cast},`;
      }
      if (plain.type !== "record") return `${indent}${field.name}: ${emptyOf(field)},`;
      const own = columns.filter((one) => one.record === plain.name);
      const isNone = own.map(({ name }) => `row.${name} === null`).join(` &&\n${indent}  `);
      const inner = readText(columns, plain, `${indent}        `);
      return [
        `${indent}${field.name}:`,
        `${indent}  ${isNone}`,
        `${indent}    ? null`,
        `${indent}    : {\n${inner}\n${indent}      },`,
      ].join("\n");
    })
    .join("\n");

export const columnsText = (schemas, doNotEdit) => {
  const root = schemas.get(ROOT);
  const columns = ordered([...columnsOf(schemas, root), ...(root.columns ?? [])]);
  const held = columns.filter(({ path }) => path !== undefined);
  const records = root.fields
    .map(({ name, type }) => [name, schemas.get(type)])
    .filter(([, record]) => record !== undefined);
  const inner = records.flatMap(([, { fields }]) =>
    fields.flatMap(({ name, type }) => {
      const { plain } = plainType(type);
      return plain.type === "record" ? [[name, plain]] : [];
    }),
  );
  const listed = [...records, ...inner].map(([name, record]) => {
    const own = held.filter((column) => column.record === record.name);
    return `  ${name}: [\n${own.map((column) => `    "${column.name}",`).join("\n")}\n  ],`;
  });
  const reads = records.map(([name, record]) => {
    const parts = [
      name,
      ...inner.filter(([part]) => record.fields.some((field) => field.name === part)).map(([part]) => part),
    ];
    const row = `Row<${parts.map((part) => `"${part}"`).join(" | ")}>`;
    return `export const ${name}Of = (row: ${row}): ${record.name} => ({\n${readText(held, record)}\n});`;
  });
  const enums = records.flatMap(([, { fields }]) =>
    fields.flatMap(({ type, column }) => (column !== undefined && type.type === "enum" ? [type.name] : [])),
  );
  const items = records.flatMap(([, { fields }]) =>
    fields.flatMap(({ type, column }) => (column?.json === undefined ? [] : recordsIn(type).map(({ name }) => name))),
  );
  const types = [...new Set([ROOT, ...records.map(([, { name }]) => name), ...enums, ...items])].sort();
  return `// The columns of the analytics table, from schemas/event-attributed.avsc and its parts.
// ${doNotEdit}
import { isSeen } from "../../domain/personal/consent.ts";
import type { ColumnsOf, DeclaredColumn } from "../../infra/clickhouse/columns.ts";
import type { RowOf } from "../../infra/clickhouse/query.ts";
import { listAsJson, sourcesOf } from "../../infra/clickhouse/sources.ts";
import type {
${types.map((name) => `  ${name},`).join("\n")}
} from "../../schemas/generated.ts";

/** Columns in the order of writing. The store fills in \`stored_at\` and \`rank\`. */
export const eventColumns = [
${columns.map(declaredText).join("\n")}
] as const satisfies readonly DeclaredColumn[];

const { field, fieldWhen, made } = sourcesOf<${ROOT}>();

/** The sources of the columns that hold a field. */
export const fieldSources = {
${held.map(sourceText).join("\n")}
};

/** The columns that hold the fields of each record. */
export const columnsOfRecords = {
${listed.join("\n")}
} as const;

type StoredValues = RowOf<ColumnsOf<typeof eventColumns>>;
type Row<Record extends keyof typeof columnsOfRecords> = Pick<StoredValues, (typeof columnsOfRecords)[Record][number]>;

/** Records read from their columns. Fields without a column are empty. */
${reads.join("\n\n")}
`;
};
