// Runs one import: admits its rows like any event, sends new ones to the log, writes refused ones
// to the error file, and then counts all of them.
import { createHash } from "node:crypto";
import type { Pool } from "pg";
import { hit } from "#failpoint";
import { scrubText } from "../../../../domain/personal/personal-data.ts";
import { uploadEdges } from "../../../../edges/upload.ts";
import type { Objects } from "../../../../infra/objects/objects.ts";
import { type Row, statedAmount } from "../../../../processors/admit/upload/csv-row.ts";
import type { UploadFacts } from "../../../../processors/admit/upload/upload.ts";
import type { EventReceived } from "../../../../schemas/generated.ts";
import type { UnixMs } from "../../../../stream/flow.ts";
import type { OutputMessage } from "../../../../stream/messages.ts";
import type { RecordWire } from "../../../../stream/wire.ts";
import type { AskClientFacts } from "../../path/facts.ts";
import { hostEdge } from "../../path/host-edge.ts";
import type { Path } from "../../path/path.ts";
import { BadFile, type Head, readHead } from "../csv/csv-head.ts";
import { BATCH_BYTES, batches, type CsvLine, cellsIn, csvLines, type Place } from "../csv/csv-lines.ts";
import { subjectsIn } from "../erase-rejected.ts";
import { errorsKey, fileFrom, type RejectedRow, rejectedText } from "../import-file.ts";
import { countRows, goesOn, type ImportStanding, noteHash, type TakenImport } from "../imports.ts";
import { claimRows, readIdsAgain } from "./claimed-rows.ts";

export interface ImportPorts {
  readonly pool: Pool;
  readonly objects: Objects;
  readonly wire: () => RecordWire;
  readonly path: Pick<Path, "store">;
  readonly facts: AskClientFacts;
  readonly clock: () => UnixMs;
}

const SHOWN_CHARACTERS = 1_024;
/** The number of a claimed row's line is an int of Postgres. */
const MOST_LINES = 2 ** 31 - 1;

/**
 * Resolves when the import has ended or another process has it. Throws BadFile, Unavailable, and
 * errors of unreachable stores. The order of durable effects: rows are claimed, events are in the
 * log, errors are stored; then all are counted. A crash before the count repeats the batch with the
 * same ids, lines and results.
 */
export const runImport = async (
  ports: ImportPorts,
  taken: TakenImport,
  isClosing: () => boolean,
): Promise<ImportStanding> => {
  const { objects } = ports;
  const { import_id: importId, parts } = taken;
  if (taken.sha256 === null) {
    const hashed = await hashFile(ports, taken, isClosing);
    if (hashed !== "hashed") return hashed;
  }
  const head = taken.checkpoint ?? (await readHead(fileFrom(objects, importId, parts, 0), taken.mapping));
  const lines = csvLines(fileFrom(objects, importId, parts, head.next.offset), head.next, head.delimiter);
  let before: Promise<ImportStanding> = Promise.resolve("goes on");
  let last: Place = head.next;
  try {
    for await (const batch of batches(lines)) {
      const admitted = batch.lines.length === 0 ? nothing : await admitLines(ports, taken, head, batch.lines);
      last = batch.next;
      const standing = await before;
      if (standing !== "goes on" || isClosing()) return standing;
      before = finish(ports, taken, admitted, { ...head, next: last }, false);
      // Its error surfaces when the next batch is ready.
      before.catch(() => undefined);
    }
  } finally {
    await before.catch(() => undefined);
  }
  const standing = await before;
  if (standing !== "goes on") return standing;
  return finish(ports, taken, nothing, { ...head, next: last }, true);
};

/**
 * Checks the hash of a file that came in parts. The standing of the import instead if the process
 * closes first, or the import was cancelled. Throws BadFile if the sender named another one.
 */
const hashFile = async (
  { pool, objects }: ImportPorts,
  taken: TakenImport,
  isClosing: () => boolean,
): Promise<"hashed" | ImportStanding> => {
  const hash = createHash("sha256");
  let unasked = 0;
  for await (const piece of fileFrom(objects, taken.import_id, taken.parts, 0)) {
    if (isClosing()) return "goes on";
    hash.update(piece);
    unasked += piece.length;
    if (unasked < BATCH_BYTES) continue;
    unasked = 0;
    const standing = await goesOn(pool, taken);
    if (standing !== "goes on") return standing;
  }
  const sha256 = hash.digest("hex");
  const named = await noteHash(pool, taken, sha256);
  if (named !== null && named !== sha256)
    throw new BadFile("checksum_mismatch", `the file has the SHA-256 ${sha256}, and was begun as ${named}`);
  return "hashed";
};

interface AdmittedRow {
  readonly line: number;
  readonly row_id: string;
  readonly data: EventReceived;
  readonly message: OutputMessage;
}
interface AdmittedRows {
  readonly firstLine: number;
  readonly rows: readonly AdmittedRow[];
  readonly rejected: readonly RejectedRow[];
  readonly kind: Parameters<Path["store"]>[1] | undefined;
  readonly fileSums: ReadonlyMap<string, bigint>;
}
const nothing: AdmittedRows = { firstLine: 0, rows: [], rejected: [], kind: undefined, fileSums: new Map() };

