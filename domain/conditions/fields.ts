// The fields that a condition may ask for, and how each is read from an event.
import type { Enrichment, EventReceived } from "../../schemas/generated.ts";
import { conditionTexts } from "../../schemas/generated-fields.ts";
import { mayName, type Props, propsOf } from "./props.ts";
import { queryValueOf, type UrlParts, urlPartsOf } from "./url-parts.ts";

/**
 * text: always a text; money: the event's amount, compared as an exact decimal; any: whatever a
 * sender put into the props.
 */
export type FieldKind = "text" | "money" | "any";

/**
 * An event as conditions see it. What must be parsed first (URLs, props) is parsed when a condition
 * asks for it, once.
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
  /** The props, or undefined where `name` is surely not among them: then nothing is parsed. */
  propsNaming(name: string): Props | undefined {
    if (this.#props === undefined && mayName(this.event.props, name)) this.#props = propsOf(this.event.props);
    return this.#props;
  }
}

/**
 * Undefined: the event does not have it. Props give whatever stands there, all other fields a text.
 */
export type ReadField = (subject: Subject) => unknown;

/**
 * Region and city need data that only an operator can bring; without it no event has these two.
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

/** A custom event goes by its own name: in conditions, contracts and conversions alike. */
const eventTypeOf = (event: EventReceived): string =>
  event.t === "custom" && event.custom_name !== null ? event.custom_name : event.t;

/** Undefined: no such field. */
export const kindOf = (field: string): FieldKind | undefined => {
  if (field === "value") return "money";
  if (field.startsWith(propsPrefix)) return pathOf(field).every((name) => name !== "") ? "any" : undefined;
  if (field.startsWith(queryPrefix)) return field.length > queryPrefix.length ? "text" : undefined;
  return field === "coupon" || Object.hasOwn(texts, field) ? "text" : undefined;
};

/**
 * How to read a field that is text or any. Throws RangeError on one that is neither: conditions are
 * checked before.
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

/** The names on the way to a value inside the props: `props.cart.items` is ["cart", "items"]. */
export const pathOf = (field: string): readonly string[] => field.slice(propsPrefix.length).split(".");
/** `name` of the field `url.query.<name>`; undefined for any other field. */
export const queryNameOf = (field: string): string | undefined =>
  field.startsWith(queryPrefix) ? field.slice(queryPrefix.length) : undefined;

const propReader = (path: readonly string[]): ReadField => {
  const name = path[0]!;
  return (subject) => at(subject.propsNaming(name), path);
};

/**
 * Own properties of objects only: a name like `constructor` must not find what every object has,
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
