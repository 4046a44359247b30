// The records that people and the API save (docs/design/contracts.md, "Records"): their fields and
// limits.
import { z } from "zod";
import { parseCondition } from "../../../domain/conditions/condition.ts";
import { digitsOf } from "../../../domain/money.ts";
import { DEFAULT_LATE_HOURS, MOST_LATE_HOURS } from "../../../domain/money-time.ts";
import { EARNING_TYPES } from "../../../domain/reference/reference.ts";
import { nightlyDefaults } from "../../../domain/reference/thresholds.ts";
import { eventTypeOf } from "../../../processors/admit/event-types.ts";
import { rangeOf } from "../../../processors/score/exclusions.ts";
import { rules as fraudRules } from "../../../processors/score/rules.ts";
import { checkTerms, termFields } from "../contracts/contract-terms.ts";

/** Days that the calendars of all processes support. A day outside would stop their snapshots. */
const day = z.iso
  .date("give a day as YYYY-MM-DD; it is that day in America/Mexico_City")
  .refine((text) => text >= "1970" && text < "3000", "give a day of the years 1970 to 2999");
const words = (most: number) =>
  z.string().trim().min(1, "give a text of at least one character").max(most, `at most ${most} characters`);
const currency = z
  .string()
  .refine((code) => digitsOf(code) !== undefined, "give an upper-case ISO 4217 code, e.g. MXN");
const url = z
  .url({ protocol: /^https?$/, error: "give a full http or https URL" })
  .max(2_048, "at most 2,048 characters")
  .refine(
    (text) => URL.canParse(text) && new URL(text).username === "" && new URL(text).password === "",
    "leave name and password out of the URL",
  );
const id = z
  .int("give an integer id")
  .refine((value) => value !== 0, "give an id, or a negative number for a thing of this change");
const days = (most: number) => z.int("give whole days").min(1, "at least 1 day").max(most, `at most ${most} days`);
const eventType = z
  .string()
  .regex(/^[a-z][a-z0-9_.:-]{0,63}$/, "give an event name: lower case, digits and _ . : -, up to 64 characters");

/**
 * Undefined if the type can earn, so that contracts and hold days apply to it; otherwise why not.
 */
export const earnsNothing = (type: string): string | undefined => {
  if (EARNING_TYPES.includes(type)) return undefined;
  if (type === "ext_purchase") return "ext_purchase has the contracts and the hold of purchase: give purchase";
  if (type !== "custom" && eventTypeOf(type) === undefined) return undefined;
  return `${type} earns nothing: give ${EARNING_TYPES.join(", ")} or the name of a custom event`;
};
const holdDays = z.record(eventType, z.int().min(0).max(365)).superRefine((days, context) => {
  for (const type of Object.keys(days)) {
    const message = earnsNothing(type);
    if (message !== undefined) context.addIssue({ code: "custom", path: [type], message });
  }
});

/** The limits from which the nightly pass reports a finding (docs/fraud.md). */
const nightly = z
  .strictObject({
    flood_clicks: z
      .int()
      .min(100, "at least 100 clicks, or every quiet day floods")
      .default(nightlyDefaults.flood_clicks),
    flood_conversions_ppm: z.int().min(0).max(1_000_000).default(nightlyDefaults.flood_conversions_ppm),
    flat_sample: z.int().min(20, "at least 20 conversions, or chance decides").default(nightlyDefaults.flat_sample),
    flat_distance: z.number().min(0).max(1).default(nightlyDefaults.flat_distance),
  })
  .prefault({});
