// Reads the fields of a processor's notice by their paths; one that does not fit is refused by its
// name.
import { digitsOf } from "../../../domain/currencies.ts";
import { EVENT_ID } from "../../../domain/ids.ts";
import { toDecimal, toMinor } from "../../../domain/money.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { refuse } from "../refuse.ts";
import type { Json } from "./provider.ts";

const MAX_ID = 100;
/** 2^53: what JSON writes exactly. */
const AMOUNT = /^\d{1,15}$/;

export const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Of own keys, and numbers in lists, alone; undefined where the path ends before. */
export const fieldOf = (from: Json, path: string): unknown => {
  let value: unknown = from;
  for (const key of path.split(".")) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Json)[key];
  }
  return value;
};

export const objectAt = (from: Json, path: string): Json => {
  const value = fieldOf(from, path);
  return isObject(value) ? value : refuse("missing_field", path, "must be an object");
};

/** An object, or none: also where it is null, or a list as PHP writes an empty one. */
export const optionalObject = (from: Json, path: string): Json => {
  const value = fieldOf(from, path);
  return isObject(value) ? value : {};
};

export const textAt = (from: Json, path: string): string => {
  const value = fieldOf(from, path);
  return typeof value === "string" && value !== "" ? value : refuse("missing_field", path, "must be a text");
};

/** An id as text or as a number, of characters that ids of ours may have. */
export const idAt = (from: Json, path: string): string => {
  const value = fieldOf(from, path);
  const id = Number.isSafeInteger(value) ? String(value) : value;
  return typeof id === "string" && id.length <= MAX_ID && EVENT_ID.test(id)
    ? id
    : refuse("bad_field", path, `must be an id of 1 to ${MAX_ID} of A-Z a-z 0-9 . _ : -`);
};

export const optionalId = (from: Json, path: string): string | null => {
  const value = fieldOf(from, path);
  return value === undefined || value === null || value === "" ? null : idAt(from, path);
};

/** An ISO 4217 code in upper case. */
export const currencyAt = (from: Json, path: string): string => {
  const value = fieldOf(from, path);
  const code = typeof value === "string" ? value.toUpperCase() : "";
  return digitsOf(code) === undefined ? refuse("bad_currency", path, "is not an ISO 4217 currency") : code;
};

/** A whole number of minor units, 0 or more; also as text. */
export const minorAt = (from: Json, path: string): bigint => {
  const value = fieldOf(from, path);
  const text = Number.isSafeInteger(value) ? String(value) : value;
  return typeof text === "string" && AMOUNT.test(text)
    ? BigInt(text)
    : refuse("bad_amount", path, "must be a whole number of minor units, 0 or more");
};

/** A decimal of `currency`, as a number or as text, 0 or more, in minor units. */
export const decimalAt = (from: Json, path: string, currency: string): bigint => {
  const value = fieldOf(from, path);
  if (typeof value !== "number" && typeof value !== "string")
    return refuse("bad_amount", path, "must be a decimal like 1234.50");
  const amount = toMinor(value, currency);
  if (amount.kind === "bad_amount") return refuse("bad_amount", path, amount.why);
  if (amount.isRounded) return refuse("bad_amount", path, `has more decimals than ${currency} has`);
  return amount.minor >= 0n ? amount.minor : refuse("bad_amount", path, "must be 0 or more");
};

const RFC_3339 = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})$/;
export const timeAt = (from: Json, path: string): UnixMs => {
  const value = fieldOf(from, path);
  const at = typeof value === "string" && RFC_3339.test(value) ? Date.parse(value) : Number.NaN;
  return Number.isNaN(at) ? refuse("bad_field", path, "must be a time like 2026-01-31T12:00:00-06:00") : at;
};

/**
 * The processor's minor units as decimal text. `decimals` are those that the processor writes where
 * they are not the currency's own; what the currency has no digits for is refused at `path`.
 */
export const decimalOf = (
  minor: bigint,
  currency: string,
  decimals: Readonly<Record<string, number>>,
  path: string,
): string => {
  const own = digitsOf(currency)!;
  const written = decimals[currency] ?? own;
  if (written <= own) return toDecimal(minor * 10n ** BigInt(own - written), currency);
  const unit = 10n ** BigInt(written - own);
  if (minor % unit !== 0n) refuse("bad_amount", path, `has more decimals than ${currency} has`);
  return toDecimal(minor / unit, currency);
};
