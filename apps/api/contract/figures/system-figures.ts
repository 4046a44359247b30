// The contracts of the freshness of figures, and of fraud.
import { z } from "zod";
import { contract } from "../contract.ts";
import { choice, currency, day, id, idText, range, time } from "../fields.ts";
import { money, ratio, stamp } from "./shapes.ts";

const state = choice(["ok", "degraded", "down"]);

export const readFreshness = contract({
  route: "GET /api/system/data-freshness",
  summary: "How old what dashboards show is: of one client, or of all.",
  query: z.strictObject({ client_id: idText.optional() }),
  answers: z.object({
    last_event_at: time.nullable().describe("to the minute; null: none for 90 days"),
    aggregation_lag_sec: z.number(),
    relational_sync_lag_sec: z.number().nullable().describe("null: the log has not answered"),
    pipeline: z.object({
      status: state.describe("degraded above 60 s of age, down above 900 s or without an answer of the log"),
      stages: z.array(z.object({ name: z.string(), lag: z.int(), age_sec: z.number(), status: state })),
    }),
    stale: z.boolean().describe("no event for 15 minutes"),
  }),
});

const amounts = {
  held: money,
  rejected_value: money,
  released: money,
  reversed_for_fraud: money,
  currency: z.string(),
};
const bands = { ok: z.int(), review: z.int(), reject: z.int() };

export const readFraud = contract({
  route: "GET /api/admin/fraud-dashboard",
  readsFigures: true,
  summary: "Scored events by band, reason, partner and day, and the money that is held or refused.",
  query: z.strictObject({
    client_id: idText.optional(),
    partner_id: idText.optional(),
    currency: currency.optional(),
    ...range,
  }),
  answers: z.object({
    ...stamp,
    bands: z.array(z.object({ band: choice(["ok", "review", "reject"]), events: z.int(), share: ratio })),
    reasons: z.array(
      z.object({ code: z.string(), events: z.int(), share: ratio.describe("of scored events; an event has several") }),
    ),
    by_partner: z.array(
      z.object({
        partner_id: id,
        name: z.string().nullable(),
        client_id: id,
        clicks: z.int(),
        conversions: z.int(),
        review: z.int(),
        reject: z.int(),
        reject_share: ratio,
        conversion_rate: ratio,
        held: z.array(z.object({ amount: money, currency: z.string() })),
      }),
    ),
    filtered_clicks: z.array(z.object({ reason: z.string(), count: z.int() })),
    bad_click_ids: z.int(),
    series: z.array(z.object({ day, ...bands })),
    money: z.object({ ...amounts, other_currencies: z.array(z.object(amounts)) }),
  }),
});
