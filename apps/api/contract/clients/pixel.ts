// The contracts of the pixel of a client: its configuration, its signing secret, its activity.
import { z } from "zod";
import { contract } from "../contract.ts";
import { choice, eventType, ofId, time, version } from "../fields.ts";

const hosts = z.union(
  [z.array(z.string().max(253)).max(200), z.string().max(60_000)],
  "give a list of hosts, or one host a line",
);
const fields = {
  tracked_events: z
    .array(eventType)
    .max(100)
    .describe("what is expected of the pages: pixel/activity reports what does not come; every event is stored"),
  replay_enabled: z.boolean(),
  replay_sample_rate: z.number().min(0, "at least 0").max(100, "at most 100"),
  consent_replay: z.boolean(),
  jurisdiction: choice(["MX", "EU", "UK", "BR"]),
  consent_default: z
    .int()
    .min(0)
    .max(255)
    .describe(
      "of a visitor who chose nothing: 0x01 analytics, 0x02 person, 0x08 across clients, 0x10 recordings, " +
        "0x40 events beyond 90 days; 0x04 and 0x20 are recorded only; in EU, UK and BR it is 0, whatever stands here",
    ),
  tracking_type: choice(["PIXEL", "HYBRID", "S2S", "APP"]).describe(
    "where events come from, which pixel/activity compares: pages, pages and a server, a server, an app",
  ),
  auto_signals: z.boolean(),
};
/** The settings of a pixel, all optional. */
export const pixelFields = {
  allowed_domains: hosts.optional().describe("hosts, *.host for all below one; none: every host"),
  ...z.object(fields).partial().shape,
};
const patch = z.strictObject({ ...pixelFields, version });
const config = z.object({ allowed_domains: z.array(z.string()), ...fields, version: z.int() });

/** A secret with all but its last four characters hidden. */
const maskedSecret = z.codec(z.string(), z.string(), {
  decode: (secret) => `********${secret.slice(-4)}`,
  encode: (text) => text,
});
const masked = config.extend({ hmac_secret: maskedSecret.nullable() });
/** The older route shows the secret: in clear to admins, masked to managers, not to viewers. */
const withSecret = {
  admin: config.extend({ hmac_secret: z.string().nullable() }),
  client_manager: masked,
  viewer: config,
};
const conflicts = ["version_conflict", "client_archived"];

export const readPixel = contract({
  route: "GET /api/clients/:id/pipeline/pixel-config",
  summary: "How the pixel of a client works.",
  params: ofId,
  answers: config,
});
export const changePixel = contract({
  route: "POST /api/clients/:id/pipeline/pixel-config",
  summary: "Changes what is given; the pixel follows within 5 minutes.",
  params: ofId,
  body: patch,
  answers: config,
  conflicts,
});
export const readFormerPixel = contract({
  route: "GET /api/clients/:id/pixel-config",
  summary: "Deprecated: pipeline/pixel-config with the signing secret; a read in clear is audited.",
  params: ofId,
  answers: withSecret,
});
export const changeFormerPixel = contract({
  route: "PUT /api/clients/:id/pixel-config",
  summary: "Deprecated: changes what is given, as pipeline/pixel-config does.",
  params: ofId,
  body: patch,
  answers: withSecret,
  conflicts,
});
export const regenerateSecret = contract({
  route: "POST /api/clients/:id/pixel-config/regenerate-secret",
  summary: "Makes another signing secret and shows it once; the former is good for nothing from then on.",
  params: ofId,
  answers: z.object({ hmac_secret: z.string() }),
  conflicts: ["client_archived"],
});

const finding = z.object({ code: z.string(), sentence: z.string(), fix: z.string() });
export const readPixelActivity = contract({
  route: "GET /api/clients/:id/pixel/activity",
  summary: "Whether the pixel sends, and what is wrong where it does not.",
  params: ofId,
  answers: z.object({
    has_activity: z.boolean(),
    events_last_hour: z.int(),
    last_seen_at: time.nullable().describe("begin of its newest minute with an event"),
    checked: z.boolean().describe("false: this cannot be said now"),
    findings: z.array(finding),
  }),
});
export const readIngestStatus = contract({
  route: "GET /api/clients/:id/ingest-status",
  summary: "Whether events of a client come in.",
  params: ofId,
  answers: z.object({
    backbone_status: choice(["ok", "degraded", "down", "unknown"]),
    events_flowing: z.boolean().describe("one came within 15 minutes"),
    last_event_at: time.nullable(),
  }),
});