/** The settings of one fraud rule. Each rule defines the unit of its threshold. */
const fraudRule = z.strictObject({
  active: z.boolean().optional(),
  weight: z.int().min(0).max(100, "100 is a reject by itself: at most 100").optional(),
  threshold: z.int().min(1).max(86_400_000).optional(),
});
/** Shorter prefixes would trust whole countries, which would switch the rule off. */
const SHORTEST_PREFIX = { ipv4: 16, ipv6: 32 };
const author = words(320);
const exclusion = z.discriminatedUnion("kind", [
  z.strictObject({
    kind: z.literal("network"),
    value: z.string().refine((text) => {
      const range = rangeOf(text);
      return range !== undefined && range[1] >= SHORTEST_PREFIX[range[0].kind()];
    }, "give an address or a range like 203.0.113.0/24, of IPv4 /16 or longer, of IPv6 /32 or longer"),
    author,
    reason: words(500),
  }),
  z.strictObject({
    kind: z.literal("device"),
    value: z.string().regex(/^[0-9a-f]{64}$/, "give the device as events show it: 64 hex digits"),
    author,
    reason: words(500),
  }),
]);
export const clientRecord = z.strictObject({
  slug: z.string().regex(/^[a-z0-9-]{2,40}$/, "2 to 40 lower-case letters, digits and hyphens"),
  name: words(200),
  status: z.enum(["active", "paused", "archived"]).default("active"),
  currency: currency.default("MXN"),
  attribution: z
    .strictObject({
      // A click is remembered for 90 days (docs/design/architecture.md, "Memory"), so a longer
      // window would have no effect.
      click_window_days: days(90).default(30),
      install_window_days: days(90).default(7),
      identity_link: z.boolean().default(false),
    })
    .prefault({}),
  hold_days: holdDays.default({ purchase: 30, lead_submit: 0 }),
  // Events of more than 24 months ago are refused, so more would have no effect.
  late_hours: z.int().min(1).max(MOST_LATE_HOURS, `at most ${MOST_LATE_HOURS}`).default(DEFAULT_LATE_HOURS),
  fraud: z
    .strictObject({
      review: z.int().min(0).max(100).default(40),
      reject: z.int().min(0).max(100).default(70),
      nightly,
      // Every event of the client is compared with each of them.
      exclusions: z.array(exclusion).max(100, "at most 100: give a range instead of its addresses").default([]),
      rules: z.partialRecord(z.enum(fraudRules.map(({ code }) => code)), fraudRule).default({}),
    })
    .superRefine(({ rules }, context) => {
      for (const { code, threshold } of fraudRules)
        if (threshold === null && rules[code]?.threshold !== undefined)
          context.addIssue({
            code: "custom",
            path: ["rules", code, "threshold"],
            message: "this rule compares with nothing: leave it out",
          });
    })
    .refine(({ review, reject }) => review <= reject, {
      path: ["reject"],
      error: "reject from the score of review on, not below it",
    })
    .prefault({}),
  consent_default: z.int().min(0).max(255).default(0xff),
  jurisdiction: z.enum(["MX", "EU", "UK", "BR"]).default("MX"),
  fallback_url: url.nullable().default(null),
  retention_months: z.int().min(1).max(24, "events are kept 24 months at most").default(24),
  plan: words(40).default("standard"),
  leads_in_plain: z.boolean().default(true),
});
export const segmentRecord = z.strictObject({
  code: z.string().regex(/^[A-Z0-9]{2,8}$/, "2 to 8 upper-case letters and digits"),
  name: words(200),
  active: z.boolean().default(true),
});
export const partnerRecord = z.strictObject({
  name: words(200),
  email: z.email("give an e-mail address").max(254),
  status: z.enum(["invited", "active", "paused", "archived"]).default("active"),
  client_ids: z.array(id).min(1, "name at least one client").max(1_000),
  payout: z
    .strictObject({
      currency: currency.default("MXN"),
      min_amount: z
        .string()
        .regex(/^\d{1,12}(\.\d{1,3})?$/, 'give an amount as "0.00"')
        .default("0.00"),
    })
    .prefault({}),
  referral_code: z
    .string()
    .regex(/^[A-Za-z0-9_.-]{1,64}$/, "1 to 64 letters, digits and _ . -")
    .nullable()
    .default(null),
});
export const campaignRecord = z
  .strictObject({
    client_id: id,
    name: words(200),
    status: z.enum(["draft", "active", "paused", "ended"]).default("draft"),
    starts_on: day.nullable().default(null),
    ends_on: day.nullable().default(null),
    destination_url: url,
    fallback_url: url.nullable().default(null),
    patterns: z
      .array(
        z.strictObject({
          kind: z.enum(["utm_source", "utm_campaign", "coupon", "url_prefix"]),
          value: words(1_024),
          partner_id: id.optional(),
        }),
      )
      .max(100)
      .default([]),
    archived: z.boolean().default(false),
  })
  .refine(({ starts_on, ends_on }) => starts_on === null || ends_on === null || starts_on <= ends_on, {
    path: ["ends_on"],
    error: "end on the first day or later; both days belong to the campaign",
  });
export const linkRecord = z.strictObject({
  campaign_id: id,
  partner_id: id,
  code: z.string().regex(/^[A-Za-z0-9_-]{3,64}$/, "3 to 64 letters, digits, _ and -"),
  status: z.enum(["active", "archived"]).default("active"),
});
const inForce = { effective_from: day, effective_to: day.nullable().default(null) };
const isForwards = ({
  effective_from,
  effective_to,
}: {
  effective_from: string | null;
  effective_to: string | null;
}): boolean => effective_from === null || effective_to === null || effective_from < effective_to;
const backwards = {
  path: ["effective_to"],
  error: "end after effective_from: it is the first day on which this is no longer in force",
};
export const contractRecord = z
  .strictObject({
    partner_id: id,
    client_id: id,
    segment: z.string().nullable().default(null),
    event_type: eventType,
    ...termFields,
    status: z.enum(["active", "archived"]).default("active"),
    ...inForce,
  })
  .refine(isForwards, backwards)
  .superRefine((terms, context) => {
    // An archived contract may have any type, because it may have been saved before this check
    // existed.
    const why = terms.status === "archived" ? undefined : earnsNothing(terms.event_type);
    if (why !== undefined) context.addIssue({ code: "custom", path: ["event_type"], message: why });
    checkTerms(terms, (path, message) => context.addIssue({ code: "custom", path: [...path], message }));
  });
export const ruleRecord = z
  .strictObject({
    client_id: id,
    name: words(200),
    status: z.enum(["active", "inactive"]).default("active"),
    priority: z.int().min(-1_000_000).max(1_000_000).default(0),
    effective_from: day.nullable().default(null),
    effective_to: day.nullable().default(null),
    when: z.unknown().superRefine((condition, context) => {
      const parsed = parseCondition(condition);
      if (parsed.kind === "problems")
        for (const { pointer, detail } of parsed.problems)
          context.addIssue({ code: "custom", path: pointer.split("/").slice(1), message: detail });
    }),
    // biome-ignore lint/suspicious/noThenProperty: the wire name of what a rule does
    then: z.strictObject({ partner_id: id, campaign_id: id.optional() }),
    archived: z.boolean().default(false),
  })
  .refine(isForwards, backwards);
