// Reads the fields of a provider's notice by their paths. A field of the wrong type is refused with
// its path.

import { EVENT_ID } from "../../../domain/ids.ts";
import { digitsOf, toDecimal, toMinor } from "../../../domain/money.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { refuse } from "../refuse.ts";
import type { Json } from "./provider.ts";

const MAX_ID = 100;
/** At most 15 digits, which JSON writes exactly (below 2^53). */
const AMOUNT = /^\d{1,15}$/;

export const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * Follows own keys of objects and indexes of lists only. Returns undefined where the path does not
 * exist.
 */
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

/**
 * Returns an object, or an empty one if the field is absent, null or a list (PHP writes an empty
 * object as a list).
 */
export const optionalObject = (from: Json, path: string): Json => {
  const value = fieldOf(from, path);
  return isObject(value) ? value : {};
};

export const textAt = (from: Json, path: string): string => {
  const value = fieldOf(from, path);
  return typeof value === "string" && value !== "" ? value : refuse("missing_field", path, "must be a text");
};

/** Reads an id given as text or number, whose characters must be allowed in our ids. */
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

/** Reads an ISO 4217 code and returns it in upper case. */
export const currencyAt = (from: Json, path: string): string => {
  const value = fieldOf(from, path);
  const code = typeof value === "string" ? value.toUpperCase() : "";
  return digitsOf(code) === undefined ? refuse("bad_currency", path, "is not an ISO 4217 currency") : code;
};

/** Reads a whole number of minor units, 0 or more, given as number or text. */
export const minorAt = (from: Json, path: string): bigint => {
  const value = fieldOf(from, path);
  const text = Number.isSafeInteger(value) ? String(value) : value;
  return typeof text === "string" && AMOUNT.test(text)
    ? BigInt(text)
    : refuse("bad_amount", path, "must be a whole number of minor units, 0 or more");
};

/**
 * Reads a decimal amount of `currency`, 0 or more, given as number or text. Returns minor units.
 */
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
 * Converts the provider's minor units to decimal text. `decimals` lists the currencies for which
 * the provider uses other digits than ISO 4217. An amount with more digits than its currency has is
 * refused at `path`.
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
