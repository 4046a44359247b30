// The contract of the upload token of a partner, which is replaced and shown once.
import { z } from "zod";
import { contract } from "../contract.ts";
import { ofId, time } from "../fields.ts";

export const rotateUploadToken = contract({
  route: "POST /api/partners/:id/upload-credentials/rotate",
  summary: "Makes another upload token and shows it once; the former is good for nothing from then on.",
  params: ofId,
  answers: z.object({ upload_token: z.string(), prefix: z.string(), rotated_at: time }),
  conflicts: ["partner_archived", "partner_left"],
  needsWholePartner: "always",
});
