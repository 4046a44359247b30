// The contracts of leads: the signed push of a client's server, and the list.
import { z } from "zod";
import { contract, listContract } from "../contract.ts";
import { choice, id, idText, money, ofId, range, time } from "../fields.ts";

/** Null means the same as a field that is left out, since many servers send all form fields. */
const optional = (most: number) => z.string().max(most, `at most ${most} characters`).nullish();

/** The fields that are read; all others are stored with the lead. */
export const leadFields = {
  client_lead_id: z
    .string()
    .min(1, "give the client's own id of the lead")
    .max(200, "at most 200 characters")
    .describe("of pushes with one id the first stands"),
  first_name: optional(200),
  last_name: optional(200),
  email: optional(254),
  phone: optional(40),
  product: optional(200),
  stage: optional(200),
  lead_value: z.union([z.number(), z.string().max(40)], "give a number, or one as text like 1234.50").nullish(),
  currency: optional(3).describe("MXN when there is none"),
  svc_click_id: optional(256).describe("of the visit that led to the lead"),
  event_time: z.iso
    .datetime({ offset: true, error: "give a time with its zone, like 2026-11-22T10:00:00Z" })
    .nullish()
    .describe("when it happened; when it is received, unless given"),
};

export const pushLead = contract({
  route: "POST /api/pixel/lead-submission",
  summary:
    "Takes a lead of a client's server. X-Svc-Signature is the hex HMAC-SHA256 of the body as it is sent, keyed with " +
    "the client's secret. Fields of other names are kept with the lead.",
  query: z.strictObject({ client_id: idText }),
  body: z.looseObject(leadFields),
  answers: z.object({
    status: choice(["created", "duplicate"]),
    lead_id: z.string(),
    attributed: z.boolean().describe("credited; of a lead that is not settled yet, whether its click could be"),
  }),
});

const lead = z.object({
  lead_id: z.string(),
  client_lead_id: z.string().nullable(),
  first_name: z.string().nullable(),
  last_name: z.string().nullable(),
  email: z.string().nullable(),
  phone: z.string().nullable(),
  product: z.string().nullable(),
  stage: z.string().nullable(),
  lead_value: money.nullable(),
  currency: z.string().nullable(),
  event_time: time,
  received_at: time,
  day: z.string().describe("of the receipt, in America/Mexico_City"),
  extra: z.record(z.string(), z.json()).nullable().describe("fields of other names, as they were sent"),
  erased: z.boolean().describe("its person was erased: nothing personal is left"),
});
/** A user of the client must not see the partner, nor whether there is one. */
const credited = lead.extend({
  attributed: z.boolean(),
  partner_id: id.nullable(),
  campaign_id: id.nullable(),
});

export const listLeads = listContract({
  route: "GET /api/clients/:id/lead-submissions",
  summary:
    "Leads that a client has pushed, by when they were received; each read is audited. Users of the client read " +
    "masked values, and filter by no address, where it says `leads_in_plain`: false.",
  params: ofId,
  filters: {
    ...range,
    product: z.string().min(1).max(200).optional(),
    stage: z.string().min(1).max(200).optional(),
    email: z.string().min(1).max(254).optional().describe("the whole address"),
    attributed: z
      .codec(choice(["true", "false"]), z.boolean(), {
        decode: (text) => text === "true",
        encode: (value) => (value ? ("true" as const) : ("false" as const)),
      })
      .optional(),
  },
  rows: { admin: credited, client_user: lead },
  sorts: ["-received_at", "received_at"],
  csv: {
    file: "leads",
    columns:
      "lead_id client_lead_id day received_at event_time first_name last_name email phone product stage " +
      "lead_value currency attributed partner_id campaign_id",
  },
});
