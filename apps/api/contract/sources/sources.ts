// The contracts of external sources, which send or hold events of a client, with the mapping of
// their payloads to events.
import { z } from "zod";
import { pullSettings } from "../../../../modules/intake/pulls/drivers/drivers.ts";
import {
  mappingFields,
  sourceFields,
  sourceSecrets,
  sourceState,
} from "../../../../modules/intake/sources/source-fields.ts";
import { readSourceId } from "../../../../modules/intake/sources/sources.ts";
import { contract, listContract } from "../contract.ts";
import { id, idText, time, version } from "../fields.ts";

/** `src_7`, as in the address of a postback. */
const sourceId = z.codec(z.int(), z.string(), { decode: (n) => `src_${n}`, encode: (text) => readSourceId(text) ?? 0 });
const ofSource = z.strictObject({
  id: z.codec(z.string().regex(/^src_[1-9]\d{0,9}$/, "give the id of a source, e.g. src_7"), z.int(), {
    decode: (text) => readSourceId(text) ?? 0,
    encode: (n) => `src_${n}`,
  }),
});
const pull = pullSettings.nullable().describe("where and how its events are pulled; null: they are not");

const counted = z.int().min(0);
/** A time that is already text in the statistics. */
const moment = z.iso.datetime({ offset: true });
const pullStats = z.object({
  ...{ rows: counted, new: counted, duplicate: counted, errors: counted },
  window: z.object({ from: moment, to: moment, look_back_days: counted }),
});

const row = z.object({
  id: sourceId,
  client_id: id,
  ...sourceFields,
  state: sourceState,
  pull: z.object(pullSettings.shape).nullable(),
  has_secret: z.boolean(),
  has_pull_secret: z.boolean(),
  has_key: z.boolean(),
  key_rotated_at: time.nullable(),
  last_pull_at: time.nullable(),
  last_pull_stats: pullStats.nullable().describe("of the last window; errors are refused rows and failed requests"),
  created_at: time,
  updated_at: time,
  version: z.int(),
});
const { slug, name, kind, mode, mapping, constants, event_names, allow_ips, unsigned, unsigned_money } = sourceFields;
const secrets = { secret: sourceSecrets.secret.optional(), pull_secret: sourceSecrets.pull_secret.optional() };

export const listSources = listContract({
  route: "GET /api/sources",
  summary: "External sources; what they keep sealed is never shown.",
  filters: { client_id: idText.optional(), kind: kind.optional(), state: sourceState.optional() },
  rows: row,
  sorts: ["name", "-name", "-created_at", "created_at"],
});

export const createSource = contract({
  route: "POST /api/sources",
  summary: "Makes a source, which is a draft until it is set active.",
  body: z.strictObject({
    client_id: id,
    ...{ slug, name, kind, mode: mode.default(null) },
    mapping: mapping.default({}),
    constants: constants.default({}),
    event_names: event_names.default({}),
    allow_ips: allow_ips.default([]),
    unsigned: unsigned.default(null),
    unsigned_money: unsigned_money.default(false),
    pull: pull.default(null),
    ...secrets,
  }),
  answers: row,
  status: 201,
  isIdempotent: true,
  conflicts: ["slug_taken", "client_archived"],
});

export const changeSource = contract({
  route: "PATCH /api/sources/:id",
  summary: "Changes what is given; edges follow within a second. A draft becomes active, an active one is paused.",
  params: ofSource,
  body: z.strictObject({
    ...z
      .object({ name, kind, mode, mapping, constants, event_names, allow_ips, unsigned, unsigned_money, pull })
      .partial().shape,
    state: sourceState.optional(),
    ...secrets,
    version,
  }),
  answers: row,
  conflicts: ["version_conflict", "client_archived"],
});

export const rotateKey = contract({
  route: "POST /api/sources/:id/rotate-key",
  summary: "Makes another key and shows it once; the former opens nothing from then on.",
  params: ofSource,
  answers: z.object({
    key: z.string().nullable().describe("null when the request is repeated with its Idempotency-Key"),
    url: z.string().nullable().describe("on the ingest host; a path without INGEST_URL"),
    secrets: z.literal("shown_once").optional(),
  }),
  isIdempotent: true,
  conflicts: ["client_archived"],
});

const read = z.record(z.string(), z.union([z.string(), z.number()]));
export const trySource = contract({
  route: "POST /api/sources/:id/try",
  summary: "Runs a draft mapping on the newest 20 payloads of the last 48 hours; writes nothing.",
  params: ofSource,
  body: z.strictObject({
    mapping: mappingFields.mapping,
    constants: mappingFields.constants.optional(),
    event_names: mappingFields.event_names.optional(),
  }),
  answers: z.object({
    results: z.array(
      z.object({
        ...{ payload_id: z.string(), received_at: time, outcome: z.enum(["mapped", "refused"]) },
        event: read.nullable().describe("what the draft reads, personal data masked"),
        ...{ field: z.string().nullable(), path: z.string().nullable() },
        ...{ found: z.string().nullable(), hint: z.string().nullable() },
        differs: z.array(z.string()).describe("fields that the saved mapping reads otherwise"),
      }),
    ),
  }),
  isHeavy: true,
});
