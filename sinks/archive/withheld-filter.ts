// Decides which archived records must not be restored: those of erased subjects.

import type { Objects } from "../../infra/objects/objects.ts";
import type { AnyTopic } from "../../stream/flow.ts";
import type { InputMessage } from "../../stream/messages.ts";
import type { WithholdFilter } from "../../stream/ports.ts";
import type { Wire } from "../../stream/wire.ts";

/**
 * Called before each file. Undefined if everything may be restored, so that nothing is decoded.
 * Rejects with a transient error while the answer is unknown.
 */
export type WithheldFilter = () => Promise<((message: InputMessage, partition: number) => boolean) | undefined>;

/**
 * Builds the filter from the `withholds` of a sink's runner. While any subject is erased,
 * unreadable records are withheld too, because they may belong to it. The schemas of the records
 * are read once from the archive, and again if that failed.
 */
export const withheldBy = (
  objects: Objects,
  wire: Wire,
  topic: AnyTopic,
  withholds: () => Promise<WithholdFilter | undefined>,
): WithheldFilter => {
  let learnt: Promise<void> | undefined;
  const learnAll = async (): Promise<void> => {
    for await (const { key } of objects.list("archive/schemas/")) {
      const id = /(\d+)\.json$/.exec(key)?.[1];
      if (id !== undefined) await wire.learn(Number(id));
    }
  };
  return async () => {
    const isWithheld = await withholds();
    if (isWithheld === undefined) return undefined;
    learnt ??= learnAll().catch((error) => {
      learnt = undefined;
      throw error;
    });
    await learnt;
    return ({ value, offset }, partition) => {
      const read = { topic: topic.name, partition, offset };
      try {
        return isWithheld(wire.decode(topic, value, read), read);
      } catch {
        return true;
      }
    };
  };
};
