// Lists everyone who could be credited for an event in order of precedence, each with the fault
// that rules them out.

import { parseCondition } from "../../domain/conditions/condition.ts";
import { compile, type Evaluate } from "../../domain/conditions/evaluate.ts";
import { comparedReaderOf, readerOf, type Subject } from "../../domain/conditions/fields.ts";
import { codeOf } from "../../domain/conditions/props.ts";
import { queryValueOf } from "../../domain/conditions/url-parts.ts";
import type { CampaignPattern, Condition, Link, Partner, ReferenceAt } from "../../domain/reference/reference.ts";
import { type Engagement, standingFault } from "../../domain/reference/standing.ts";
import type { EventReceived, EventScored } from "../../schemas/generated.ts";
import type { Recorded, UnixMs } from "../../stream/flow.ts";
import type { AttributeFacts } from "./facts.ts";
import type { Journey } from "./journey.ts";

/**
 * Why a contender cannot be credited. The first five can also be the event's reason
 * (docs/design/contracts.md, "Credit"); the others only explain a contender.
 */
export type Fault =
  | "bad_click_id"
  | "click_expired"
  | "click_after_conversion"
  | "partner_inactive"
  | "campaign_inactive"
  | "unknown_partner"
  | "bad_condition"
  | "not_carried";

export interface Contender {
  readonly method: "click" | "partner_param" | "upload" | "rule" | "campaign" | "identity";
  readonly reference: string;
  readonly partner_id: number | null;
  readonly campaign_id: number | null;
  readonly link_id: number | null;
  readonly rule_id: number | null;
  readonly rule_version: number | null;
  /** Null if the contender can be credited. */
  readonly fault: Fault | null;
}

/** The event and facts for judging its contenders. */
export interface Case extends ClickCase {
  readonly input: Recorded<EventScored>;
  /** The event in the form that conditions read. */
  readonly subject: Subject;
  readonly facts: AttributeFacts;
}
/** The part of a case that is needed to judge the event's own click. */
export interface ClickCase {
  readonly input: Pick<Recorded<unknown>, "at" | "receivedAt"> & {
    readonly data: { readonly event: Pick<EventReceived, "client_id"> };
  };
  readonly facts: Pick<AttributeFacts, "reference" | "clickOf">;
  readonly windowDays: number;
}

const dayMs = 86_400_000;
/**
 * References from outside are cut to this length, because they are kept only to explain a decision.
 */
const referenceLength = 128;

/**
 * A click counts up to and including the last millisecond of its window, measured in event time.
 */
const timeFault = (clickedAt: UnixMs, at: UnixMs, windowDays: number): Fault | null =>
  clickedAt > at ? "click_after_conversion" : at - clickedAt > windowDays * dayMs ? "click_expired" : null;

/**
 * An event that carries a click id happened after the click, whatever the device's clock says. So
 * the click must lie before the event's receipt, and the window ends at the later of the two times.
 */
const carriedFault = (clickedAt: UnixMs, { at, receivedAt }: ClickCase["input"], windowDays: number): Fault | null =>
  clickedAt > receivedAt
    ? "click_after_conversion"
    : Math.max(at, clickedAt) - clickedAt > windowDays * dayMs
      ? "click_expired"
      : null;

/** Judges partner, campaign and link by their status at event time. */
const statusFault = (to: Omit<Engagement, "client_id">, { input, facts }: ClickCase): Fault | null =>
  standingFault({ ...to, client_id: input.data.event.client_id }, facts.reference, input.at);

/**
 * The click id on the event. With a valid MAC it counts even if its click event never arrived. A
 * click on another client's link does not count.
 */
export const clickOnEvent = (clickId: string, case_: ClickCase): Contender =>
  clickOf(clickId, case_, (clickedAt) => carriedFault(clickedAt, case_.input, case_.windowDays));

