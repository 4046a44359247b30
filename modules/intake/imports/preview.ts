// Previews the first rows of a file as they would be imported. Reads and admits them, and writes
// nothing.
import type { PoolClient } from "pg";
import type { Identify } from "../../../domain/personal/identify.ts";
import { ObjectMissing, type Objects } from "../../../infra/objects/objects.ts";
import { sql } from "../../../infra/postgres/sql.ts";
import type { UploadColumn } from "../../../processors/admit/upload/csv-row.ts";
import { admitUpload } from "../../../processors/admit/upload/upload.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { conflict, type RefusalError } from "../../base/refusal.ts";
import { BadFile, type Head, readHead } from "./csv/csv-head.ts";
import { type CsvLine, cellsIn, csvLines } from "./csv/csv-lines.ts";
import { fileFrom } from "./import-file.ts";
import { cancellable, type FileOfImport } from "./import-reads.ts";
import { notUploaded } from "./import-refusals.ts";
import { idsAgain } from "./run/claimed-rows.ts";

interface PreviewRow {
  readonly line: number;
  readonly values: Readonly<Record<string, string>>;
  readonly outcome: "accepted" | "duplicate" | "rejected";
  readonly errors: readonly { readonly column: string | null; readonly code: string; readonly message: string }[];
}
export interface Preview {
  /** The names in the file. */
  readonly columns: readonly string[];
  /** Our columns mapped to the file's columns, as the import would read them. */
  readonly mapping: Readonly<Partial<Record<UploadColumn, string>>>;
  readonly rows: readonly PreviewRow[];
}

const MOST_ROWS = 100;
/** A preview reads no further behind the head, however few rows it has found. */
const MOST_BYTES = 8 * 1024 * 1024;
const SHOWN_CHARACTERS = 1_024;
/** The preview shows no ids, so they need no key. */
const unkeyed: Identify = { plain: () => "0".repeat(64), hashed: () => "0".repeat(64) };

/**
 * Throws RefusalError: conflict `not_uploaded`, `file_removed`, `unreadable_file`; rejects while a
 * store is away.
 */
export const previewOf = async (tx: PoolClient, objects: Pick<Objects, "get">, file: FileOfImport, now: UnixMs) => {
  if (file.status === "pending_upload" && file.parts === null) throw notUploaded();
  if (!cancellable.includes(file.status) || file.parts === null) throw fileRemoved();
  return readRows(tx, objects, file, now).catch((error: unknown) => {
    if (error instanceof BadFile) throw conflict("unreadable_file", error.message);
    throw error instanceof ObjectMissing ? fileRemoved() : error;
  });
};

const fileRemoved = (): RefusalError => conflict("file_removed", "the import has ended, its file is gone");

/** Throws BadFile if the head cannot be read, and ObjectMissing if the file is gone. */
const readRows = async (
  tx: PoolClient,
  objects: Pick<Objects, "get">,
  file: FileOfImport,
  now: UnixMs,
): Promise<Preview> => {
  const from = (offset: number) => fileFrom(objects, file.import_id, file.parts ?? 0, offset);
  const head = await readHead(from(0), file.mapping);
  const lines: CsvLine[] = [];
  let read = 0;
  for await (const piece of csvLines(from(head.next.offset), head.next, head.delimiter)) {
    lines.push(...piece.lines.slice(0, MOST_ROWS - lines.length));
    read += piece.bytes;
    if (lines.length === MOST_ROWS || read >= MOST_BYTES) break;
  }
  const mapping = Object.fromEntries(
    head.ours.names.flatMap((name, n) => (name === null ? [] : [[name, head.columns[n]!]])),
  );
  return { columns: head.columns, mapping, rows: await rowsOf(tx, file, head, lines, now) };
};

const rowsOf = async (
  tx: PoolClient,
  { import_id, client_id, partner_id, source }: FileOfImport,
  head: Head,
  lines: readonly CsvLine[],
  now: UnixMs,
): Promise<readonly PreviewRow[]> => {
  const arrival = { receivedAt: now, sender: "", address: null, header: () => undefined };
  const facts = {
    ...{ clientId: client_id, segments: [], consentDefault: 0, identify: unkeyed },
    ...{ importId: import_id, partnerId: partner_id, isPartners: source === "put" },
  };
  const rows = lines.map(({ line, text }) => ({ line, cells: cellsIn(text, head.delimiter) }));
  const admitted = [...admitUpload({ events: rows, columns: head.ours }, arrival, facts)];
  const own = admitted.flatMap((one) => (one.kind === "accepted" ? [one.id] : []));
  const again = await idsAgain(tx, client_id, own);
  const ids = own.map((id) => again.get(id) ?? id);
  const { rows: known } = await tx.query<{ event_id: string; import_id: string; line: number }>(sql`
    select event_id, import_id, line from import_rows
    where client_id = any (${[client_id]}::int[]) and event_id = any (${ids}::uuid[])`);
  const takenBy = new Map(known.map((row) => [row.event_id, row]));
  const seen = new Set<string>();
  return lines.map(({ line, text, fault }, n) => {
    const cells = rows[n]!.cells.map((cell) => cell.slice(0, SHOWN_CHARACTERS));
    const values =
      fault === null
        ? Object.fromEntries(head.columns.map((column, c) => [column, cells[c] ?? ""]))
        : { [head.columns[0]!]: text };
    const one = admitted[n]!;
    if (fault !== null) return { line, values, outcome: "rejected", errors: [{ column: null, ...fault }] };
    if (one.kind === "refused") {
      const { field: column, code, message } = one.refusal;
      return { line, values, outcome: "rejected", errors: [{ column, code, message }] };
    }
    const taken = takenBy.get(again.get(one.id) ?? one.id);
    const isTaken = taken !== undefined && (taken.import_id !== import_id || taken.line !== line);
    const isDuplicate = isTaken || seen.has(one.id);
    seen.add(one.id);
    return { line, values, outcome: isDuplicate ? "duplicate" : "accepted", errors: [] };
  });
};
