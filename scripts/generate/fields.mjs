// Writes schemas/generated-fields.ts: what the fields of an event hold when nothing is known, what
// a second copy adds to a first one, and which texts a condition may ask for.
import { plainType } from "./attributes.mjs";

const zeros = { string: '""', int: "0", long: "0", boolean: "false" };

/** The value of a field that no sender and no stage has said anything of. */
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
  money: ({ name }) => `money.${name}`,
  with_money: ({ name }) => `money.takesMoney ? (copy.${name} ?? first.${name}) : (first.${name} ?? copy.${name})`,
};
const merged = (record) => (field) => {
  const merge = merges[field.merge];
  if (merge === undefined)
    throw new Error(`${record.name}.${field.name} does not say its merge: ${Object.keys(merges).join(", ")}`);
  return `  ${field.name}: ${merge(field)},`;
};

const emptyRecord = ({ name, fields }) => {
  const values = fields.map((field) => `  ${field.name}: ${emptyOf(field)},`);
  return `export const empty${name}: ${name} = {\n${values.join("\n")}\n};`;
};

export const fieldsText = (schemas, doNotEdit) => {
  const [event, enrichment, fraud] = ["EventReceived", "Enrichment", "Fraud"].map((name) => schemas.get(name));
  const mergeOf = (record) => record.fields.map(merged(record)).join("\n");
  const money = event.fields.filter(({ merge }) => merge === "money").map(({ name }) => `"${name}"`);
  const ofLine = event.fields.filter((field) => field.of === "line").map(({ name }) => `  ${name}: null,`);
  const texts = [
    ["event", event],
    ["enrichment", enrichment],
  ].flatMap(([part, { fields }]) =>
    fields
      .filter(({ condition }) => condition === true)
      .map(({ name, type, column }) => {
        if (plainType(type).plain !== "string") throw new Error(`a condition compares texts, and ${name} is none`);
        if (column === undefined || column.name !== undefined)
          throw new Error(`a condition asks for ${name} in the store too: give it a column of its own name`);
        return `  ${name}: ({ ${part} }) => ${part}.${name},`;
      }),
  );
  return `// What the schemas say of the fields of an event beside their types. ${doNotEdit}
import type { Enrichment, EventReceived, Fraud } from "./generated.ts";

/** Nothing is known of it. */
${[event, enrichment, fraud].map(emptyRecord).join("\n\n")}

/** Whose money it is, and what it comes to. */
interface Money extends Pick<EventReceived, ${money.join(" | ")}> {
  readonly takesMoney: boolean;
}

/** The first copy of a sale with what a second one adds; what describes its sender stays. */
export const mergedEvent = (first: EventReceived, copy: EventReceived, money: Money): EventReceived => ({
${mergeOf(event)}
});

export const mergedEnrichment = (first: Enrichment, copy: Enrichment): Enrichment => ({
${mergeOf(enrichment)}
});

/** Without what is said of one line of an order. */
export const withoutLine = (event: EventReceived): EventReceived => ({
  ...event,
${ofLine.join("\n")}
});

interface Subject {
  readonly event: EventReceived;
  readonly enrichment: Enrichment;
}
/** The texts that a condition may ask for by the names of their fields. */
export const conditionTexts: Readonly<Record<string, (subject: Subject) => string | null>> = {
${texts.join("\n")}
};
`;
};
