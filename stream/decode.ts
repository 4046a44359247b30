// Decodes the messages of a batch. Unreadable messages are returned apart, and schemas that this
// process has not seen are fetched outside the decoding loop.

import type { AnyTopic, Position, Recorded } from "./flow.ts";
import type { StageInput } from "./fold.ts";
import type { InputBatch, InputMessage } from "./messages.ts";
import { UnknownSchema, UnreadableRecord, type Wire } from "./wire.ts";

export interface UnreadRecord {
  readonly source: InputMessage;
  readonly position: Position;
  readonly error: UnreadableRecord;
}
export interface ReadRecord extends StageInput {
  readonly partition: number;
}
export interface DecodedBatch {
  readonly given: readonly ReadRecord[];
  readonly unread: readonly UnreadRecord[];
}

/**
 * Decodes one batch. Missing schemas are fetched at most once a batch. `retried` may repeat that
 * step, so the batch waits while the schema registry is down.
 */
export const decodeBatch = async (
  topic: AnyTopic,
  { partition, messages }: InputBatch,
  wire: Pick<Wire, "decode" | "learn">,
  retried: (step: () => Promise<unknown>) => Promise<unknown> = (step) => step(),
): Promise<DecodedBatch> => {
  const at = (offset: number): Position => ({ topic: topic.name, partition, offset });
  const decodeOne = ({ value, offset }: InputMessage): Recorded<any> | UnreadableRecord | UnknownSchema => {
    try {
      return wire.decode(topic, value, at(offset));
    } catch (error) {
      if (error instanceof UnreadableRecord || error instanceof UnknownSchema) return error;
      throw error;
    }
  };
  const decoded = messages.map(decodeOne);
  const unknown = new Set<number>();
  for (const one of decoded) if (one instanceof UnknownSchema) unknown.add(one.schemaId);
  if (unknown.size > 0) await retried(() => Promise.all([...unknown].map((id) => wire.learn(id))));
  const given: ReadRecord[] = [];
  const unread: UnreadRecord[] = [];
  for (let n = 0; n < messages.length; n++) {
    const source = messages[n]!;
    const one = decoded[n] instanceof UnknownSchema ? decodeOne(source) : decoded[n]!;
    if (one instanceof UnknownSchema) throw one;
    if (one instanceof UnreadableRecord) unread.push({ source, position: at(source.offset), error: one });
    else given.push({ event: one, source, partition });
  }
  return { given, unread };
};
