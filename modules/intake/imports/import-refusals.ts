// Refusals that several use cases of imports share.
import { conflict, type RefusalError } from "../../base/refusal.ts";
import type { ImportState } from "./import-state.ts";

/** The file was not sent in full; `cure` follows the sentence. */
export const notUploaded = (cure = ""): RefusalError => conflict("not_uploaded", `the file is not there yet${cure}`);

export const invalidStep = (from: ImportState, to: "queued" | "cancelled"): RefusalError =>
  conflict("invalid_transition", `an import that is ${from} cannot be ${to}`, { details: { from, to, allowed: [] } });
