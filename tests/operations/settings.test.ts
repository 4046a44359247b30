// Every setting does something: each is listed here with the code that acts by it, beyond the code
// that saves and shows it. A new setting that no code reads has no such line.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { saveBudget } from "../../apps/api/contract/budgets/relo-budgets.ts";
import { pixelFields } from "../../apps/api/contract/clients/pixel.ts";
import { createSource } from "../../apps/api/contract/sources/sources.ts";
import {
  campaignRecord,
  clientRecord,
  contractRecord,
  linkRecord,
  partnerRecord,
  ruleRecord,
  segmentRecord,
} from "../../modules/catalog/reference/records.ts";
import { sourceState } from "../../modules/intake/sources/source-fields.ts";

/** A file that names the setting, and the name there if it is another one. */
type Reader = `${string}.ts` | readonly [file: `${string}.ts`, name: string];
/** For people alone: shown beside the thing, and promised to do nothing else. */
const LABEL = "label";
type Readers = Readonly<Record<string, Reader | typeof LABEL>>;

const attribute = "processors/attribute/attribute.ts";
const contenders = "processors/attribute/contenders.ts";
const findings = "modules/catalog/pixel/findings.ts";
const gates = "modules/intake/recordings/gates.ts";
const nightly = "modules/money/nightly/findings.ts";
const reference = "modules/catalog/reference/checks.ts";
const scoring = "processors/score/facts.ts";
const snapshot = "domain/reference/snapshot.ts";
const standing = "domain/reference/standing.ts";
const tiered = "processors/commission/contract-types/tiered.ts";
const link = "domain/links/tracked-link.ts";
const worth = "processors/commission/worth.ts";

const readers = {
  client: {
    slug: "modules/catalog/clients/find-client.ts",
    name: LABEL,
    // Only "archived" acts: a paused client is shown as paused.
    status: "modules/intake/path/facts.ts",
    currency: "modules/catalog/budgets/save.ts",
    "attribution.click_window_days": attribute,
    "attribution.install_window_days": attribute,
    "attribution.identity_link": "processors/attribute/facts.ts",
    hold_days: "processors/commission/commission.ts",
    late_hours: attribute,
    "fraud.review": "processors/score/score.ts",
    "fraud.reject": "processors/score/score.ts",
    "fraud.nightly.flood_clicks": nightly,
    "fraud.nightly.flood_conversions_ppm": nightly,
    "fraud.nightly.flat_sample": nightly,
    "fraud.nightly.flat_distance": nightly,
    "fraud.exclusions": scoring,
    "fraud.rules": scoring,
    consent_default: "processors/admit/request-terms.ts",
    jurisdiction: "processors/admit/request-terms.ts",
    fallback_url: link,
    leads_in_plain: "modules/intake/leads/lead-list.ts",
    retention_months: "modules/privacy/retention.ts",
    plan: ["apps/api/server.ts", "planOf"],
  },
  segment: { code: reference, name: LABEL, active: reference },
  partner: {
    name: LABEL,
    email: "modules/catalog/campaigns/follow-launch.ts",
    status: standing,
    client_ids: standing,
    "payout.currency": "modules/figures/reads/partner-money.ts",
    "payout.min_amount": "modules/figures/reads/partner-money.ts",
    referral_code: contenders,
  },
  campaign: {
    client_id: standing,
    name: LABEL,
    status: standing,
    starts_on: [standing, "starts_at"],
    ends_on: [standing, "ends_at"],
    destination_url: link,
    fallback_url: link,
    patterns: contenders,
    archived: "modules/catalog/campaigns/open-campaign.ts",
  },
  link: { campaign_id: link, partner_id: contenders, code: link, status: standing },
  contract: {
    partner_id: snapshot,
    client_id: snapshot,
    segment: snapshot,
    event_type: snapshot,
    type: ["processors/commission/decide.ts", "type"],
    rate: [worth, "rate_ppm"],
    amount: [worth, "amount_minor"],
    tiers: tiered,
    tier_mode: tiered,
    months: "processors/commission/contract-types/recurring.ts",
    min: [worth, "min_minor"],
    max: [worth, "max_minor"],
    per: "processors/commission/worth.ts",
    "cap.period": "processors/commission/decide.ts",
    "cap.amount": ["processors/commission/month.ts", "amount_minor"],
    status: snapshot,
    effective_from: snapshot,
    effective_to: snapshot,
  },
  rule: {
    client_id: snapshot,
    name: LABEL,
    status: snapshot,
    priority: snapshot,
    effective_from: snapshot,
    effective_to: snapshot,
    when: snapshot,
    "then.partner_id": contenders,
    "then.campaign_id": contenders,
    archived: "modules/catalog/rules/archive.ts",
  },
  pixel: {
    allowed_domains: "apps/pixel/intake.ts",
    tracked_events: findings,
    replay_enabled: gates,
    replay_sample_rate: gates,
    consent_replay: gates,
    jurisdiction: "processors/admit/request-terms.ts",
    consent_default: "processors/admit/request-terms.ts",
    tracking_type: findings,
    auto_signals: "browser/visitor/visitor.ts",
  },
  source: {
    client_id: "modules/intake/sources/source-facts.ts",
    slug: "processors/admit/sources/generic.ts",
    name: LABEL,
    kind: "apps/ingest/edges/generic.ts",
    mode: LABEL,
    mapping: "domain/sources/map-payload.ts",
    constants: "domain/sources/map-payload.ts",
    event_names: "domain/sources/map-payload.ts",
    allow_ips: ["apps/ingest/edges/generic.ts", "allows"],
    unsigned: "modules/intake/sources/source-picture.ts",
    unsigned_money: "modules/intake/sources/source-picture.ts",
    "pull.driver": "modules/intake/pulls/pull-lane.ts",
    "pull.url": "modules/intake/pulls/drivers/mmp.ts",
    "pull.look_back_days": "modules/intake/pulls/pulls.ts",
    secret: "modules/intake/sources/signed-payload.ts",
    pull_secret: "modules/intake/pulls/pulls.ts",
    state: "modules/intake/sources/source-facts.ts",
  },
  budget: {
    year: "modules/catalog/budgets/pace.ts",
    month: "modules/catalog/budgets/pace.ts",
    amount: ["modules/catalog/budgets/pace.ts", "amount"],
    currency: "modules/catalog/budgets/save.ts",
    segment: "modules/catalog/budgets/budgets.ts",
    note: LABEL,
    // Only "alert" is taken: the spend is compared, and nothing stops.
    on_overspend: "modules/catalog/budgets/save.ts",
  },
} as const satisfies Readonly<Record<string, Readers>>;

