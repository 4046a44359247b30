// The contracts of tokens with which clients and partners send.
import { z } from "zod";
import { contract, listContract } from "../contract.ts";
import { choice, id, idText, ofId, time, words } from "../fields.ts";

const token = z.object({
  id,
  prefix: z.string().nullable().describe("first letters; null of tokens made before they were kept"),
  kind: choice(["ingest", "upload"]),
  client_id: id.nullable(),
  partner_id: id.nullable(),
  label: z.string(),
  client_side: z.boolean(),
  requests_a_minute: z.int().nullable().describe("of an ingest token"),
  created_at: time,
  last_used_at: time.nullable(),
});

export const listTokens = listContract({
  route: "GET /api/tokens",
  summary: "Live ingest and upload tokens.",
  filters: {
    kind: choice(["ingest", "upload"]).optional(),
    client_id: idText.optional(),
    partner_id: idText.optional(),
  },
  rows: token,
  sorts: ["-created_at", "created_at"],
});

export const createToken = contract({
  route: "POST /api/tokens",
  summary: "Makes a token and shows it once. A new upload token takes the place of the partner's.",
  body: z.discriminatedUnion("kind", [
    z.strictObject({
      kind: z.literal("ingest"),
      client_id: id,
      label: words(200).optional(),
      client_side: z.boolean().optional().describe("sent by the visitor's own browser or app"),
      requests_a_minute: z.int().min(1).max(10_000).optional().describe("above 100: by an admin"),
    }),
    z.strictObject({ kind: z.literal("upload"), partner_id: id, label: words(200).optional() }),
  ]),
  answers: token.extend({
    token: z.string().nullable().describe("null when the request is repeated with its Idempotency-Key"),
    secrets: z.literal("shown_once").optional(),
  }),
  status: 201,
  isIdempotent: true,
  conflicts: ["client_archived", "partner_archived"],
  needsWholePartner: "an upload token",
});

export const revokeToken = contract({
  route: "DELETE /api/tokens/:id",
  summary: "Ends a token in every process within a second.",
  params: ofId,
  needsWholePartner: "an upload token",
});
