// Stores a few rows of a request as the file of an import, and reads the rejections.
import { Readable } from "node:stream";
import type { Pool } from "pg";
import type { Objects } from "../../../infra/objects/objects.ts";
import { purchaseColumns, type UploadColumn, uploadColumns } from "../../../processors/admit/upload/csv-row.ts";
import { type RejectedRow, rejectedRows, storeFile } from "./import-file.ts";
import { queueUpload } from "./imports.ts";

type FastRow = Readonly<Partial<Record<UploadColumn, unknown>>>;
export interface FastFile {
  readonly import_id: string;
  readonly client_id: number;
  readonly rows: readonly FastRow[];
}

/** Stores the file and queues its import. Rejects if a store is away. */
export const storeRows = async (
  { pool, objects }: { readonly pool: Pool; readonly objects: Pick<Objects, "put"> },
  { import_id, client_id, rows }: FastFile,
): Promise<void> => {
  const file = await storeFile(objects, import_id, Readable.from([csvOf(rows)]), false);
  await queueUpload(pool, import_id, client_id, file);
};

/** Each row is answered separately, so a column that all rows lack is reported for each. */
const csvOf = (rows: readonly FastRow[]): Buffer => {
  const names = uploadColumns.filter(
    (name) => purchaseColumns.includes(name) || rows.some((row) => row[name] !== undefined),
  );
  const lines = rows.map((row) => names.map((name) => `"${String(row[name] ?? "").replaceAll('"', '""')}"`).join(","));
  return Buffer.from(`${names.join(",")}\n${lines.join("\n")}\n`);
};

/** The rejections by row number, from 1. */
export const rejectionsOf = async (
  objects: Pick<Objects, "get" | "list">,
  importId: string,
): Promise<readonly Pick<RejectedRow, "line" | "column" | "code" | "message">[]> => {
  const rejections: Pick<RejectedRow, "line" | "column" | "code" | "message">[] = [];
  for await (const rows of rejectedRows(objects, importId))
    rejections.push(...rows.map(({ line, column, code, message }) => ({ line: line - 1, column, code, message })));
  return rejections;
};
