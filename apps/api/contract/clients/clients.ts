// The contracts of clients and their segments.
import { z } from "zod";
import { MOST_LATE_HOURS } from "../../../../domain/money-time.ts";
import { contract, listContract } from "../contract.ts";
import { choice, currency, eventType, id, idText, ofId, segment, time, url, version, words } from "../fields.ts";

const days = (most: number) => z.int().min(1, "at least 1 day").max(most, `at most ${most} days`);
const holdDays = z.int().min(0).max(365);
const score = z.int().min(0).max(100);

const attribution = { click_window_days: days(90), install_window_days: days(90), identity_link: z.boolean() };
const clientFields = {
  name: words(200),
  status: choice(["active", "paused"]),
  currency,
  attribution: z.strictObject(attribution).partial(),
  fraud: z.strictObject({ review: score, reject: score }).partial(),
  late_hours: z
    .int()
    .min(1)
    .max(MOST_LATE_HOURS)
    .describe("how old a server's time of a sale may be; of an older one the money is dated by its receipt"),
  fallback_url: url.nullable(),
  retention_months: z
    .int()
    .min(1)
    .max(24)
    .describe("of events in the archive and of visits in ClickHouse; orders, refunds, leads and installs stay there"),
  plan: words(40),
  leads_in_plain: z.boolean().describe("false: users of the client read its leads masked"),
};

const client = z.object({
  id,
  name: z.string(),
  slug: z.string(),
  status: choice(["active", "paused", "archived"]),
  currency: z.string(),
  attribution: z.object(attribution),
  hold_days: z.record(z.string(), z.int()),
  late_hours: z.int(),
  fraud: z.object({ review: score, reject: score }),
  fallback_url: z.string().nullable(),
  retention_months: z.int(),
  plan: z.string(),
  leads_in_plain: z.boolean(),
  last_event_at: time.nullable().describe("start of the newest minute with an event; null when it is not known now"),
  month_state: choice(["provisional", "locked"]).describe("of the month before this one"),
  created_at: time,
  updated_at: time,
});
const detail = client.extend({ version: z.int() });
const ingestTokens = z.array(z.object({ prefix: z.string(), last_used_at: time.nullable() }));
/** The shape for an admin. */
export const clientDetail = detail.extend({ ingest_tokens: ingestTokens });
/** Only users who may revoke tokens see them. */
const answers = {
  admin: clientDetail,
  client_manager: detail,
  viewer: detail,
};

export const listClients = listContract({
  route: "GET /api/clients",
  summary: "Clients; archived ones only when asked for by status.",
  filters: {
    status: choice(["active", "paused", "archived", "all"]).optional(),
    q: z.string().min(1).max(200).optional().describe("begin of the name or the slug"),
  },
  rows: client,
  sorts: ["name", "-name", "-created_at", "created_at"],
});

/** The body of a new client. */
export const newClient = z.strictObject({
  ...z.object(clientFields).partial().shape,
  name: clientFields.name,
  slug: z.string().regex(/^[a-z0-9-]{2,40}$/, "2 to 40 lower-case letters, digits and hyphens"),
  hold_days: z.record(eventType, holdDays).optional(),
});

export const createClient = contract({
  route: "POST /api/clients",
  summary: "Creates a client with the six standard segments.",
  body: newClient,
  answers,
  status: 201,
  isIdempotent: true,
  conflicts: ["slug_taken"],
});

export const readClient = contract({
  route: "GET /api/clients/:id",
  summary: "One client.",
  params: ofId,
  answers,
});

export const changeClient = contract({
  route: "PATCH /api/clients/:id",
  summary: "Changes what is given (merge-patch); acts on events received from then on.",
  params: ofId,
  body: z.strictObject({
    ...z.object(clientFields).partial().shape,
    hold_days: z.record(eventType, holdDays.nullable()).optional(),
    confirm_retention: z.boolean().optional().describe("needed to keep events for a shorter time"),
    version,
  }),
  answers,
  conflicts: ["version_conflict", "client_archived", "currency_in_use"],
});

export const archiveClient = contract({
  route: "DELETE /api/clients/:id",
  summary: "Archives a client: its tokens die, its campaigns pause, its payments go on.",
  params: ofId,
  body: z.strictObject({ version }).optional(),
  conflicts: ["version_conflict"],
});

export const newSegment = z.strictObject({ code: segment, name: words(200) });
const shownSegment = z.object({
  ...{ code: segment, name: z.string(), active: z.boolean(), sales_30d: z.int(), version: z.int() },
  ...{ created_at: time, updated_at: time },
});

export const listSegments = contract({
  route: "GET /api/clients/:id/segments",
  summary: "All segments of a client, at most 200, by code.",
  params: ofId,
  answers: z.object({ data: z.array(shownSegment) }),
});
export const createSegment = contract({
  route: "POST /api/clients/:id/segments",
  summary: "Adds a segment.",
  params: ofId,
  body: newSegment,
  answers: shownSegment,
  status: 201,
  conflicts: ["segment_exists", "too_many_segments", "client_archived"],
});
export const changeSegment = contract({
  route: "PATCH /api/clients/:id/segments/:code",
  summary: "Renames a segment, or switches it off: new events get none then.",
  params: z.strictObject({ id: idText, code: segment }),
  body: z.strictObject({ name: words(200).optional(), active: z.boolean().optional(), version }),
  answers: shownSegment,
  conflicts: ["version_conflict", "client_archived"],
});
