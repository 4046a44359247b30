// Decides which partner is credited for an event, records why the others are not, and sends events
// about an order to the settle stage.
import { monthOf } from "../../domain/calendar.ts";
import { Subject } from "../../domain/conditions/fields.ts";
import { DEFAULT_LATE_HOURS, type MoneyTime, moneyTime } from "../../domain/money-time.ts";
import { shownBy } from "../../domain/personal/consent.ts";
import { refundedEventOf } from "../../domain/refunds.ts";
import type { Candidate, Claim, Credit, EventAttributed, EventReceived, EventScored } from "../../schemas/generated.ts";
import { drop, type Emitted, emit, type Processor } from "../../stream/flow.ts";
import { claimKindOf, hasWeakOrder, orderKeyOf } from "./claims.ts";
import {
  type Case,
  type Contender,
  clickOnEvent,
  clickThroughIdentity,
  type Fault,
  matchingCampaigns,
  matchingRules,
  noContenders,
  partnerOnEvent,
  remembered,
} from "./contenders.ts";
import type { AttributeFacts } from "./facts.ts";
import { type Journey, withClick } from "./journey.ts";

interface AttributeOutputs {
  readonly attributed: EventAttributed;
  readonly claims: Claim;
}

/**
 * The click windows of a client without reference data: the defaults of a new client
 * (docs/design/contracts.md, "Records").
 */
const defaultClickDays = 30;
const defaultInstallDays = 7;

/**
 * Faults that may become the event's own reason. Other faults only explain why one contender lost.
 */
const reasons: ReadonlySet<Fault | null> = new Set<Fault>([
  "bad_click_id",
  "click_expired",
  "click_after_conversion",
  "partner_inactive",
  "campaign_inactive",
]);

/**
 * The order of precedence is: the click id on the event, the partner that its source names, the
 * first matching rule, a campaign with a matching pattern, and (if the client enables it) the click
 * of the same person on another device. The first of these without a fault gets the credit. Windows
 * and statuses are those at event time. Events with a rejected fraud score and sales without a real
 * order id credit no partner. Every event is passed on as version 1: claims go to settle, which
 * alone writes their rows, and all other events go to the store. Only a click with a valid click id
 * changes the journey.
 */
export const attribute: Processor<EventScored, AttributeOutputs, Journey, AttributeFacts, "no_analytics_consent"> = (
  input,
  journey,
  facts,
) => {
  const { event, enrichment, fraud } = input.data;
  const kind = claimKindOf(event, facts.reference);
  const shown = shownBy(enrichment.consent, event, kind !== null);
  if (shown === null) return drop("no_analytics_consent", journey);
  const credit = creditFor(
    { input, facts, subject: new Subject(input.data), windowDays: windowOf(event.t, event.client_id, facts) },
    journey,
    kind !== null,
  );
  const dated = kind === "conversion" ? datedBy(input, credit.partner_id, facts) : null;
  const attributed: EventAttributed = {
    event: dated === null ? shown : marked(shown, dated),
    enrichment,
    fraud,
    credit,
    version: 1,
    merged_into: null,
    refunded_minor: null,
  };
  const emitted: Emitted<AttributeOutputs> =
    kind === null
      ? { output: "attributed", data: attributed }
      : {
          output: "claims",
          data: {
            client_id: event.client_id,
            order_key: orderKeyOf(event),
            kind,
            attributed,
            decision: null,
            line_event_id: refundedEventOf(event),
            currency: currencyOf(event, kind, facts),
            dated_by: dated?.by ?? null,
            dated_because: dated?.because ?? null,
            moved: null,
          },
          // From here on a sale has the time of its money, which contract, month and cap read.
          ...(dated !== null && { at: dated.at }),
        };
  return emit<AttributeOutputs, Journey>([emitted], journeyAfter(event.t, event.click_id, journey, facts));
};

/** A row says like its receipt that its time is not the sender's. */
const marked = (event: EventReceived, { because }: MoneyTime): EventReceived =>
  because === null || event.warnings.includes(because) ? event : { ...event, warnings: [...event.warnings, because] };

const datedBy = (
  { at, receivedAt, data: { event } }: Parameters<typeof attribute>[0],
  partner_id: number | null,
  { reference, referenceAtReceipt, clickOf }: AttributeFacts,
): MoneyTime => {
  const { client_id, click_id, source, client_side: isClientSide } = event;
  const click = click_id === null ? null : clickOf(click_id);
  const isOwn = click !== null && reference.link(click.link_id)?.client_id === client_id;
  return moneyTime({
    at,
    receivedAt,
    clickedAt: isOwn ? click.clicked_at : null,
    source,
    isClientSide,
    lateHours: referenceAtReceipt.client(client_id)?.late_hours ?? DEFAULT_LATE_HOURS,
    isClosed: (time) => partner_id !== null && reference.isClosed({ client_id, partner_id, ...monthOf(time) }),
  });
};

