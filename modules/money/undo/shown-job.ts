// A job as people see it: money in its result is a decimal with its currency.
import { amountsIn, type UndoTotals } from "../../intake/imports/undo-result.ts";

type Row = Readonly<Record<string, any>>;

/** The undo of an import stores its sums in minor units, because it goes on from them. */
export const shownJob = (job: Row): Row => {
  if (job.kind !== "import_undo" || job.result === null) return job;
  const result = job.result as UndoTotals;
  return { ...job, result: { ...result, sums: amountsIn(result.sums) } };
};
