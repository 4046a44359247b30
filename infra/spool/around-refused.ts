// Sends around a record that the log refuses for what it is, above all for its size: tried for ever
// it would hold up every sender behind it.
import type { OutputMessage, Produce } from "../../stream/messages.ts";
import { classify } from "../runtime/errors.ts";

/** Resolves once a message that the log refused is kept elsewhere for good. */
export type SetAside = (message: OutputMessage, error: unknown) => Promise<void>;

/**
 * Halves what is refused until the record is found: one in a thousand costs about twenty sends.
 * What the log took of a refused request is sent again under the same ids; the order is kept.
 */
export const aroundRefused = (send: Produce, setAside: SetAside): Produce => {
  // What is taken, nearly everything, costs one promise more and not three.
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
