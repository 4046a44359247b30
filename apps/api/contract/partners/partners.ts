// The contracts of partners.
import { z } from "zod";
import { contract, listContract } from "../contract.ts";
import { choice, currency, id, idText, masked, maskedEmail, ofId, time, version, words } from "../fields.ts";

export const partnerFields = {
  name: words(200),
  email: z.email("give an e-mail address").max(254),
  client_ids: z.array(id).max(1_000, "at most 1,000 clients"),
  payout: z
    .strictObject({
      currency,
      min_amount: z.string().regex(/^\d{1,12}(\.\d{1,3})?$/, 'give an amount like "25.00"'),
    })
    .partial(),
  referral_code: z.string().regex(/^[A-Za-z0-9_.-]{1,64}$/, "1 to 64 letters, digits and _ . -"),
};

const owed = { payable: z.string(), held: z.string(), carried: z.string(), currency: z.string() };
const partner = z.object({
  id,
  name: z.string(),
  email: z.string(),
  status: choice(["invited", "active", "paused", "archived"]),
  client_ids: z.array(id),
  payout: z.object({ currency: z.string(), min_amount: z.string() }),
  referral_code: z.string().nullable(),
  balance: z
    .object({ ...owed, other_currencies: z.array(z.object(owed)) })
    .describe("payable: what clients owe now; held: under review; carried: debts, set off in later months"),
  created_at: time,
  updated_at: time,
});
const own = partner.extend({
  version: z.int(),
  clients: z.array(z.object({ id, name: z.string() })),
  links: z
    .array(z.object({ campaign_id: id, campaign: z.string(), code: z.string(), url: z.string(), status: z.string() }))
    .describe("those in use first, at most 1,000; url is a path on the host of links without TRACKING_URL"),
});
const user = z.object({ id, email: z.string(), name: z.string() });
const detail = own.extend({
  users: z.array(user),
  upload_token: z.object({ prefix: z.string().nullable(), last_used_at: time.nullable() }).nullable(),
});
const answers = {
  admin: detail,
  partner: own,
  viewer: detail.extend({ email: maskedEmail, users: z.array(user.extend({ email: maskedEmail, name: masked })) }),
};

export const listPartners = listContract({
  route: "GET /api/partners",
  summary: "Partners; archived ones only when asked for by status.",
  filters: {
    client_id: idText.optional(),
    status: choice(["invited", "active", "paused", "archived", "all"]).optional(),
    q: z.string().min(1).max(200).optional().describe("begin of the name or the referral code"),
  },
  rows: { admin: partner, viewer: partner.extend({ email: maskedEmail }) },
  sorts: ["name", "-name", "-created_at", "created_at"],
});

export const createPartner = contract({
  route: "POST /api/partners",
  summary: "Creates a partner; a referral code is made when none is given.",
  body: z.strictObject({
    ...partnerFields,
    client_ids: partnerFields.client_ids.min(1, "name at least one client"),
    payout: partnerFields.payout.optional(),
    referral_code: partnerFields.referral_code.optional(),
    status: choice(["invited", "active", "paused"]).optional(),
  }),
  answers,
  status: 201,
  isIdempotent: true,
  conflicts: ["email_in_use", "referral_code_taken", "client_archived"],
});

export const readPartner = contract({
  route: "GET /api/partners/:id",
  summary: "One partner; a partner reads itself.",
  params: ofId,
  answers,
});

export const changePartner = contract({
  route: "PATCH /api/partners/:id",
  summary: "Changes what is given (merge-patch); clients that the caller may not see stay.",
  params: ofId,
  body: z.strictObject({
    ...z.object(partnerFields).partial().shape,
    status: choice(["active", "paused"]).optional(),
    version,
  }),
  answers,
  conflicts: [
    ...["version_conflict", "partner_archived", "partner_left", "client_archived"],
    ...["email_in_use", "referral_code_taken", "currency_in_use"],
  ],
  needsWholePartner: "all fields but client_ids",
});

export const archivePartner = contract({
  route: "DELETE /api/partners/:id",
  summary: "Archives a partner: its upload token dies, its links go off, its balance is still paid.",
  params: ofId,
  body: z.strictObject({ version }).optional(),
  conflicts: ["version_conflict"],
});
