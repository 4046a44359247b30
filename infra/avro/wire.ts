// The wire of stages and sinks: besides records it has views, which read the fields of a record on
// demand, and outcomes, which durable memory keeps.
import type { AnyTopic } from "../../stream/flow.ts";
import type { Wire } from "../../stream/wire.ts";
import { decodeOutcome, encodeOutcome } from "./outcome.ts";
import { HEADER_BYTES, type OwnIds, ownIdsOf, recordWireOf, type SchemaIds } from "./record-wire.ts";
import { type View, viewOf } from "./recorded-view.ts";

/** Throws like `ownIdsOf`. */
export const openWire = async (topics: readonly AnyTopic[], registry: SchemaIds): Promise<Wire> =>
  wireOf(await ownIdsOf(topics, registry), registry.schemaOf);

/**
 * Numbers the topics 1 to n in the order given and knows no other schema: for tests and the bench.
 */
export const inMemoryWire = (topics: readonly AnyTopic[]): Wire =>
  wireOf(new Map(topics.map((topic, n) => [topic, n + 1])), async () => null);

const wireOf = (own: OwnIds, schemaOf: SchemaIds["schemaOf"]): Wire => {
  const { encode, decode, learn } = recordWireOf(own, schemaOf);
  /** The topics that were viewed. One look-up a record finds both the id and the view. */
  const viewed = new Map<AnyTopic, { readonly id: number; readonly viewOne: View<any> }>();
  const view: Wire["view"] = (topic, value, read) => {
    let known = viewed.get(topic);
    if (known === undefined) {
      const id = own.get(topic);
      if (id === undefined) return decode(topic, value, read);
      known = { id, viewOne: viewOf(topic) };
      viewed.set(topic, known);
    }
    const isOwn = value !== null && value[0] === 0 && value.length > HEADER_BYTES && value.readUInt32BE(1) === known.id;
    return (isOwn ? known.viewOne(value, HEADER_BYTES, read) : null) ?? decode(topic, value, read);
  };
  return { encode, decode, view, learn, encodeOutcome, decodeOutcome };
};
