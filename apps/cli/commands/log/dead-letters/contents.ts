// Loads the code that reads the records of letters, which is slow because it knows every stage.
import type { Wire } from "../../../../../stream/wire.ts";
import { topics } from "../../../../../topics.ts";
import { wireOf } from "../../../connections.ts";

export const ofContents = () => import("../../../../../modules/log/dead-letters/contents.ts");

export const openLetterWire = async (): Promise<Wire> => {
  const { letterSources } = await import("../../../../../modules/log/dead-letters/failure.ts");
  return wireOf([...letterSources, topics.operations]);
};
