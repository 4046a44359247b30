// Writes a CSV file to a reader, as fast as the reader takes it.
import { once } from "node:events";
import type { Response } from "express";
import { BOM, csvLine } from "../../../infra/http/csv.ts";
import { SenderGone } from "../../../infra/http/problem.ts";

/** A reader that takes nothing for this long counts as gone. */
const STALLED_MS = 30_000;

export interface CsvFile {
  readonly filename: string;
  readonly columns: readonly string[];
}
export interface CsvWriter {
  /** Writes lines of `csvLine`. Throws SenderGone when the reader is gone, or takes nothing. */
  readonly put: (lines: string) => Promise<void>;
  readonly end: () => Promise<void>;
}

/** Writes the head with the first lines, so that an error before them is still a problem. */
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
  // A connection that closed before this line emits no further event.
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
