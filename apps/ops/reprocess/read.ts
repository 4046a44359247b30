// apps/ops/reprocess/read.ts - the messages of a batch as events; what nobody can read has its dead letter already and is passed over.
import { decodeBatch } from "../../../stream/decode.ts";
import type { Recorded, Topic } from "../../../stream/flow.ts";
import type { InputBatch, InputMessage } from "../../../stream/ports.ts";
import type { Wire } from "../../../stream/wire.ts";

export const decoded = async <T>(
  topic: Topic<T>,
  batch: InputBatch,
  wire: Wire,
): Promise<readonly { readonly event: Recorded<T>; readonly source: InputMessage }[]> => {
  const learn = async (ids: readonly number[]): Promise<void> => {
    await Promise.all(ids.map((id) => wire.learn(id)));
  };
  return (await decodeBatch(topic, batch, { wire, learn })).given;
};
