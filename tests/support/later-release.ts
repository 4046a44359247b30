// A topic as a later release declares it: one of its schemas has an additional field with a
// default.
import { topic } from "../../infra/avro/codec.ts";
import type { Recorded, Topic } from "../../stream/flow.ts";

type Schema = any;

/** The schema with the field at the end of the record `name`, at any depth. */
const withField = (schema: Schema, name: string): Schema => {
  if (Array.isArray(schema)) return schema.map((one) => withField(one, name));
  if (typeof schema !== "object" || schema === null) return schema;
  const changed = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, withField(value, name)]));
  return schema.type === "record" && schema.name === name
    ? { ...changed, fields: [...changed.fields, { name: "added_later", type: "string", default: "as before" }] }
    : changed;
};
const recordOf = (of: Topic<any>): Schema => (of.schema as Schema).fields.at(-1).type;

/** The names of a topic's record and of all records inside it. */
export const recordsOf = (of: Topic<any>): readonly string[] => {
  const found = new Set<string>();
  const walk = (schema: Schema): void => {
    if (typeof schema !== "object" || schema === null) return;
    if (schema.type === "record") found.add(schema.name);
    for (const value of Object.values(schema)) walk(value);
  };
  walk(recordOf(of));
  return [...found];
};

export const laterRelease = <T>(of: Topic<T>, name: string): Topic<T> => {
  const { name: topicName, keyedBy, partitions, idOf, keyOf } = of;
  return topic<T>({
    ...{ name: topicName, keyedBy, partitions, idOf, keyOf },
    checked: true,
    record: withField(recordOf(of), name),
  });
};

const bytesOf = <T>(of: Topic<T>, event: Recorded<T>): Buffer => {
  const room = Buffer.alloc(64 * 1024);
  return room.subarray(0, of.encode(event, null, room, 0));
};

/** Reads an event of this release with the later release. */
export const readLater = <T>(of: Topic<T>, later: Topic<T>, event: Recorded<T>): Recorded<T> =>
  later.decode(bytesOf(of, event), event.position, of.schema);

/** Reads an event of this release with the later release, writes it there, and reads it again. */
export const rewritten = <T>(of: Topic<T>, later: Topic<T>, event: Recorded<T>): Recorded<T> =>
  later.decode(bytesOf(later, readLater(of, later, event)), event.position, null);
