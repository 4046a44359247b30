// Waits briefly for the end of an import that another process runs.
import { setTimeout as sleep } from "node:timers/promises";
import { cancellable } from "./import-reads.ts";
import type { ImportState } from "./import-state.ts";

const LOOK_MS = 100;

/** Polls until the import has ended, for `waitMs` at most. Returns its row at that time. */
export const whenEnded = async <Row extends { readonly status: ImportState }>(
  look: () => Promise<Row>,
  waitMs: number,
): Promise<Row> => {
  const until = performance.now() + waitMs;
  for (;;) {
    const row = await look();
    if (!cancellable.includes(row.status) || performance.now() > until) return row;
    await sleep(LOOK_MS);
  }
};
