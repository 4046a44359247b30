// The sink that keeps the archive: it copies records, shares its reading with no other sink, and so
// always has the group of its own name.
import { archive } from "../../../sinks/archive/archive.ts";
import type { Archiving } from "../../../sinks/archive/check.ts";
import { sinkInto } from "../../../stream/topology.ts";
import { pipeline } from "../../../topology.ts";
import { groupNamed } from "./hosting.ts";

const { name, from } = sinkInto(pipeline, archive);
export const archiving: Archiving = { group: groupNamed(name), topic: from.name };
