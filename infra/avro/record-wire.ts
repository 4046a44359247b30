// The Confluent wire format (byte 0, 4-byte schema id, Avro body). It is synchronous because ids
// are resolved at the start.

import type { AnyTopic } from "../../stream/flow.ts";
import type { OutputMessage } from "../../stream/messages.ts";
import { type RecordWire, TooLarge, UnknownSchema, UnreadableRecord } from "../../stream/wire.ts";

/** The parts of a topic by which a registry knows a schema. */
export type SchemaTopic = Pick<AnyTopic, "name" | "schema">;

/**
 * The parts of a registry that the wire needs (infra/avro/registry.ts). Null means that the schema
 * does not exist.
 */
export interface SchemaIds {
  readonly idOf: (topic: SchemaTopic) => Promise<number | null>;
  readonly schemaOf: (schemaId: number) => Promise<object | null>;
}

export const HEADER_BYTES = 5;
// A buffer holds 2,000 events of 480 bytes: allocating then costs 0.5 ns a byte, and a value that
// lives long keeps little else alive.
const SLAB_BYTES = 1024 * 1024;
// Twice message.max.bytes: the broker refuses larger values anyway.
const LARGEST_BYTES = 32 * 1024 * 1024;

/** The id of each topic's own schema. */
export type OwnIds = ReadonlyMap<AnyTopic, number>;

/**
 * Resolves the id of each topic's own schema; registers nothing.
 * Throws one sentence naming every topic whose schema is not registered.
 */
export const ownIdsOf = async (topics: readonly AnyTopic[], registry: SchemaIds): Promise<OwnIds> => {
  const ids = await Promise.all(topics.map((topic) => registry.idOf(topic)));
  const missing = topics.filter((_, n) => ids[n] === null).map(({ name }) => name);
  if (missing.length > 0)
    throw new Error(`the schema of ${missing.join(", ")} is not registered; run: npx tributary schemas apply`);
  return new Map(topics.map((topic, n) => [topic, ids[n]!]));
};

/** The wire of an edge. Throws like `ownIdsOf`. */
export const openRecordWire = async (topics: readonly AnyTopic[], registry: SchemaIds): Promise<RecordWire> =>
  recordWireOf(await ownIdsOf(topics, registry), registry.schemaOf);

/** Replaces the id of the topic's own schema; registries count from 1. */
const NO_ID = 0;

/**
 * A wire for an edge that must store events before a registry has ever answered: it makes values
 * without an id, and `withIds` adds the ids on the way to the log. Until then the schema must be
 * kept beside the values, because this release may be gone by then.
 */
export const wireWithoutIds = (topics: readonly AnyTopic[]): RecordWire =>
  recordWireOf(new Map(topics.map((topic) => [topic, NO_ID])), async () => null);

/** True for a value of a wire without ids, which is unreadable until it gets one. */
export const lacksSchemaId = (value: Buffer | null): boolean =>
  value !== null && value.length > HEADER_BYTES && value[0] === 0 && value.readUInt32BE(1) === NO_ID;

/**
 * Returns messages unchanged, except that a value without an id gets the id of the schema that is
 * given for its topic. Throws when a schema is missing, and what `idOf` throws; each id is asked
 * for once.
 */
export const withIds = (idOf: (topic: SchemaTopic) => Promise<number>) => {
  const known = new Map<string, number>();
  return async (
    messages: readonly OutputMessage[],
    schemas: Readonly<Record<string, object>>,
  ): Promise<readonly OutputMessage[]> => {
    const named: OutputMessage[] = [];
    for (const message of messages) {
      const { topic: name, value } = message;
      if (value === null || !lacksSchemaId(value)) {
        named.push(message);
        continue;
      }
      const schema = schemas[name];
      if (schema === undefined) throw new Error(`a value for ${name} has no id, and its schema was not kept`);
      const what = `${name} ${JSON.stringify(schema)}`;
      const id = known.get(what) ?? (await idOf({ name, schema }));
      known.set(what, id);
      const copy = Buffer.from(value);
      copy.writeUInt32BE(id, 1);
      named.push({ ...message, value: copy });
    }
    return named;
  };
};

export const recordWireOf = (own: OwnIds, schemaOf: SchemaIds["schemaOf"]): RecordWire => {
  for (const topic of own.keys()) topic.prepare();
  /** Schemas of other writers by id; null for an id that does not exist. */
  const writers = new Map<number, object | null>();
  const learning = new Map<number, Promise<void>>();
  let slab = Buffer.allocUnsafeSlow(SLAB_BYTES);
  let at = 0;

  const idOf = (topic: AnyTopic): number => {
    const id = own.get(topic);
    if (id === undefined) throw new Error(`this wire was not opened for ${topic.name}`);
    return id;
  };

  const encode: RecordWire["encode"] = (topic, event, origin) => {
    const id = idOf(topic);
    for (;;) {
      const start = at;
      const end = start + HEADER_BYTES < slab.length ? topic.encode(event, origin, slab, start + HEADER_BYTES) : -1;
      if (end >= 0) {
        slab[start] = 0;
        slab.writeUInt32BE(id, start + 1);
        at = end;
        return slab.subarray(start, end);
      }
      // The next buffer; a larger one if a whole buffer was too small.
      const size = start > 0 ? SLAB_BYTES : slab.length * 2;
      if (size > LARGEST_BYTES)
        throw new TooLarge(`an event of ${topic.name} is larger than ${LARGEST_BYTES} bytes: ${event.id}`);
      slab = Buffer.allocUnsafeSlow(size);
      at = 0;
    }
  };

  const decode: RecordWire["decode"] = (topic, value, read) => {
    if (value === null || value.length <= HEADER_BYTES || value[0] !== 0)
      throw new UnreadableRecord(
        "not_framed",
        value === null ? "there is no value" : "does not begin with byte 0 and a schema id",
      );
    const id = value.readUInt32BE(1);
    const body = value.subarray(HEADER_BYTES);
    if (id === idOf(topic)) return topic.decode(body, read, null);
    const writer = writers.get(id);
    if (writer === undefined) throw new UnknownSchema(id);
    if (writer === null) throw new UnreadableRecord("unknown_schema", `no schema has the id ${id}`);
    return topic.decode(body, read, writer);
  };

  const learn: RecordWire["learn"] = (schemaId) => {
    if (writers.has(schemaId)) return Promise.resolve();
    const asked =
      learning.get(schemaId) ??
      schemaOf(schemaId)
        .then((schema) => {
          writers.set(schemaId, schema);
        })
        .finally(() => learning.delete(schemaId));
    learning.set(schemaId, asked);
    return asked;
  };

  return { encode, decode, learn };
};
