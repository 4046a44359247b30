// Writes a CSV file to a reader, as fast as it reads.
import { once } from "node:events";
import type { Response } from "express";
import { BOM, csvLine } from "../../../infra/http/csv.ts";
import { SenderGone } from "../../../infra/http/problem.ts";

/** A reader that takes nothing for this long has gone. */
const STALLED_MS = 30_000;

export interface CsvFile {
  readonly filename: string;
  readonly columns: readonly string[];
}
export interface CsvWriter {
  /** Lines as `csvLine` makes them. Throws Aborted when the reader has gone, or takes nothing. */
  readonly put: (lines: string) => Promise<void>;
  readonly end: () => Promise<void>;
}

/** Its head goes with the first lines: what fails before them is still answered as a problem. */
export const csvWriter = (response: Response, { filename, columns }: CsvFile): CsvWriter => {
  const write = writerTo(response);
  let head =
    BOM +
    csvLine(
      columns,
      columns.map(() => "text"),
    );
  const put = async (lines: string): Promise<void> => {
    if (!response.headersSent)
      response.status(200).set({
        "Content-Type": "text/csv; charset=utf-8",
        "Content-Disposition": `attachment; filename="${filename}"`,
      });
    await write(head + lines);
    head = "";
  };
  const end = async (): Promise<void> => {
    if (head !== "") await put("");
    response.end();
  };
  return { put, end };
};

const writerTo = (response: Response) => {
  const gone = new AbortController();
  response.once("close", () => gone.abort());
  // One that left before this says so never again.
  if (response.closed || response.destroyed) gone.abort();
  return async (text: string): Promise<void> => {
    if (gone.signal.aborted) throw new SenderGone("the reader went away");
    if (response.write(text)) return;
    const signal = AbortSignal.any([gone.signal, AbortSignal.timeout(STALLED_MS)]);
    await once(response, "drain", { signal }).catch(() => {
      throw new SenderGone("the reader takes nothing any more");
    });
  };
};
