// The contract of the list of mails.
import { z } from "zod";
import { mailStates } from "../../../../modules/base/mails/mail-reads.ts";
import { listContract } from "../contract.ts";
import { choice, time } from "../fields.ts";

const status = choice(mailStates);

export const listMails = listContract({
  route: "GET /api/mails",
  summary: "Mails that wait, have left, or were given up after a day; not what they say.",
  filters: { status: status.optional() },
  rows: z.object({
    id: z.string(),
    happening: z.string().describe("what it reports, e.g. invitation:7"),
    recipient: z.string(),
    template: z.string(),
    locale: choice(["es", "en"]),
    status,
    attempts: z.int(),
    error: z.string().nullable().describe("of the newest try"),
    created_at: time,
    sent_at: time.nullable(),
  }),
  sorts: ["-created_at", "created_at"],
});
