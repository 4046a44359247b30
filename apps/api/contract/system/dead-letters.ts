// The contracts of dead letters. For administrators: a letter may belong to no client.
import { z } from "zod";
import { contract, listContract } from "../contract.ts";
import { choice, idText, words } from "../fields.ts";

const letter = z.looseObject({ letter_id: z.string() });
const ofLetter = z.strictObject({ id: z.string().max(200) });

export const listLetters = listContract({
  route: "GET /api/dead-letters",
  summary: "What could not be processed, newest failure first.",
  filters: {
    kind: choice(["clicks", "pixel", "s2s"]).optional(),
    state: choice(["waiting", "retrying", "parked", "reprocessed", "discarded"]).optional(),
    stage: z.string().min(1).max(100).optional(),
    code: z.string().min(1).max(100).optional(),
    client_id: idText.optional(),
  },
  rows: letter,
  sorts: ["-last_failed_at"],
});
export const retryLetter = contract({
  route: "POST /api/dead-letters/:id/retry",
  summary: "Makes a letter due again.",
  params: ofLetter,
  answers: letter,
});
export const discardLetter = contract({
  route: "POST /api/dead-letters/:id/discard",
  summary: "Gives a letter up, with a reason.",
  params: ofLetter,
  body: z.strictObject({ reason: words(500) }),
  answers: letter,
});