const clickOf = (clickId: string, case_: ClickCase, faultOf: (clickedAt: UnixMs) => Fault | null): Contender => {
  const { input, facts } = case_;
  const click = facts.clickOf(clickId);
  const link = click === null ? undefined : facts.reference.link(click.link_id);
  if (click === null || (link !== undefined && link.client_id !== input.data.event.client_id))
    return clickContender(clickId, undefined, "bad_click_id");
  const fault =
    faultOf(click.clicked_at) ??
    (link === undefined
      ? "bad_click_id"
      : statusFault({ partner_id: link.partner_id, campaign_id: link.campaign_id, link }, case_));
  return clickContender(clickId, link, fault);
};

const clickContender = (clickId: string, link: Link | undefined, fault: Fault | null): Contender => ({
  method: "click",
  reference: clickId.slice(0, referenceLength),
  partner_id: link?.partner_id ?? null,
  campaign_id: link?.campaign_id ?? null,
  link_id: link?.link_id ?? null,
  rule_id: null,
  rule_version: null,
  fault,
});

/**
 * The person's click on another device. Judged like a click on the event itself, but last in
 * precedence.
 */
export const clickThroughIdentity = (clickId: string, case_: Case): Contender => ({
  ...clickOf(clickId, case_, (clickedAt) => timeFault(clickedAt, case_.input.at, case_.windowDays)),
  method: "identity",
});

/**
 * Earlier clicks of the device whose click id the event did not carry. They are listed but never
 * credited.
 */
export const remembered = ({ clicks }: Journey, { input, facts, windowDays }: Case): readonly Contender[] =>
  clicks
    .filter(({ click_id, at }) => click_id !== input.data.event.click_id && at <= input.at)
    .map(({ click_id, at, link_id }) =>
      clickContender(click_id, facts.reference.link(link_id), timeFault(at, input.at, windowDays) ?? "not_carried"),
    );

/** The partner that a mapped source or an upload names. */
export const partnerOnEvent = (reference: string, case_: Case): Contender => {
  const { event } = case_.input.data;
  const named = partnerNamed({ ...event, partner_ref: reference }, case_.facts.reference);
  return {
    method: event.source === UPLOAD ? "upload" : "partner_param",
    reference: reference.slice(0, referenceLength),
    partner_id: named?.partner_id ?? null,
    campaign_id: named?.campaign_id ?? null,
    link_id: named?.link?.link_id ?? null,
    rule_id: null,
    rule_version: null,
    fault: named === undefined ? "unknown_partner" : statusFault(named, case_),
  };
};

const UPLOAD = "upload";
interface NamesPartner extends Pick<EventReceived, "client_id" | "source"> {
  readonly partner_ref: string;
}

/**
 * The partner with this referral code. As it was saved goes before one of other case, because two
 * partners of before may have both.
 */
const referredBy = (text: string, clientId: number, reference: ReferenceAt): Partner | undefined => {
  const partners = reference.partnersOf(clientId);
  const code = codeOf(text);
  return (
    partners.find(({ referral_code }) => referral_code === text) ??
    partners.find(({ referral_code }) => referral_code !== null && codeOf(referral_code) === code)
  );
};

/**
 * Looks for a partner of the client by referral code, then by link code, then by id
 * (docs/design/contracts.md, "Credit"). An upload always names a partner id, from its token, so
 * only ids are compared: another partner's code may look like that id.
 */
export const partnerNamed = (
  { partner_ref: text, client_id: clientId, source }: NamesPartner,
  reference: ReferenceAt,
): { readonly partner_id: number; readonly campaign_id: number | null; readonly link: Link | null } | undefined => {
  if (source !== UPLOAD) {
    const referred = referredBy(text, clientId, reference);
    if (referred !== undefined) return { partner_id: referred.partner_id, campaign_id: null, link: null };
    const link = reference.linkByCode(clientId, text);
    if (link !== undefined) return { partner_id: link.partner_id, campaign_id: link.campaign_id, link };
  }
  const byId = /^[1-9]\d{0,9}$/.test(text) ? reference.partner(Number(text)) : undefined;
  return byId?.client_ids.includes(clientId)
    ? { partner_id: byId.partner_id, campaign_id: null, link: null }
    : undefined;
};

