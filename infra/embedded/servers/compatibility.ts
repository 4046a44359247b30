// Checks whether a new schema is compatible with the earlier ones of its subject, in the levels of
// the Confluent registry.
import avsc from "avsc";

export const LEVELS = [
  "NONE",
  "BACKWARD",
  "BACKWARD_TRANSITIVE",
  "FORWARD",
  "FORWARD_TRANSITIVE",
  "FULL",
  "FULL_TRANSITIVE",
] as const;
export type Level = (typeof LEVELS)[number];

export const isLevel = (value: unknown): value is Level => LEVELS.includes(value as Level);

/** @throws Error when the text is no Avro schema. */
export const parseSchema = (text: string): avsc.Type =>
  avsc.Type.forSchema(JSON.parse(text) as avsc.Schema, { registry: {}, wrapUnions: true });

/**
 * Why records that were written with `writer` cannot be read with `reader`; undefined if they can.
 */
function unreadable(reader: avsc.Type, writer: avsc.Type): string | undefined {
  try {
    // avsc builds the whole plan of reading here, so that a field without a default fails now and
    // not at the first record.
    reader.createResolver(writer);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

/**
 * Lists every incompatibility of `candidate`; `earlier` are the texts of the subject's versions,
 * oldest first. An empty list means compatible.
 */
export function incompatibilities(candidate: string, earlier: readonly string[], level: Level): readonly string[] {
  if (level === "NONE") return [];
  const compared = level.endsWith("_TRANSITIVE") ? earlier : earlier.slice(-1);
  const next = parseSchema(candidate);
  return compared.flatMap((text) => {
    const before = parseSchema(text);
    const backward = level.startsWith("FORWARD") ? undefined : unreadable(next, before);
    const forward = level.startsWith("BACKWARD") ? undefined : unreadable(before, next);
    return [
      backward && `the new schema cannot read old records: ${backward}`,
      forward && `the old schema cannot read new records: ${forward}`,
    ].filter((reason) => reason !== undefined);
  });
}
