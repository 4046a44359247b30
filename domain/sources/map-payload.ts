// Maps a payload of a source to our fields. Pure, and the same for real payloads and for trying out
// a draft mapping.
import { meetingId } from "../ids.ts";
import { endOf, kindOf, readPath, type SourcePath, valueAt } from "./path.ts";
import { type LogicalField, logicalFields, type ReadMapping, type SourceMapping } from "./source.ts";

/** The mapped and coerced fields. Absent fields are left out. Times are Unix milliseconds. */
export interface MappedPayload {
  readonly event_name: string;
  readonly dedup_key?: string;
  readonly value?: string | number;
  readonly currency?: string;
  readonly partner_param?: string;
  readonly order_id?: string;
  readonly click_id?: string;
  readonly ts?: number;
  readonly did?: string;
  readonly product_id?: string;
  readonly product_line?: string;
  readonly quantity?: number;
  readonly url?: string;
  readonly reason?: string;
}

/** Why a payload cannot be mapped. `found` describes the value but never quotes it. */
export interface MappingFault {
  readonly code: "missing_field" | "bad_field" | "unknown_event";
  readonly field: LogicalField;
  /** The configured path. Null if there is none. */
  readonly path: string | null;
  readonly found: string;
  /** How to fix the fault. */
  readonly hint: string;
}

/** Throws RangeError for an invalid path, which no checked mapping contains. */
export const readMapping = ({ mapping, constants, event_names }: SourceMapping): ReadMapping => ({
  fields: logicalFields.flatMap((field) => {
    const text = Object.hasOwn(mapping, field) ? mapping[field] : undefined;
    const constant = Object.hasOwn(constants, field) ? (constants[field] ?? null) : null;
    return text === undefined && constant === null
      ? []
      : [{ field, path: text === undefined ? null : pathOf(text), constant }];
  }),
  eventNames: new Map(Object.entries(event_names)),
});

const pathOf = (text: string): SourcePath => {
  const path = readPath(text);
  if ("problem" in path) throw new RangeError(`${text}: ${path.problem}`);
  return path;
};

/** The form of our event names: a type, or the name of a custom event. */
export const EVENT_NAME = /^[a-z][a-z0-9_.:-]{0,63}$/;
export const MAX_TEXT = 256;
const MAX_URL = 2_048;

/**
 * Maps one payload. Empty texts and null count as absent, and an absent field is no fault. A
 * dedup_key is required, unless the rows have an identity of their own.
 */
export const mapPayload = (
  payload: unknown,
  { fields, eventNames }: ReadMapping,
  { needsKey = true }: { readonly needsKey?: boolean } = {},
): MappedPayload | MappingFault => {
  const mapped: Partial<Record<LogicalField, string | number>> = {};
  for (const { field, path, constant } of fields) {
    const given = path === null ? undefined : valueAt(payload, path);
    const value = isAbsent(given) ? constant : given;
    if (isAbsent(value)) continue;
    const read = coercions[field](value);
    if (read === undefined)
      return { code: "bad_field", field, path: path?.text ?? null, found: kindOf(value), hint: hints[field] };
    // All payloads with one placeholder would be one event.
    if (field === "dedup_key" && meetingId(read as string) === null) {
      if (needsKey) return { ...missing(field, payload, fields), found: "a placeholder" };
      continue;
    }
    mapped[field] = read;
  }
  for (const field of needsKey ? (["event_name", "dedup_key"] as const) : (["event_name"] as const))
    if (mapped[field] === undefined) return missing(field, payload, fields);
  const theirs = mapped.event_name as string;
  const name = eventNames.get(theirs) ?? theirs;
  if (!EVENT_NAME.test(name)) {
    const path = fields.find(({ field }) => field === "event_name")?.path?.text ?? null;
    return { code: "unknown_event", field: "event_name", path, found: "a name of no event", hint: hints.event_name };
  }
  return { ...mapped, event_name: name } as MappedPayload;
};

const isAbsent = (value: unknown): boolean => value === undefined || value === null || value === "";

const missing = (field: LogicalField, payload: unknown, fields: ReadMapping["fields"]): MappingFault => {
  const path = fields.find((one) => one.field === field)?.path ?? null;
  const found = path === null ? "no path and no constant" : endOf(payload, path);
  return { code: "missing_field", field, path: path?.text ?? null, found, hint: hints[field] };
};

type Coerce = (value: unknown) => string | number | undefined;

/** Ids may be text or numbers. */
const text =
  (most: number): Coerce =>
  (value) => {
    const given = typeof value === "string" ? value.trim() : Number.isSafeInteger(value) ? String(value) : "";
    return given !== "" && given.length <= most ? given : undefined;
  };
const amount: Coerce = (value) =>
  typeof value === "string" ? value.trim() : typeof value === "number" ? value : undefined;
const currency: Coerce = (value) => (typeof value === "string" ? value.trim().toUpperCase() : undefined);
const count: Coerce = (value) => {
  const given = typeof value === "string" && /^\d{1,7}$/.test(value.trim()) ? Number(value) : value;
  return Number.isSafeInteger(given) ? (given as number) : undefined;
};

const RFC3339 = /^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})$/i;
/**
 * A larger number is in milliseconds, which passed this value in 1973. Seconds will only reach it
 * in 5138.
 */
const FIRST_MS = 100_000_000_000;
const moment: Coerce = (value) => {
  const given = typeof value === "string" ? value.trim() : value;
  if (typeof given === "string" && RFC3339.test(given)) {
    const at = Date.parse(given.replace(" ", "T"));
    return Number.isNaN(at) ? undefined : at;
  }
  const seconds = typeof given === "string" && /^\d{1,16}(?:\.\d+)?$/.test(given) ? Number(given) : given;
  if (typeof seconds !== "number" || !Number.isFinite(seconds) || seconds < 0) return undefined;
  return Math.trunc(seconds < FIRST_MS ? seconds * 1_000 : seconds);
};

const id = text(MAX_TEXT);
const coercions: Readonly<Record<LogicalField, Coerce>> = {
  event_name: id,
  value: amount,
  currency,
  partner_param: id,
  dedup_key: id,
  order_id: id,
  click_id: id,
  ts: moment,
  did: id,
  product_id: id,
  product_line: id,
  quantity: count,
  url: text(MAX_URL),
  reason: id,
};

const idHint = `send a text of 1 to ${MAX_TEXT} characters or a whole number`;
const hints: Readonly<Record<LogicalField, string>> = {
  event_name: "send an event type, a name like signup, or add theirs to event_names",
  value: "send a number or a numeric text like 1234.50",
  currency: "send an ISO 4217 code like MXN",
  partner_param: idHint,
  dedup_key: idHint,
  order_id: idHint,
  click_id: idHint,
  ts: "send Unix time in seconds or milliseconds, or RFC 3339 with a zone",
  did: idHint,
  product_id: idHint,
  product_line: idHint,
  quantity: "send a whole number",
  url: `send a text of 1 to ${MAX_URL} characters`,
  reason: idHint,
};