/** The matching rules, in order of precedence. */
export const matchingRules = (case_: Case): readonly Contender[] => {
  const { input, facts, subject } = case_;
  const rules = facts.reference.rules(input.data.event.client_id);
  if (rules.length === 0) return noContenders;
  const matching: Contender[] = [];
  for (const rule of rules) {
    const evaluate = compiled(rule.when);
    if (evaluate !== null && !evaluate(subject).matches) continue;
    const campaign_id = rule.then.campaign_id ?? null;
    matching.push({
      method: "rule",
      reference: String(rule.rule_id),
      partner_id: rule.then.partner_id,
      campaign_id,
      link_id: null,
      rule_id: rule.rule_id,
      rule_version: rule.version,
      fault:
        evaluate === null
          ? "bad_condition"
          : statusFault({ partner_id: rule.then.partner_id, campaign_id, link: null }, case_),
    });
  }
  return matching;
};
/**
 * Ordered by how specific they are: a coupon code first, then campaign name, source, and URL
 * prefix.
 */
const kindsInOrder = ["coupon", "utm_campaign", "utm_source", "url_prefix"] as const;

const isMatched = ({ kind, value }: CampaignPattern, subject: Subject): boolean => {
  if (kind === "coupon") return comparedCoupon(subject) === codeOf(value);
  if (kind === "url_prefix") return subject.event.url?.startsWith(value) === true;
  return queryValueOf(subject.url?.query, kind) === value;
};
const comparedCoupon = comparedReaderOf("coupon");
const sentCoupon = readerOf("coupon");
/** A coupon as it was saved goes before the same one of other case. */
const isAsSaved = ({ kind, value }: CampaignPattern, subject: Subject): boolean =>
  kind === "coupon" && sentCoupon(subject) === value;

/**
 * The campaigns with a matching pattern, in order of precedence: by kind of pattern, then a
 * coupon as it was saved, then the longer text, then the lower campaign id. A pattern without a
 * partner credits the campaign's partner, if it has exactly one.
 */
export const matchingCampaigns = (case_: Case): readonly Contender[] => {
  const { input, facts, subject } = case_;
  const campaigns = facts.reference.campaignsWithPatterns(input.data.event.client_id);
  if (campaigns.length === 0) return noContenders;
  return campaigns
    .flatMap(({ campaign_id, patterns }) => patterns.map((pattern) => ({ campaign_id, pattern })))
    .filter(({ pattern }) => isMatched(pattern, subject))
    .sort(
      (a, b) =>
        kindsInOrder.indexOf(a.pattern.kind) - kindsInOrder.indexOf(b.pattern.kind) ||
        Number(isAsSaved(b.pattern, subject)) - Number(isAsSaved(a.pattern, subject)) ||
        b.pattern.value.length - a.pattern.value.length ||
        a.campaign_id - b.campaign_id,
    )
    .map(({ campaign_id, pattern }) => campaignContender(campaign_id, pattern, case_));
};

const campaignContender = (campaign_id: number, pattern: CampaignPattern, case_: Case): Contender => {
  const { kind, value, partner_id: named } = pattern;
  const partners = named === undefined ? case_.facts.reference.partnersOfCampaign(campaign_id) : [named];
  const partner_id = partners.length === 1 ? partners[0]! : null;
  return {
    method: "campaign",
    reference: `${kind}:${value}`.slice(0, referenceLength),
    partner_id,
    campaign_id,
    link_id: null,
    rule_id: null,
    rule_version: null,
    fault: partner_id === null ? "unknown_partner" : statusFault({ partner_id, campaign_id, link: null }, case_),
  };
};

export const noContenders: readonly Contender[] = [];

/**
 * Compiles each condition once and caches it with its row. Null if the condition is invalid: saving
 * a rule refuses that, and here it must not stop a worker.
 */
const compiled = (when: Condition): Evaluate | null => {
  const known = closures.get(when);
  if (known !== undefined) return known;
  const parsed = parseCondition(when);
  const evaluate = parsed.kind === "condition" ? compile(parsed.condition) : null;
  if (typeof when === "object" && when !== null) closures.set(when, evaluate);
  return evaluate;
};
const closures = new WeakMap<Condition, Evaluate | null>();
