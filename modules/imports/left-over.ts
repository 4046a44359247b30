// What imports leave in object storage: the pieces of a file go when its import has ended, the rows
// that were rejected 30 days later.
import type { Pool } from "pg";
import type { Objects } from "../../infra/objects/objects.ts";
import { removeObjects } from "./import-file.ts";
import { endAbandoned, endedImports, noteRemoved } from "./imports.ts";

export interface LeftOverPorts {
  readonly pool: Pool;
  readonly objects: Pick<Objects, "list" | "delete">;
}

/** The archive is rewritten without an erased person as late as that. */
const ERRORS_DAYS = 30;

export const removePieces = async ({ pool, objects }: LeftOverPorts, importId: string): Promise<void> => {
  await removeObjects(objects, importId, "parts");
  await noteRemoved(pool, importId, "file");
};

/** Also what a process that was killed has left; uploads that were begun and left end first. */
export const removeLeftOver = async (ports: LeftOverPorts): Promise<void> => {
  const { pool, objects } = ports;
  await endAbandoned(pool);
  for (const importId of await endedImports(pool, "file", 0)) await removePieces(ports, importId);
  for (const importId of await endedImports(pool, "errors", ERRORS_DAYS)) {
    await removeObjects(objects, importId, "errors");
    await noteRemoved(pool, importId, "errors");
  }
};
