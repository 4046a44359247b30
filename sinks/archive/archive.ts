// The archive as a target of the topology: Avro files of `events.raw` in object storage, by
// partition, in folders by hour.
import type { Files } from "../../stream/flow.ts";

export const archive: Files = {
  name: "archive",
  store: "objects",
  unhashed: "files, which have laws of their own (C11)",
};
