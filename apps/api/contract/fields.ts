// The fields of contracts. Those of answers turn stored values into sent ones: times from
// milliseconds into RFC 3339, addresses into masked ones for a viewer.
import { z } from "zod";
import { digitsOf } from "../../../domain/money.ts";
import { MASK, maskedAddress } from "../../../domain/personal/masked-address.ts";

/** Ids of clients, partners, campaigns, rules and payments are positive int4 in Postgres. */
const INT4 = 2_147_483_647;
export const id = z.int().min(1).max(INT4);
/** An id in a path or a query. */
export const idText = z.codec(z.string().regex(/^[1-9]\d{0,9}$/, "give an id: a positive whole number"), id, {
  decode: Number,
  encode: String,
});
export const ofId = z.strictObject({ id: idText });

/** One of these values. */
export const choice = <Value extends string>(values: readonly Value[]) =>
  z.enum(Object.fromEntries(values.map((value) => [value, value])) as { readonly [V in Value]: V });

/** Control characters, and marks that change the direction of writing. */
const INVISIBLE = /[\p{Cc}\u200e\u200f\u202a-\u202e\u2066-\u2069]/u;
/** A text on one line, as a person writes it. */
export const words = (most: number) =>
  z
    .string()
    .trim()
    .min(1, "give a text of at least one character")
    .max(most, `at most ${most} characters`)
    .refine((text) => !INVISIBLE.test(text), "leave out controls and marks of direction");

export const currency = z
  .string()
  .refine((code) => digitsOf(code) !== undefined, "give an upper-case ISO 4217 code, e.g. MXN");
export const url = z.url({ protocol: /^https?$/, error: "give a full http or https URL" }).max(2_048);
export const eventType = z.string().regex(/^[a-z][a-z0-9_.:-]{0,63}$/, "give an event name");

export const segment = z.string().regex(/^[A-Z0-9]{2,8}$/, "2 to 8 upper-case letters and digits");

const numberText = (pattern: RegExp, hint: string) =>
  z.codec(z.string().regex(pattern, hint), z.int(), { decode: Number, encode: String });
/** A month of America/Mexico_City, in a query and in a body. */
export const yearText = numberText(/^(20\d\d|2100)$/, "give a year from 2000 to 2100");
export const monthText = numberText(/^([1-9]|1[0-2])$/, "give a month from 1 to 12");
export const ofMonth = { year: z.int().min(2_000).max(2_100), month: z.int().min(1).max(12) };

/** A day of America/Mexico_City. */
export const day = z.iso
  .date("give a day as YYYY-MM-DD")
  .refine((text) => text >= "2000" && text < "2101", "give a day of the years 2000 to 2100");
/** A time that is stored as Unix milliseconds. */
export const time = z.codec(z.number(), z.iso.datetime(), {
  decode: (at) => new Date(at).toISOString(),
  encode: (text) => Date.parse(text),
});
/** `a***@example.com`; a text that is no address becomes `***`. */
export const maskedEmail = z.codec(z.string(), z.string(), {
  decode: maskedAddress,
  encode: (text) => text,
});
/** Shows only that there is a value. */
export const masked = z.codec(z.string(), z.string(), { decode: () => MASK, encode: (text) => text });

/** An amount or a rate as text, written by a module. */
export const decimal = z.string();
/** A decimal with the digits of its currency. */
export const money = z.string().regex(/^-?\d+(?:\.\d+)?$/);

/** Whether the field is a number in a CSV file. */
export const isNumeric = (field: unknown): boolean =>
  field instanceof z.ZodNullable || field instanceof z.ZodOptional
    ? isNumeric(field.unwrap())
    : field instanceof z.ZodNumber || field === decimal || field === money;

/**
 * The version that the caller has seen, in the body of a write; it has the effect of `If-Match`.
 */
export const version = z.int().min(1).optional();

/** `from` and `to` are days of America/Mexico_City, both included; see modules/base/days.ts. */
export const range = { from: day.optional(), to: day.optional() };
