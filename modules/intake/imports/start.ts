// Queues the import of a file that was sent in parts.
import type { Objects } from "../../../infra/objects/objects.ts";
import { sql } from "../../../infra/postgres/sql.ts";
import { invalid } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { BadFile, type Mapping, readHead } from "./csv/csv-head.ts";
import { fileFrom } from "./import-file.ts";
import { entityOfImport, type FileOfImport, importToChange } from "./import-reads.ts";
import { invalidStep, notUploaded } from "./import-refusals.ts";

/**
 * Reads the head of a waiting file before the import is queued. Throws RefusalError: conflict
 * `not_uploaded`, and invalid if the head cannot be imported.
 */
export const checkHead = async (
  objects: Pick<Objects, "get">,
  { import_id, status, parts }: FileOfImport,
  mapping: Mapping | null,
): Promise<void> => {
  if (status !== "pending_upload") return;
  if (parts === null) throw notUploaded(": complete its upload");
  await readHead(fileFrom(objects, import_id, parts, 0), mapping).catch((error: unknown) => {
    if (!(error instanceof BadFile)) throw error;
    throw invalid(mapping === null ? "/import_id" : "/mapping", error.code, error.message.slice(0, 500));
  });
};

const textOf = (mapping: Mapping | null): string => JSON.stringify(Object.entries(mapping ?? {}).sort());

export interface ImportStart {
  readonly import_id: string;
  /** Maps our columns to the file's columns; null: the file uses our names. */
  readonly mapping: Mapping | null;
}

/**
 * Repeating it with the same mapping changes nothing while the import waits. Throws RefusalError:
 * missing, conflict `invalid_transition`.
 */
export const startImport = async (work: Work, { import_id, mapping }: ImportStart): Promise<void> => {
  const file = await importToChange(work, import_id);
  const { client_id, status } = file;
  if (status === "queued" && textOf(file.mapping) === textOf(mapping)) return;
  if (status !== "pending_upload" || file.parts === null) throw invalidStep(status, "queued");
  await work.tx.query(sql`
    update imports set status = 'queued', mapping = ${mapping === null ? null : JSON.stringify(mapping)}::jsonb
    where import_id = ${import_id}`);
  await work.audit({ action: "import.started", client_id, entity: entityOfImport(import_id), after: { mapping } });
};
