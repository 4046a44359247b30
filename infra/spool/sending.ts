// Sends stored events to the log: around a record that the log refuses, and with the schema ids
// that were unknown when the events were stored.
import type { OutputMessage, Produce } from "../../stream/messages.ts";
import { withIds } from "../avro/record-wire.ts";
import type { Registry } from "../avro/registry.ts";
import { classify } from "../runtime/errors.ts";
import type { Schemas } from "./spool-format.ts";

/** Sends messages to the log in order; rejects when it did not take all of them. */
export type Send = (messages: readonly OutputMessage[], schemas: Schemas) => Promise<void>;

/** Resolves once a message that the log refused is stored elsewhere for good. */
export type SetAside = (message: OutputMessage, error: unknown) => Promise<void>;

/**
 * Sends around a record that the log refuses because of its content, mostly its size; retried for
 * ever, it would hold up every sender behind it. A refused request is halved until the record is
 * found: one in a thousand costs about twenty sends. Records that the log accepted before are sent
 * again under the same ids; the order is kept.
 */
export const aroundRefused = (send: Produce, setAside: SetAside): Produce => {
  // A request that is taken, as nearly all are, costs one promise more and not three.
  const sendAround: Produce = (messages) => send(messages).catch((error: unknown) => around(messages, error));
  const around = async (messages: Parameters<Produce>[0], error: unknown): Promise<void> => {
    if (classify(error) !== "data") throw error;
    if (messages.length === 1) return await setAside(messages[0]!, error);
    const half = messages.length >> 1;
    await sendAround(messages.slice(0, half));
    await sendAround(messages.slice(half));
  };
  return sendAround;
};

/**
 * Puts the schema ids into values that were stored while the registry could not be reached. A
 * schema that the registry does not know comes from a release that stored events before its schemas
 * were applied. It is registered here: those events were acknowledged, and have no other way into
 * the log.
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
