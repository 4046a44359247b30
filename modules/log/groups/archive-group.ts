// Finds the sink that keeps the archive. It copies records and shares its group with no other sink,
// so its group always has the sink's own name.
import { archive } from "../../../sinks/archive/archive.ts";
import type { ArchiveHost } from "../../../sinks/archive/check.ts";
import { sinkInto } from "../../../stream/topology.ts";
import { pipeline } from "../../../topology.ts";
import { groupNamed } from "./hosting.ts";

const { name, from } = sinkInto(pipeline, archive);
export const archiving: ArchiveHost = { group: groupNamed(name), topic: from.name };
