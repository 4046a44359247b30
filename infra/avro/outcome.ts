// The recorded outcome of an event: the messages that were produced for it, so that the same answer
// can be given again.
import avro from "avsc";

import type { RecordedOutcome } from "../../stream/wire.ts";

const type = avro.Type.forSchema({
  type: "record",
  name: "RecordedOutcome",
  fields: [
    { name: "dropped", type: ["null", "string"] },
    {
      name: "messages",
      type: {
        type: "array",
        items: {
          type: "record",
          name: "RecordedMessage",
          fields: [
            { name: "topic", type: "string" },
            { name: "key", type: "string" },
            { name: "value", type: "bytes" },
          ],
        },
      },
    },
  ],
});

/**
 * Outcomes live as long as the ledger. The first byte names the format of the rest, so that another
 * format can be added.
 */
const FORMAT = 1;

export const encodeOutcome = (outcome: RecordedOutcome): Buffer =>
  Buffer.concat([Buffer.of(FORMAT), type.toBuffer(outcome)]);

/** Throws on bytes that this version cannot read: a recorded decision is never guessed. */
export const decodeOutcome = (bytes: Uint8Array): RecordedOutcome => {
  if (bytes[0] !== FORMAT) throw new Error(`a recorded outcome of format ${bytes[0]}; this version reads ${FORMAT}`);
  return type.fromBuffer(Buffer.from(bytes.buffer, bytes.byteOffset + 1, bytes.byteLength - 1)) as RecordedOutcome;
};
