// Reads our own attributes in a schema, which Avro ignores. They say once how a field is merged,
// stored and used in conditions (CONTRIBUTING.md, "A stored event property").

const AVRO = ["type", "name", "namespace", "doc", "fields", "default", "items", "symbols", "logicalType"];
const OWN = {
  field: ["merge", "of", "empty", "column", "condition", "hashed"],
  record: ["columns"],
  column: ["name", "type", "after", "seen", "volatile", "json"],
};

const isAvro = ([attribute]) => AVRO.includes(attribute);
/**
 * The schema as it is registered, without our attributes, because no reader of the log knows them.
 */
export const avroOf = (attributes) => Object.fromEntries(Object.entries(attributes).filter(isAvro));

const expectKnown = (where, given, known) => {
  for (const attribute of Object.keys(given))
    if (!known.includes(attribute))
      throw new Error(`${where} has the attribute ${attribute}; there are ${known.join(", ")}`);
};

/** Refuses attributes without effect: misspelt ones, and any inside the items of a list. */
export const checkAttributes = (record, isItem = false) => {
  expectKnown(record.name, record, isItem ? AVRO : [...AVRO, ...OWN.record]);
  for (const column of record.columns ?? []) expectKnown(`a column of ${record.name}`, column, OWN.column);
  for (const field of record.fields) {
    const where = `${record.name}.${field.name}`;
    expectKnown(where, field, isItem ? AVRO : [...AVRO, ...OWN.field]);
    if (typeof field.column === "object") expectKnown(`the column of ${where}`, field.column, OWN.column);
    const isList = plainType(field.type).plain.type === "array";
    for (const inner of recordsIn(field.type)) checkAttributes(inner, isItem || isList);
  }
};

/** The records that are written out in a type. */
export const recordsIn = (type) => {
  if (Array.isArray(type)) return type.flatMap(recordsIn);
  if (typeof type !== "object") return [];
  if (type.type === "record") return [type];
  return type.items === undefined ? [] : recordsIn(type.items);
};

/** The type of a field without null, and whether the field may be null. */
export const plainType = (type) =>
  Array.isArray(type)
    ? { plain: type.find((one) => one !== "null"), isNullable: type.includes("null") }
    : { plain: type, isNullable: false };
