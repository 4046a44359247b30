// Makes requests from contracts: values that a schema accepts, for tests that must reach the row
// behind it, and values that it must refuse.
import { z } from "zod";
import type { ServedRoute } from "../../apps/api/route.ts";

type Schema = Readonly<Record<string, any>>;
export type Hints = Readonly<Record<string, unknown>>;

const jsonSchemaOf = (schema: z.ZodType): Schema =>
  z.toJSONSchema(schema, { io: "input", target: "draft-2020-12", unrepresentable: "any" }) as Schema;

/** One text for each form that our patterns ask for; the first one that matches is used. */
const texts: readonly string[] = [
  ...["QZ", "qz-thing", "purchase", "1", "1.00", "2090-01-01", "2090-01-01T00:00:00Z", "qz@people.example"],
  ...["https://shop.example/", "MXN", "inv_1", "ord_1", "11111111-1111-4111-8111-111111111111"],
  "job_11111111-1111-4111-8111-111111111111",
  ...["imp_11111111-1111-4111-8111-111111111111", "src_1"],
];
/** Values by field name, for fields whose schema alone does not tell. */
const usual: Hints = {
  ...{ email: "qz@people.example", currency: "MXN", kind: undefined, event_type: "purchase", t: "purchase" },
  ...{ when: { field: "t", op: "eq", value: "x" } },
  ...{ starts_on: "2090-01-01", effective_from: "2090-01-01", year: 2090, month: 1, rate: "10", amount: "10.00" },
};

const formats: Readonly<Record<string, string>> = {
  email: "qz@people.example",
  uri: "https://shop.example/",
  date: "2090-01-01",
  "date-time": "2090-01-01T00:00:00Z",
  uuid: "11111111-1111-4111-8111-111111111111",
};

const typeOf = (value: unknown, { type }: Schema): unknown => {
  if (Array.isArray(value)) return "array";
  return typeof value === "number" && type === "integer" ? type : typeof value;
};

/** A value that matches the schema, with the required fields only. */
const sample = (root: Schema, schema: Schema, name: string, hints: Hints): unknown => {
  const known = hints[name] ?? usual[name];
  const isOpen = ["type", "$ref", "const", "enum", "anyOf", "oneOf"].every((word) => schema[word] === undefined);
  if (known !== undefined && (isOpen || typeOf(known, schema) === schema.type)) return known;
  if (typeof known === "number" && schema.type === "string") return String(known);
  if (schema.$ref !== undefined) return sample(root, root.$defs[schema.$ref.split("/").at(-1)], name, hints);
  if (schema.const !== undefined) return schema.const;
  if (schema.enum !== undefined) return schema.enum[0];
  const form = (schema.anyOf ?? schema.oneOf)?.find(({ type }: Schema) => type !== "null");
  if (form !== undefined) return sample(root, form, name, hints);
  if (schema.type === "object") return sampleObject(root, schema, hints);
  if (schema.type === "array")
    return Array.from({ length: schema.minItems ?? 0 }, () => sample(root, schema.items, name, hints));
  if (schema.type === "integer" || schema.type === "number") return schema.minimum ?? 1;
  if (schema.type === "boolean") return false;
  if (schema.type === "null") return null;
  const formed = formats[schema.format];
  if (formed !== undefined) return formed;
  const patterns = [schema.pattern, ...(schema.allOf ?? []).map((one: Schema) => one.pattern)].filter(Boolean);
  return texts.find((text) => patterns.every((pattern) => new RegExp(pattern, "u").test(text))) ?? "QZ";
};

const sampleObject = (root: Schema, { properties = {}, required = [] }: Schema, hints: Hints): object =>
  Object.fromEntries(
    Object.entries(properties as Readonly<Record<string, Schema>>)
      .filter(([name]) => required.includes(name) || hints[name] !== undefined)
      .map(([name, part]) => [name, sample(root, part, name, hints)]),
  );

/** A body that the schema accepts, or undefined if none could be made. */
export const bodyFor = (schema: z.ZodType, hints: Hints): unknown => {
  const root = jsonSchemaOf(schema);
  const made = sample(root, root, "", hints);
  return schema.safeParse(made).success ? made : undefined;
};

/** A query that the schema accepts, without the leading `?`. */
export const queryTextFor = (schema: z.ZodType, hints: Hints): string | undefined => {
  const root = jsonSchemaOf(schema);
  const made = sampleObject(root, root, hints) as Readonly<Record<string, unknown>>;
  const query = Object.fromEntries(Object.entries(made).map(([name, value]) => [name, String(value)]));
  return schema.safeParse(query).success ? new URLSearchParams(query).toString() : undefined;
};

/** Names of the fields of a body or a query, in all of its forms. */
export const namesIn = (schema: z.ZodType): readonly string[] => {
  const { properties = {}, anyOf = [], oneOf = [] } = jsonSchemaOf(schema);
  const forms: readonly Schema[] = [{ properties }, ...anyOf, ...oneOf];
  return [...new Set(forms.flatMap((form) => Object.keys(form.properties ?? {})))];
};

/** Ids of the rows of one tenant. */
export interface Rows {
  readonly client: number;
  readonly partner: number;
  readonly campaign: number;
  /** Ids of all other records, by the first part of their path, e.g. "jobs". */
  readonly ids: Readonly<Record<string, string>>;
}
export const hintsOf = ({ client, partner, campaign, ids }: Rows): Hints => ({
  ...{ client_id: client, partner_id: partner, campaign_id: campaign, order_id: ids.orders, event_id: ids.events },
  ...{ client_ids: [client], partner_ids: [partner], partners: [partner] },
});

/** The id that fills the first parameter of a path, by the path's first part. */
const byCollection: Readonly<Record<string, (rows: Rows) => string>> = {
  clients: ({ client }) => String(client),
  "client-portal": ({ client }) => String(client),
  partners: ({ partner }) => String(partner),
  campaigns: ({ campaign }) => String(campaign),
};
export const firstOf = (route: ServedRoute): string | undefined => /^\/api\/(?:v3\/)?([\w-]+)\/:/.exec(route.path)?.[1];

/** The path of a route with its parameters filled in; undefined if no such row is known. */
export const pathOf = (route: ServedRoute, rows: Rows): string | undefined => {
  const collection = firstOf(route);
  const id = collection === undefined ? "" : (byCollection[collection]?.(rows) ?? rows.ids[collection]);
  if (id === undefined) return undefined;
  let n = 0;
  return route.path.replace(/:\w+/g, (name) => {
    n += 1;
    return n === 1 && collection !== undefined ? encodeURIComponent(id) : name === ":code" ? "QZ" : "1";
  });
};

/** The same path for a row that does not exist, with ids of the form that the contract asks for. */
export const pathOfNone = (route: ServedRoute, rows: Rows): string => {
  const form = jsonSchemaOf(route.contract.params);
  const params = sampleObject(form, form, {}) as Readonly<Record<string, unknown>>;
  return (
    pathOf(route, rows) ?? route.path.replace(/:(\w+)/g, (_all, name) => encodeURIComponent(String(params[name] ?? 1)))
  );
};