/** Rows that undone imports have brought are admitted again, as the events that they are now. */
const admitLines = async (
  ports: ImportPorts,
  taken: TakenImport,
  head: Head,
  lines: readonly CsvLine[],
): Promise<AdmittedRows> => {
  const admitted = await admitAs(ports, taken, head, { lines, again: none });
  const ids = admitted.rows.map(({ row_id }) => row_id);
  const again = ids.length === 0 ? none : await readIdsAgain(ports.pool, taken.client_id, ids);
  return again.size === 0 ? admitted : admitAs(ports, taken, head, { lines, again });
};
const none: ReadonlyMap<string, string> = new Map();

const admitAs = async (
  { wire, facts, clock }: ImportPorts,
  taken: TakenImport,
  { ours, delimiter }: Head,
  { lines, again }: { readonly lines: readonly CsvLine[]; readonly again: ReadonlyMap<string, string> },
): Promise<AdmittedRows> => {
  if (lines.at(-1)!.line > MOST_LINES)
    throw new BadFile("too_many_lines", `a row begins below line ${MOST_LINES}: remove blank lines, or cut the file`);
  const now = clock();
  const client = facts(taken.client_id, now);
  if (!client) throw new BadFile("client_archived", "the client of this import is archived");
  const known: UploadFacts = {
    ...client,
    importId: taken.import_id,
    partnerId: taken.partner_id,
    isPartners: taken.source === "put",
    again,
  };
  const rowIds = new Map([...again].map(([row_id, event_id]) => [event_id, row_id]));
  const readable = lines.filter(({ fault }) => fault === null);
  const events: readonly Row[] = readable.map(({ line, text }) => ({ line, cells: cellsIn(text, delimiter) }));
  const messages: OutputMessage[] = [];
  const accepted: EventReceived[] = [];
  let kind: AdmittedRows["kind"];
  const edge = hostEdge(uploadEdges, "upload", {
    wire,
    path: {
      store: async (some, of) => {
        messages.push(...some);
        kind = of;
      },
    },
  });
  const arrival = { receivedAt: now, sender: String(taken.partner_id), address: null, header: () => undefined };
  const { errors } = await edge.take({ events, columns: ours }, arrival, known, (data) => accepted.push(data));
  const refused = new Map(errors.map(({ index, refused: { refusal } }) => [index, refusal]));
  const good = events.filter((_row, n) => !refused.has(n));
  const shown = (text: string) => scrubText(text.slice(0, SHOWN_CHARACTERS), known.identify).value;
  return {
    firstLine: lines[0]!.line,
    rows: good.map(({ line }, n) => {
      const data = accepted[n]!;
      return { line, row_id: rowIds.get(data.event_id) ?? data.event_id, data, message: messages[n]! };
    }),
    rejected: [
      ...lines.flatMap(({ line, fault, text }) =>
        fault === null ? [] : [{ line, column: null, ...fault, row: shown(text), at: now, subjects: null }],
      ),
      ...[...refused].map(([n, { field, code, message }]) => ({
        ...{ line: events[n]!.line, column: field, code, message, row: shown(readable[n]!.text) },
        ...{ at: now, subjects: subjectsIn(events[n]!, ours, known.identify) },
      })),
    ].sort((a, b) => a.line - b.line),
    kind,
    fileSums: sumOf(events.map((row) => statedAmount(row, ours))),
  };
};

type Amount = { readonly currency: string; readonly minor: bigint } | null;
const sumOf = (amounts: readonly Amount[]): ReadonlyMap<string, bigint> => {
  const sums = new Map<string, bigint>();
  for (const amount of amounts)
    if (amount !== null) sums.set(amount.currency, (sums.get(amount.currency) ?? 0n) + amount.minor);
  return sums;
};

const finish = async (
  { pool, objects, path }: ImportPorts,
  taken: TakenImport,
  { firstLine, rows, rejected, kind, fileSums }: AdmittedRows,
  checkpoint: Head,
  isEnd: boolean,
): Promise<ImportStanding> => {
  hit("import-admitted");
  const claimed = rows.map(({ line, row_id, data }) => ({ line, row_id, event_id: data.event_id }));
  const rowsAre = rows.length === 0 ? [] : await claimRows(pool, taken, claimed);
  if (rowsAre === undefined) return "lost";
  hit("import-claimed");
  const fresh = rows.filter((_row, n) => rowsAre[n] === "new");
  // The log keeps one event for each id, so rows that another import may never send are sent here
  // too.
  const sent = rows.filter((_row, n) => rowsAre[n] !== "taken");
  if (sent.length > 0)
    await path.store(
      sent.map(({ message }) => message),
      kind!,
    );
  hit("import-published");
  if (rejected.length > 0) await objects.put(errorsKey(taken.import_id, firstLine), rejectedText(rejected));
  hit("import-errors-stored");
  const codes = new Map<string, number>();
  for (const { code } of rejected) codes.set(code, (codes.get(code) ?? 0) + 1);
  const storedSums = sumOf(
    fresh.map(({ data: { currency, value_minor: minor } }) =>
      currency === null || minor === null ? null : { currency, minor },
    ),
  );
  const counted = {
    accepted: fresh.length,
    duplicate: rows.length - fresh.length,
    rejected: rejected.length,
    ...{ codes, fileSums, storedSums },
  };
  const standing = await countRows(pool, taken, { counted, checkpoint, isEnd });
  hit("import-counted");
  return standing;
};
