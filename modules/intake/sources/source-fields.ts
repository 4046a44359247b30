// The schema of a source's fields, for requests and for files.
import { z } from "zod";
import { EVENT_NAME, MAX_TEXT } from "../../../domain/sources/map-payload.ts";
import { readPath } from "../../../domain/sources/path.ts";
import {
  type LogicalField,
  logicalFields,
  relayModes,
  sourceKinds,
  sourceStates,
} from "../../../domain/sources/source.ts";
import { isBlock } from "./allow-list.ts";
import { keyBytesOf, SECRET_PREFIX } from "./signed-payload.ts";

const MOST_NAMES = 500;
const MOST_BLOCKS = 100;
const name = z.string().min(1).max(MAX_TEXT);

const path = z.string().superRefine((text, context) => {
  const read = readPath(text);
  if ("problem" in read) context.addIssue({ code: "custom", message: read.problem, params: { code: "bad_path" } });
});
/** JSON has no undefined, so a field that is left out is absent. */
const ofFields = <Value extends z.ZodType>(value: Value) =>
  z.strictObject(Object.fromEntries(logicalFields.map((field) => [field, value.optional()]))) as unknown as z.ZodType<
    Readonly<Partial<Record<LogicalField, z.output<Value>>>>
  >;

export const mappingFields = {
  mapping: ofFields(path).describe("by field of ours the dot path or JSON Pointer where a payload says it"),
  constants: ofFields(z.union([name, z.number()])).describe("of every event whose payload does not say it"),
  event_names: z
    .record(name, z.string().regex(EVENT_NAME, "give an event name like purchase or ext_trial"))
    .refine((names) => Object.keys(names).length <= MOST_NAMES, `at most ${MOST_NAMES} names`)
    .describe("their names of events, and ours"),
};
export const sourceFields = {
  slug: z.string().regex(/^[a-z0-9][a-z0-9_-]{0,39}$/, "1 to 40 of a-z, 0-9, _ and -, and first a letter or digit"),
  name: z.string().trim().min(1, "give a name").max(200, "at most 200 characters"),
  kind: z.enum(sourceKinds),
  mode: z
    .enum(relayModes)
    .nullable()
    .describe("a label of a property_relay, and of no other kind; both are taken alike"),
  ...mappingFields,
  allow_ips: z
    .array(z.string().refine(isBlock, "give an address, or a block like 203.0.113.0/24"))
    .max(MOST_BLOCKS)
    .describe("who may send; none: every address"),
  unsigned: z
    .boolean()
    .nullable()
    .describe("of a generic source whether its payloads come without a signature; null: not chosen yet"),
  unsigned_money: z.boolean().describe("whether payloads without a signature may move money and name a partner"),
};
const LEAST_KEY_BYTES = 16;
/** Write-only; null removes it. */
export const sourceSecrets = {
  secret: z
    .string()
    .min(LEAST_KEY_BYTES, `at least ${LEAST_KEY_BYTES} characters`)
    .max(1_000)
    // An invalid base64 text behind the prefix would give a short key, or an empty one that
    // everyone has.
    .refine(
      (text) => (keyBytesOf(text) ?? text).length >= LEAST_KEY_BYTES,
      `behind ${SECRET_PREFIX} give base64 of at least ${LEAST_KEY_BYTES} bytes, as the source shows it`,
    )
    .nullable()
    .describe("signs payloads; write-only"),
  pull_secret: z.string().min(1).max(4_000).nullable().describe("the credential of pulls; write-only"),
};
export const sourceState = z.enum(sourceStates);
