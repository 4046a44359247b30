// Sends what was stored while the registry could not be reached: its values get their schema ids on
// the way to the log.

import type { Produce } from "../../stream/messages.ts";
import type { Registry } from "../avro/registry.ts";
import { withIds } from "../avro/wire.ts";
import { aroundRefused, type SetAside } from "./around-refused.ts";
import type { Send } from "./last-resort.ts";

/**
 * A schema that the registry does not know, of a release that stored events before its schemas were
 * applied, is registered now: those events were acknowledged, and have no other way into the log.
 */
export const sendWithSchemaIds = (registry: Registry, send: Produce, setAside: SetAside): Send => {
  const sendAround = aroundRefused(send, setAside);
  const named = withIds(async (schema) => {
    const id = (await registry.idOf(schema)) ?? [...(await registry.apply([schema])).values()][0];
    if (id === undefined) throw new Error(`the registry gave no id for the schema of ${schema.name}`);
    return id;
  });
  return async (messages, schemas) => sendAround(await named(messages, schemas));
};
