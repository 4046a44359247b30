// Which archived records may not come back: those of erased subjects.

import type { Objects } from "../../infra/objects/objects.ts";
import type { AnyTopic } from "../../stream/flow.ts";
import type { InputMessage } from "../../stream/messages.ts";
import type { WithholdFilter } from "../../stream/ports.ts";
import type { Wire } from "../../stream/wire.ts";

/**
 * Asked before each file: undefined when everything may come back, so that nothing is decoded.
 * Rejects with a transient error while that is unknown.
 */
export type WithheldFilter = () => Promise<((message: InputMessage, partition: number) => boolean) | undefined>;

/**
 * `withholds` as a sink's runner asks it. While any subject is erased, a record that cannot be
 * read may be of that subject, and stays away too. The schemas that records may name are learnt
 * from the archive, once; again when that failed.
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
