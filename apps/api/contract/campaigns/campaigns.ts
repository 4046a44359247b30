// The contracts of campaigns, of their changes and of their launch.
import { z } from "zod";
import { termFields } from "../../../../modules/catalog/contracts/contract-terms.ts";
import { budgetFields } from "../budgets/relo-budgets.ts";
import { contract, listContract, MANY_KEYS } from "../contract.ts";
import { choice, day, eventType, id, idText, ofId, segment, time, url, version, words } from "../fields.ts";

export const patternFields = {
  kind: choice(["utm_source", "utm_campaign", "coupon", "url_prefix"]),
  value: words(1_024),
};
const pattern = z.strictObject({ ...patternFields, partner_id: id.optional() });
export const campaignFields = {
  name: words(200),
  starts_on: day.nullable(),
  ends_on: day.nullable(),
  destination_url: url,
  fallback_url: url.nullable(),
  patterns: z.array(pattern).max(100),
};
const partners = z.array(id).max(500);

export const shownLink = z.object({
  partner_id: id,
  code: z.string(),
  url: z.string().describe("on the host of links; a path without TRACKING_URL"),
  status: choice(["active", "archived"]),
});
const campaign = z.object({
  id,
  client_id: id,
  name: z.string(),
  status: choice(["draft", "active", "paused", "ended"]),
  archived: z.boolean(),
  starts_on: z.string().nullable(),
  ends_on: z.string().nullable(),
  destination_url: z.string(),
  fallback_url: z.string().nullable(),
  patterns: z.array(z.object({ kind: z.string(), value: z.string(), partner_id: id.optional() })),
  links: z.array(shownLink),
  version: z.int(),
  created_at: time,
  updated_at: time,
});
export const warning = z.object({ code: z.string(), pointer: z.string(), detail: z.string() });
const changed = campaign.extend({ warnings: z.array(warning) });

export const listCampaigns = listContract({
  route: "GET /api/campaigns",
  summary: "Campaigns; archived ones only when asked for.",
  filters: {
    client_id: idText.optional(),
    status: choice(["draft", "active", "paused", "ended"]).optional(),
    partner_id: idText.optional().describe("has an active link"),
    q: z.string().min(1).max(200).optional().describe("begin of the name"),
    archived: choice(["true", "false"]).default("false"),
  },
  rows: campaign,
  sorts: ["-created_at", "created_at", "name", "-name", "starts_on", "-starts_on"],
  csv: {
    file: "campaigns",
    columns: "id client_id name status starts_on ends_on destination_url fallback_url created_at",
  },
});

export const readCampaign = contract({
  route: "GET /api/campaigns/:id",
  summary: "One campaign.",
  params: ofId,
  answers: campaign,
});

export const createCampaign = contract({
  route: "POST /api/campaigns",
  summary: "Creates a draft; it has no links until it is launched.",
  body: z.strictObject({
    ...z.object(campaignFields).partial().shape,
    client_id: id,
    name: campaignFields.name,
    destination_url: url,
  }),
  answers: changed,
  status: 201,
  isIdempotent: true,
  conflicts: ["client_archived"],
});

export const changeCampaign = contract({
  route: "PATCH /api/campaigns/:id",
  summary: "Changes what is given (merge-patch). partner_ids is the whole list of those with a link.",
  params: ofId,
  body: z.strictObject({
    ...z.object(campaignFields).partial().shape,
    status: choice(["active", "paused", "ended"]).optional(),
    partner_ids: partners.optional(),
    version,
  }),
  answers: changed,
  conflicts: ["version_conflict", "client_archived", "campaign_archived", "partner_inactive", "invalid_transition"],
});

export const archiveCampaign = contract({
  route: "DELETE /api/campaigns/:id",
  summary: "Ends and archives a campaign; what it sold stays.",
  params: ofId,
  body: z.strictObject({ version }).optional(),
  conflicts: ["version_conflict", "client_archived"],
});

/** The terms of a contract and their dates; its writer checks the fields that a type needs. */
export const commissionFields = {
  segment: segment.nullable().default(null),
  event_type: eventType,
  ...termFields,
  effective_from: day,
  effective_to: day.nullable().default(null),
};
const commission = z.strictObject({ partner_id: id, ...commissionFields });
export const launchCampaign = contract({
  route: "POST /api/campaigns/:id/launch",
  summary: "Makes links, contracts and budgets and lets a draft or paused campaign run: all of it, or nothing.",
  params: ofId,
  body: z.strictObject({
    patterns: campaignFields.patterns.optional(),
    partners: partners.min(1, "name at least one partner"),
    commissions: z.array(commission).max(1_000).default([]),
    budgets: z.array(z.strictObject(budgetFields)).max(120).default([]),
    version,
  }),
  answers: z.object({
    campaign,
    links: z.array(shownLink),
    commissions: z.array(id),
    budgets: z.array(id),
    warnings: z.array(warning),
  }),
  isIdempotent: true,
  conflicts: [
    ...["version_conflict", "client_archived", "campaign_archived", "partner_inactive", "invalid_transition"],
    ...["partner_archived", "month_closed", "month_approved"],
  ],
  mostKeys: MANY_KEYS,
});
