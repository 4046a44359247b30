// A wire for a process that must start while the schema registry is away.
import type { AnyTopic } from "../../stream/flow.ts";
import type { Wire } from "../../stream/wire.ts";
import { decodeOutcome, encodeOutcome } from "./outcome.ts";
import type { SchemaIds } from "./record-wire.ts";
import { openWire } from "./wire.ts";

export interface LateWire {
  /** Throws until `opened` has resolved once. */
  readonly wire: Wire;
  /** Asks the registry unless it has answered before; concurrent callers share one question. */
  readonly opened: () => Promise<void>;
}

export const lateWire = (topics: readonly AnyTopic[], registry: SchemaIds): LateWire => {
  let found: Wire | undefined;
  let asking: Promise<void> | undefined;
  const ready = (): Wire => {
    if (found === undefined) throw new Error("the registry has not been asked for the schema ids");
    return found;
  };
  const ask = async (): Promise<void> => {
    found = await openWire(topics, registry);
  };
  return {
    wire: {
      encode: (topic, event, origin) => ready().encode(topic, event, origin),
      decode: (topic, value, read) => ready().decode(topic, value, read),
      view: (topic, value, read) => ready().view(topic, value, read),
      learn: (schemaId) => ready().learn(schemaId),
      encodeOutcome,
      decodeOutcome,
    },
    opened: async () => {
      if (found !== undefined) return;
      asking ??= ask().finally(() => {
        asking = undefined;
      });
      await asking;
    },
  };
};
