// Writes schemas/generated-fields.ts and domain/nothing-found.ts: how a second copy is merged into
// the first, which texts a condition may use, and what fields hold when nothing is known.
import { plainType } from "./attributes.mjs";

const zeros = { string: '""', int: "0", long: "0", boolean: "false" };

/** The value of a field about which nothing is known. */
export const emptyOf = ({ name, type, empty, default: initial }) => {
  const given = empty ?? initial;
  if (given !== undefined) return JSON.stringify(given);
  const { plain, isNullable } = plainType(type);
  if (isNullable) return "null";
  if (plain.type === "array") return "[]";
  if (plain.type === "enum") return JSON.stringify(plain.symbols[0]);
  const zero = zeros[plain];
  if (zero === undefined) throw new Error(`${name} does not say what it is when it is empty`);
  return zero;
};

const merges = {
  first: ({ name }) => `first.${name}`,
  fill: (field) => {
    const { name, type } = field;
    if (plainType(type).isNullable) return `first.${name} ?? copy.${name}`;
    return `first.${name} === ${emptyOf(field)} ? copy.${name} : first.${name}`;
  },
  decided: ({ name }) => `decided.${name}`,
  with_money: ({ name }) => `decided.takesMoney ? (copy.${name} ?? first.${name}) : (first.${name} ?? copy.${name})`,
};
const merged = (record) => (field) => {
  const merge = merges[field.merge];
  if (merge === undefined)
    throw new Error(`${record.name}.${field.name} does not say its merge: ${Object.keys(merges).join(", ")}`);
  return `  ${field.name}: ${merge(field)},`;
};

/** A value for JSON, which has no bigint: amounts become texts. */
const plainOf = ({ name, type }) =>
  plainType(type).plain.logicalType === "minor-units" ? `event.${name}?.toString() ?? null` : `event.${name}`;

/** The fields that even an event without a sender has. */
const SAID = ["event_id", "client_id", "t", "ts", "source", "personal_form"];
const emptyFields = ({ fields }, indent) =>
  fields
    .filter(({ name }) => !SAID.includes(name))
    .map((field) => `${indent}${field.name}: ${emptyOf(field)},`)
    .join("\n");

export const nothingFoundText = (
  schemas,
  doNotEdit,
) => `// Empty parts of an event: an event that no sender sent, and the results of stages that have not
// seen it. ${doNotEdit}
import type { Enrichment, EventReceived, Fraud } from "../schemas/generated.ts";
import { PERSONAL_FORM } from "./personal/personal-form.ts";

export const nothingFound: { readonly enrichment: Enrichment; readonly fraud: Fraud } = {
  enrichment: {
${emptyFields(schemas.get("Enrichment"), "    ")}
  },
  fraud: {
${emptyFields(schemas.get("Fraud"), "    ")}
  },
};

/** An event without a sender. Its source is \`decision\`, which no edge writes. */
export const blankEvent = (
  known: Pick<EventReceived, "event_id" | "client_id" | "t" | "ts"> & Partial<EventReceived>,
): EventReceived => ({
${emptyFields(schemas.get("EventReceived"), "  ")}
  source: "decision",
  personal_form: PERSONAL_FORM,
  ...known,
});
`;

/** The fields that a condition may use, with the part of a stored event that contains them. */
export const conditionsOf = (schemas) =>
  Object.entries({ event: "EventReceived", enrichment: "Enrichment" }).flatMap(([part, record]) =>
    schemas
      .get(record)
      .fields.filter(({ condition }) => condition === true)
      .map(({ name, type, column }) => {
        if (plainType(type).plain !== "string") throw new Error(`a condition compares texts, and ${name} is none`);
        if (column === undefined || column.name !== undefined)
          throw new Error(`a condition asks for ${name} in the store too: give it a column of its own name`);
        return { part, name };
      }),
  );

export const fieldsText = (schemas, doNotEdit) => {
  const [event, enrichment] = ["EventReceived", "Enrichment"].map((name) => schemas.get(name));
  const mergeOf = (record) => record.fields.map(merged(record)).join("\n");
  const decided = event.fields.filter(({ merge }) => merge === "decided").map(({ name }) => `"${name}"`);
  const ofLine = event.fields.filter((field) => field.of === "line").map(({ name }) => `  ${name}: null,`);
  const plain = event.fields.map((field) => `  ${field.name}: ${plainOf(field)},`);
  const texts = conditionsOf(schemas).map(({ part, name }) => `  ${name}: ({ ${part} }) => ${part}.${name},`);
  return `// Attributes of event fields other than types, from the schemas. ${doNotEdit}
import type { Enrichment, EventReceived } from "./generated.ts";

/** What settle decides: the segment, the amount, and whether the copy's money is used. */
export interface Decisions extends Pick<EventReceived, ${decided.join(" | ")}> {
  readonly takesMoney: boolean;
}

/**
 * The first copy of a sale with the additions of a second one. Fields that describe its sender
 * stay.
 */
export const mergedEvent = (first: EventReceived, copy: EventReceived, decided: Decisions): EventReceived => ({
${mergeOf(event)}
});

export const mergedEnrichment = (first: Enrichment, copy: Enrichment): Enrichment => ({
${mergeOf(enrichment)}
});

/** The event without the fields about one line of an order. */
export const withoutLine = (event: EventReceived): EventReceived => ({
  ...event,
${ofLine.join("\n")}
});

/**
 * The event for JSON, which has no bigint. Field by field: every sale is written in this way, and a
 * spread costs a quarter more.
 */
export const plainEvent = (event: EventReceived) => ({
${plain.join("\n")}
});

interface Subject {
  readonly event: EventReceived;
  readonly enrichment: Enrichment;
}
/** The texts that a condition may use, by the name of their field. */
export const conditionTexts: Readonly<Record<string, (subject: Subject) => string | null>> = {
${texts.join("\n")}
};
`;
};
