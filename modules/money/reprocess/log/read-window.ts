// Decodes the messages of a batch as events of one client or all, without those of erased subjects.
// Skips undecodable messages, which are dead letters already.
import { decodeBatch } from "../../../../stream/decode.ts";
import type { Recorded, Topic } from "../../../../stream/flow.ts";
import type { InputBatch, InputMessage } from "../../../../stream/messages.ts";
import type { ReprocessPorts } from "../ports.ts";

export const decoded = async <T>(
  topic: Topic<T>,
  batch: InputBatch,
  { wire, withholds }: Pick<ReprocessPorts, "wire" | "withholds">,
  clientId: number | null,
): Promise<readonly { readonly event: Recorded<T>; readonly source: InputMessage }[]> => {
  // Record keys begin with the client, so messages of others are skipped without decoding.
  const prefix = `${clientId}:`;
  const messages =
    clientId === null
      ? batch.messages
      : batch.messages.filter(({ key }) => key?.toString("latin1", 0, prefix.length) === prefix);
  if (messages.length === 0) return [];
  const { given } = await decodeBatch(topic, { ...batch, messages }, wire);
  if (withholds === undefined) return given;
  return given.filter(
    ({ event, source }) => !withholds(event, { topic: batch.topic, partition: batch.partition, offset: source.offset }),
  );
};
