// The contract of onboarding: a client with partners, campaigns and pixel, in one request.
import { z } from "zod";
import { campaignFields, commissionFields, patternFields, shownLink, warning } from "../campaigns/campaigns.ts";
import { contract, MANY_KEYS } from "../contract.ts";
import { choice, id } from "../fields.ts";
import { partnerFields } from "../partners/partners.ts";
import { clientDetail, newClient, newSegment } from "./clients.ts";
import { pixelFields } from "./pixel.ts";

const key = z.string().regex(/^[a-z][a-z0-9_-]{0,39}$/, "give a key: a letter, then letters, digits, _ and -");
const partnerOf = z.union([id, key], "give the key or the id of a partner of this request");

const fields = z.object(partnerFields).partial();
/** A new partner needs key, name and e-mail; an existing partner has only its id. */
const partner = z
  .strictObject({
    id: id.optional().describe("of a partner that is there: it works for the new client too"),
    key: key.optional().describe("of a new partner: by which the rest of the request names it"),
    ...fields.pick({ name: true, email: true, payout: true, referral_code: true }).shape,
    invite: z.boolean().optional(),
  })
  .superRefine((given, context) => {
    const named = Object.entries(given).filter(([, value]) => value !== undefined);
    const wrong = (name: string, message: string) => context.addIssue({ code: "custom", path: [name], message });
    if (given.id === undefined)
      for (const name of ["key", "name", "email"] as const)
        if (given[name] === undefined) wrong(name, "a new partner needs it; one that is there has its id alone");
    if (given.id !== undefined)
      for (const [name] of named) if (name !== "id") wrong(name, "a partner that is there is named by its id alone");
  });

const campaign = z.strictObject({
  ...z.object(campaignFields).pick({ name: true, destination_url: true }).shape,
  ...z.object(campaignFields).pick({ fallback_url: true, starts_on: true, ends_on: true }).partial().shape,
  patterns: z
    .array(z.strictObject({ ...patternFields, partner: partnerOf.optional() }))
    .max(100)
    .default([]),
  partners: z.array(partnerOf).max(200).default([]),
  launch: z.boolean().default(false),
});

export const onboardClient = contract({
  route: "POST /api/clients/onboard",
  summary: "Makes a client with segments, partners, contracts, campaigns and pixel: all of it, or nothing.",
  body: z.strictObject({
    client: newClient,
    segments: z.array(newSegment).max(200).default([]).describe("none: the six standard ones"),
    partners: z.array(partner).max(200).default([]),
    commissions: z
      .array(z.strictObject({ partner: partnerOf, ...commissionFields }))
      .max(1_000)
      .default([]),
    campaigns: z.array(campaign).max(100).default([]),
    pixel_config: z.strictObject(pixelFields).default({}),
  }),
  answers: z.object({
    client: clientDetail,
    segments: z.array(z.object({ code: z.string(), name: z.string() })),
    partners: z.array(z.object({ key: z.string().nullable(), id })),
    commissions: z.array(z.object({ id })),
    campaigns: z.array(
      z.object({ id, name: z.string(), status: choice(["draft", "active"]), links: z.array(shownLink) }),
    ),
    pixel: z.object({
      snippet: z.string().describe("with {pixel_url} in the place of the host of pixels, without PIXEL_URL"),
    }),
    ingest_token: z.string().nullable().describe("shown once: null in the answer to a repeat"),
    hmac_secret: z.string().nullable().describe("shown once: null in the answer to a repeat"),
    secrets: z.string().optional(),
    warnings: z.array(warning),
  }),
  status: 201,
  isIdempotent: true,
  conflicts: [
    ...["slug_taken", "email_in_use", "referral_code_taken", "partner_archived", "partner_inactive"],
    "month_closed",
  ],
  mostKeys: MANY_KEYS,
});