/** A sale without amount and currency gets the currency of its client. */
const currencyOf = (
  { client_id, value_minor, currency }: EventReceived,
  kind: Claim["kind"],
  { reference }: AttributeFacts,
): string | null =>
  kind === "conversion" && value_minor === null && currency === null
    ? (reference.client(client_id)?.currency ?? null)
    : null;

/** The number of days in which a click counts for this event type. */
export const windowOf = (type: string, clientId: number, { reference }: Pick<AttributeFacts, "reference">): number => {
  const client = reference.client(clientId);
  return type === "install"
    ? (client?.install_window_days ?? defaultInstallDays)
    : (client?.click_window_days ?? defaultClickDays);
};

const journeyAfter = (type: string, clickId: string | null, journey: Journey, { clickOf }: AttributeFacts): Journey => {
  const click = type === "click" && clickId !== null ? clickOf(clickId) : null;
  return click === null
    ? journey
    : withClick(journey, { click_id: clickId!, at: click.clicked_at, link_id: click.link_id });
};

const creditFor = (case_: Case, journey: Journey, isClaim: boolean): Credit => {
  const { input, facts, windowDays } = case_;
  const { event, fraud } = input.data;
  const refused = fraud.band === "reject" ? "fraud_rejected" : hasWeakOrder(event) ? "weak_order_id" : null;
  const carried = contendersOn(case_);
  const winner = refused !== null ? undefined : carried.find(({ fault }) => fault === null);
  const click = clickIdOf(event.click_id, winner);
  return {
    status: winner === undefined ? "unattributed" : "attributed",
    method: winner?.method ?? null,
    reason: winner !== undefined ? null : (refused ?? reasonIn(carried)),
    partner_id: winner?.partner_id ?? null,
    campaign_id: winner?.campaign_id ?? null,
    link_id: winner?.link_id ?? null,
    rule_id: winner?.rule_id ?? null,
    rule_version: winner?.rule_version ?? null,
    clicked_at: click === null ? null : (facts.clickOf(click)?.clicked_at ?? null),
    window_days: windowDays,
    candidates: candidatesOf(carried, isClaim ? remembered(journey, case_) : noContenders, winner, refused),
    reference_as_of: facts.referenceAsOf,
  };
};

/**
 * The click id for the credit: the one found through the person graph if that won, otherwise the
 * event's own.
 */
const clickIdOf = (own: string | null, winner: Contender | undefined): string | null =>
  winner?.method === "identity" ? winner.reference : own;

/**
 * The contenders that the event itself names or is linked to, in order of precedence. Most events
 * have none.
 */
const contendersOn = (case_: Case): readonly Contender[] => {
  const { click_id, partner_ref } = case_.input.data.event;
  const { identityClick } = case_.facts;
  const rules = matchingRules(case_);
  const campaigns = matchingCampaigns(case_);
  if (click_id === null && partner_ref === null && identityClick === null && campaigns.length === 0) return rules;
  const contenders: Contender[] = [];
  if (click_id !== null) contenders.push(clickOnEvent(click_id, case_));
  if (partner_ref !== null) contenders.push(partnerOnEvent(partner_ref, case_));
  contenders.push(...rules, ...campaigns);
  if (identityClick !== null && identityClick !== click_id) contenders.push(clickThroughIdentity(identityClick, case_));
  return contenders;
};

/**
 * The first fault that may be the reason of an event. If there is none, the event simply had no
 * click.
 */
const reasonIn = (contenders: readonly Contender[]): string =>
  contenders.find(({ fault }) => reasons.has(fault))?.fault ?? "no_click";

const noCandidates: readonly Candidate[] = [];
const candidatesOf = (
  carried: readonly Contender[],
  clicks: readonly Contender[],
  winner: Contender | undefined,
  refused: string | null,
): readonly Candidate[] =>
  carried.length + clicks.length === 0
    ? noCandidates
    : [...carried, ...clicks].map((contender) => candidateOf(contender, winner, refused));

const candidateOf = (contender: Contender, winner: Contender | undefined, refused: string | null): Candidate => ({
  method: contender.method,
  reference: contender.reference,
  partner_id: contender.partner_id,
  campaign_id: contender.campaign_id,
  outcome: contender === winner ? "won" : (contender.fault ?? refused ?? "lower_precedence"),
});
