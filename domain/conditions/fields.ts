// The fields that a condition may use, and how each is read from an event.
import type { Enrichment, EventReceived } from "../../schemas/generated.ts";
import { conditionTexts } from "../../schemas/generated-fields.ts";
import { codeOf, codePartOf, mayName, type Props, propsOf } from "./props.ts";
import { queryValueOf, type UrlParts, urlPartsOf } from "./url-parts.ts";

/**
 * text: always a text. money: the event's amount, compared as an exact decimal. any: whatever value
 * a sender put into the props.
 */
export type FieldKind = "text" | "money" | "any";

/**
 * An event as conditions see it. URL and props are parsed once, when a condition first needs them.
 */
export class Subject {
  readonly event: EventReceived;
  readonly enrichment: Enrichment;
  #url: UrlParts | null | undefined;
  #ref: UrlParts | null | undefined;
  #props: Props | undefined;

  constructor({ event, enrichment }: { readonly event: EventReceived; readonly enrichment: Enrichment }) {
    this.event = event;
    this.enrichment = enrichment;
  }
  get url(): UrlParts | null {
    if (this.#url === undefined) this.#url = urlPartsOf(this.event.url);
    return this.#url;
  }
  get ref(): UrlParts | null {
    if (this.#ref === undefined) this.#ref = urlPartsOf(this.event.ref);
    return this.#ref;
  }
  /** The parsed props. Undefined, without parsing, if `name` certainly does not occur in them. */
  propsNaming(name: string): Props | undefined {
    if (this.#props === undefined && mayName(this.event.props, name)) this.#props = propsOf(this.event.props);
    return this.#props;
  }
}

/**
 * Undefined if the event lacks the field. Props may hold any value; every other field is a text.
 */
export type ReadField = (subject: Subject) => unknown;

/**
 * Region and city need data that an operator must supply. Without it, no event has these two
 * fields.
 */
const texts: Readonly<Record<string, (subject: Subject) => string | null | undefined>> = {
  ...conditionTexts,
  t: ({ event }) => eventTypeOf(event),
  "url.host": ({ url }) => url?.host,
  "url.path": ({ url }) => url?.path,
  "ref.host": ({ ref }) => ref?.host,
};
const queryPrefix = "url.query.";
const propsPrefix = "props.";

/** Conditions, contracts and conversions all use a custom event's own name as its type. */
const eventTypeOf = (event: EventReceived): string =>
  event.t === "custom" && event.custom_name !== null ? event.custom_name : event.t;

/** The kind of a field; undefined if there is no such field. */
export const kindOf = (field: string): FieldKind | undefined => {
  if (field === "value") return "money";
  if (field.startsWith(propsPrefix)) return pathOf(field).every((name) => name !== "") ? "any" : undefined;
  if (field.startsWith(queryPrefix)) return field.length > queryPrefix.length ? "text" : undefined;
  return field === "coupon" || Object.hasOwn(texts, field) ? "text" : undefined;
};

/**
 * Returns the reader of a field of kind text or any. Throws RangeError on other fields, which the
 * check of conditions prevents.
 */
export const readerOf = (field: string): ReadField => {
  const known = Object.hasOwn(texts, field) ? texts[field] : undefined;
  if (known !== undefined) return (subject) => known(subject) ?? undefined;
  if (field === "coupon") return propReader(["coupon"]);
  if (field.startsWith(propsPrefix)) return propReader(pathOf(field));
  if (field.startsWith(queryPrefix)) {
    const name = field.slice(queryPrefix.length);
    return (subject) => queryValueOf(subject.url?.query, name);
  }
  throw new RangeError(`there is no field ${field}`);
};

const propReader = (path: readonly string[]): ReadField => {
  const name = path[0]!;
  return (subject) => at(subject.propsNaming(name), path);
};

const coupon = propReader(["coupon"]);
/** Reads a field in the form in which it is compared: coupons without case and outer space. */
export const comparedReaderOf = (field: string): ReadField =>
  field === "coupon"
    ? (subject) => {
        const given = coupon(subject);
        return typeof given === "string" ? codeOf(given) : given;
      }
    : readerOf(field);
/** The value of a comparison in the same form. `exists` and other fields have it as it is. */
export const comparedValueOf = ({ field, op, value }: Comparison): unknown => {
  if (field !== "coupon" || op === "exists") return value;
  if (Array.isArray(value)) return value.map(codeOf);
  return op === "eq" || op === "ne" ? codeOf(value as string) : codePartOf(value as string);
};
interface Comparison {
  readonly field: string;
  readonly op: string;
  readonly value: unknown;
}

/** The path to a value inside the props: `props.cart.items` is ["cart", "items"]. */
export const pathOf = (field: string): readonly string[] => field.slice(propsPrefix.length).split(".");
/** The parameter name in a field `url.query.<name>`. Undefined for any other field. */
export const queryNameOf = (field: string): string | undefined =>
  field.startsWith(queryPrefix) ? field.slice(queryPrefix.length) : undefined;

/**
 * Only own properties of objects: a name like `constructor` must not find an inherited property,
 * and a list has no names.
 */
const at = (value: unknown, path: readonly string[]): unknown => {
  let here = value;
  for (const name of path) {
    if (typeof here !== "object" || here === null || Array.isArray(here) || !Object.hasOwn(here, name))
      return undefined;
    here = (here as Readonly<Record<string, unknown>>)[name];
  }
  return here ?? undefined;
};
