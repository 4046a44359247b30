// The contracts of dead letters. Only admins see them, because a letter may belong to no client.
import { z } from "zod";
import { letterKinds } from "../../../../edges/dead-letters.ts";
import { letterStates } from "../../../../modules/log/dead-letters/letter.ts";
import { contract, listContract } from "../contract.ts";
import { choice, id, idText, range, time, words } from "../fields.ts";

const place = z.object({ topic: z.string(), partition: z.int(), offset: z.int() });
const letter = z.object({
  id: z.string(),
  kind: choice(letterKinds),
  status: choice(letterStates),
  stage: z.string().describe("who refused it"),
  code: z.string(),
  message: z.string(),
  source: place.describe("where the record lay"),
  kept: place.describe("where its bytes are kept"),
  event_id: z.string().nullable(),
  client_id: id.nullable(),
  attempts: z.int(),
  first_failed_at: time,
  last_failed_at: time,
  next_try_at: time.nullable(),
  sent_at: time.nullable(),
  closed_at: time.nullable(),
  closed_by: z.string().nullable(),
  close_reason: z.string().nullable(),
});
const changed = <Status extends string>(status: Status) => z.object({ id: z.string(), status: z.literal(status) });
const ofLetter = z.strictObject({ id: z.string().max(200) });

const letters = listContract({
  route: "GET /api/dead-letters",
  summary: "What could not be processed, newest first; with days, what failed last on them.",
  filters: {
    kind: choice(letterKinds).optional(),
    state: choice(letterStates).optional(),
    stage: z.string().min(1).max(100).optional(),
    code: z.string().min(1).max(100).optional(),
    client_id: idText.optional(),
    ...range,
  },
  rows: letter,
  sorts: ["-first_failed_at", "first_failed_at", "-last_failed_at", "last_failed_at", "next_try_at"],
});
export const listLetters = {
  ...letters,
  answers: (letters.answers as z.ZodObject).extend({
    depth: z
      .object({ clicks: z.int(), pixel: z.int(), s2s: z.int() })
      .describe("letters that are open, of every client: waiting, retrying and parked"),
  }),
};
export const retryLetter = contract({
  route: "POST /api/dead-letters/:id/retry",
  summary: "Makes a letter due again.",
  params: ofLetter,
  answers: changed("queued"),
});
export const discardLetter = contract({
  route: "POST /api/dead-letters/:id/discard",
  summary: "Gives a letter up, with a reason.",
  params: ofLetter,
  body: z.strictObject({ reason: words(500) }),
  answers: changed("discarded"),
});