/**
 * The settings of a record, those of an object one by one unless it is listed whole. The version
 * that a caller has seen is no setting.
 */
const settingsOf = (shape: object, listed: Readers, above = ""): readonly string[] =>
  Object.entries(shape)
    .filter(([name]) => name !== "version")
    .flatMap(([name, field]) => {
      const path = above + name;
      const inner = path in listed ? undefined : shapeIn(field);
      return inner === undefined ? [path] : settingsOf(inner, listed, `${path}.`);
    });
/** The shape of an object behind defaults and null. */
const shapeIn = (field: any): object | undefined => field.shape ?? (field.unwrap ? shapeIn(field.unwrap()) : undefined);
const body = ({ body }: { readonly body: unknown }): object => (body as { readonly shape: object }).shape;

const textOf = (file: string): string => readFileSync(new URL(`../../${file}`, import.meta.url), "utf8");

test.each<[keyof typeof readers, object]>([
  ["client", clientRecord.shape],
  ["segment", segmentRecord.shape],
  ["partner", partnerRecord.shape],
  ["campaign", campaignRecord.shape],
  ["link", linkRecord.shape],
  ["contract", contractRecord.shape],
  ["rule", ruleRecord.shape],
  ["pixel", pixelFields],
  ["source", { ...body(createSource), state: sourceState }],
  ["budget", body(saveBudget)],
])("each setting of a %s is read, or is a label", (thing, shape) => {
  const listed: Readers = readers[thing];
  expect(settingsOf(shape, listed).toSorted()).toEqual(Object.keys(listed).toSorted());
  const unread = Object.entries(listed).filter(([setting, reader]) => {
    if (reader === LABEL) return false;
    const [file, name] = typeof reader === "string" ? [reader, setting.split(".").at(-1)!] : reader;
    return !new RegExp(`\\b${name}\\b`).test(textOf(file).replaceAll(/^\s*(?:\/\/|\*|\/\*).*$/gm, ""));
  });
  expect(unread).toEqual([]);
});

const bits: Readonly<Record<number, readonly [file: string, code: string] | "recorded only">> = {
  1: ["domain/personal/consent.ts", "(consent & analytics) !== 0"],
  2: ["processors/enrich/identity.ts", "analyticsAndPersonalization = 0x03"],
  4: "recorded only",
  8: ["domain/personal/across.ts", "allowsAcross = 0x09"],
  16: [gates, "REPLAY_BITS = 0x11"],
  32: "recorded only",
  64: ["modules/privacy/purge-events.ts", "bitTest(consent, 6)"],
};
test("each bit of consent is checked, or the pages say that it is recorded only", () => {
  const page = textOf("docs/privacy.md");
  for (const [bit, reader] of Object.entries(bits)) {
    const name = `0x${Number(bit).toString(16).padStart(2, "0")}`;
    if (reader === "recorded only") expect(page).toMatch(new RegExp(`${name}\\)[^.]* are \\*\\*recorded\\s+only`));
    else expect(textOf(reader[0]), name).toContain(reader[1]);
  }
});
