// Prints an explanation for a person: the event, its versions, the candidates with their outcomes,
// and the money.
import { dayOf, startOfDay } from "../../../../domain/calendar.ts";
import { toDecimal } from "../../../../domain/money.ts";
import { isRefundReason } from "../../../../domain/refunds.ts";
import { table } from "../../../../infra/runtime/output.ts";
import type { DecisionMade } from "../../../../modules/money/decisions/decisions-about.ts";
import type { Explanation, Version } from "../../../../modules/money/explain/explanation.ts";
import type { LetterAbout } from "../../../../modules/money/explain/letters-about.ts";
import type { ConversionOf, EntryOf } from "../../../../modules/money/explain/money-of.ts";
import type { TookNothing } from "../../../../modules/money/explain/taken-back.ts";
import { DISPUTED_TOTAL } from "../../../../processors/settle/order.ts";
import { UNDONE } from "../../../../processors/settle/undo/undone-row.ts";
import type { Candidate } from "../../../../schemas/generated.ts";
import type { FirstCredit } from "./first-credit.ts";

/**
 * An explanation with the decisions of people, which merges, replays and rebuilds do not change,
 * and with what lies in the dead letters now.
 */
export type ExplanationWithDecisions = Explanation & {
  /** Version 1, as the sale came, where people decided since; null: the log does not say. */
  readonly first_credit: FirstCredit | null;
  readonly decisions: readonly DecisionMade[];
  readonly letters: readonly LetterAbout[];
};

/**
 * The outcomes of a candidate and the reasons of an event (docs/design/contracts.md, "Credit"), and
 * why its money is dated otherwise, in words.
 */
const words: Readonly<Record<string, string>> = {
  won: "credited",
  lower_precedence: "one before it in the order of precedence was credited",
  bad_click_id: "the click id is not one of ours, or of another client's link",
  click_expired: "the click is older than the window",
  click_after_conversion: "the click came after the event",
  partner_inactive: "the partner was not active for this client",
  campaign_inactive: "the campaign or its link was not running",
  unknown_partner: "the client has no such partner",
  bad_condition: "the rule holds no readable condition",
  not_carried: "a click of this device that the event did not carry: named, never credited",
  fraud_rejected: "the fraud score is in the band reject",
  duplicate_order: "a second copy of a sale that is stored already; it counts once",
  manual: "the credit was taken back",
  import_undone: "a row of an import that was undone",
  amended: "a later copy amended its amount",
  changed_money: "a copy brought other money",
  refund_spread: "refunds of its order are spread otherwise",
  reattributed: "it went to another partner",
  disputed_total: "the total and the lines of its order differ",
  total_merged: "the total of its order was merged into its lines",
  total_kept: "a person kept the total of its order",
  no_click: "the event names no partner and no rule matches",
  ts_before_click: "the sender's time lay before the click that the event carries",
  client_clock: "the clock of a page or an app counts for ten minutes",
  late_event: "the sender's time is older than the client's late_hours, or its month is closed",
};
const inWords = (code: string): string => (words[code] === undefined ? code : `${code}: ${words[code]}`);

const hourMs = 3_600_000;
/** The time in UTC, and in Mexico City, which decides about days and months. */
const time = (ms: number): string => {
  const ofDay = new Date(ms - startOfDay(dayOf(ms))).toISOString().slice(11, 16);
  return `${new Date(ms).toISOString()} (${dayOf(ms)} ${ofDay} in Mexico City)`;
};
const span = (ms: number): string =>
  ms < hourMs
    ? `${(ms / 1_000).toFixed(1)} s`
    : ms < 48 * hourMs
      ? `${(ms / hourMs).toFixed(1)} h`
      : `${(ms / (24 * hourMs)).toFixed(1)} days`;
const money = (minor: bigint | null, currency: string | null): string =>
  minor === null ? "-" : `${toDecimal(minor, currency ?? "MXN")} ${currency ?? "MXN"}`;
const section = (title: string, ...lines: readonly string[]): readonly string[] =>
  lines.length === 0 ? [] : ["", title, ...lines.flatMap((line) => line.split("\n")).map((line) => `  ${line}`)];

export const printed = (found: ExplanationWithDecisions): string => {
  const newest = found.versions[0]!;
  const partner = (id: number | null): string =>
    id === null ? "no partner" : `partner ${id} ${found.partners[id] ?? ""}`.trimEnd();
  const campaign = (id: number | null): string => (id === null ? "-" : `${id} ${found.campaigns[id] ?? ""}`.trimEnd());
  return [
    ...head(found, newest, partner, campaign),
    ...section(`Version ${newest.version}`, versionsTable(found.versions)),
    ...lettersSection(found),
    ...decisionsSection(found, partner),
    ...firstSection(found, partner, campaign),
    ...section(
      `Considered for version ${newest.version}`,
      // A refund is credited to no partner, so it has no candidates.
      ...(newest.t === "refund" ? [] : [candidatesTable(newest.candidates, found, partner, campaign)]),
    ),
    ...section(`Fraud: ${newest.fraud_score} of 100, band ${newest.fraud_band}`, fraudTable(newest)),
    ...section(
      "Rules that were looked at, as in force then",
      ...found.rules.map(
        ({ rule_id, version, name, priority, when, credits }) =>
          `rule ${rule_id} version ${version} "${name}", priority ${priority}, credits ` +
          `${partner(credits.partner_id)}\n  when ${JSON.stringify(when)}`,
      ),
    ),
    ...orderSection(found, partner),
    ...section(
      "Second copies of this sale",
      ...found.copies.map(
        (copy) => `${copy.sender_event_id ?? copy.event_id} by ${copy.source}, received ${time(copy.received_at)}`,
      ),
    ),
    ...conversionsSection(found, partner, campaign),
    ...takenBackSection(found, partner),
    ...ledgerSection(found, partner),
  ].join("\n");
};

type Name = (id: number | null) => string;

const head = (found: Explanation, newest: Version, partner: Name, campaign: Name): readonly string[] => {
  const isRefund = newest.t === "refund";
  const lines = [
    `${found.type} ${newest.sender_event_id ?? "(without an id of its sender)"} of ${found.client.slug}`,
    `  in the log   ${found.event_id}`,
    `  happened     ${time(found.at)}`,
    `  received     ${time(receivedAt(found, newest))} by ${newest.source}`,
  ];
  const dated = found.order?.lines.find((line) => line.event_id === found.event_id)?.dated ?? null;
  if (dated !== null) {
    const why = dated.because === null ? "" : `, ${inWords(dated.because)}`;
    lines.push(`  money dated  ${time(dated.at)} by the ${dated.by}${why}`);
  }
  const amount = money(newest.value_minor, newest.currency);
  if (newest.order_id !== null || newest.value_minor !== null)
    lines.push(
      `  ${isRefund ? "gives back" : "sale      "}   order ${newest.order_id ?? "-"}, product ` +
        `${newest.product_id ?? "-"}, ${newest.value_minor === null && isRefund ? "all that is left" : amount}`,
    );
  if (newest.url !== null) lines.push(`  page         ${newest.url}`);
  lines.push(
    `  visitor      ${newest.country ?? "country unknown"}, ` +
      `${newest.device === "unknown" ? "device unknown" : newest.device}${newest.is_bot ? ", a bot" : ""}, consent ` +
      `0x${newest.consent.toString(16).padStart(2, "0")}`,
  );
  if (newest.warnings.length > 0) lines.push(`  altered      ${newest.warnings.join(", ")}`);
  if (newest.enrich_errors.length > 0) lines.push(`  not looked up ${newest.enrich_errors.join(", ")}`);
  if (newest.credit_reason === UNDONE) lines.push("  withdrawn    its import was undone: it counts nowhere");
  else if (newest.merged_into !== null)
    lines.push(`  merged       a second copy of ${newest.merged_into}: ${amountWord(found)}`);
  lines.push(
    isRefund
      ? "  credited to  no partner: a refund takes back from those who were credited for its sale (see below)"
      : newest.credit_status === "attributed"
        ? `  credited to  ${partner(newest.partner_id)}, campaign ${campaign(newest.campaign_id)}, by ` +
          `${newest.credit_method}${byWhat(newest)}`
        : `  credited to  no partner: ${inWords(newest.credit_reason ?? "no reason")}`,
  );
  if (newest.reference_as_of !== null)
    lines.push(`  facts        as of ${time(newest.reference_as_of)}: they could not be refreshed`);
  return lines;
};

/**
 * If a line was decided later, the receipt of the sale counts, not the receipt of the decision's
 * row.
 */
const receivedAt = ({ order, event_id }: Explanation, newest: Version): number =>
  Math.min(
    newest.received_at,
    ...(order?.lines ?? []).filter((line) => line.event_id === event_id).map(({ received_at }) => received_at),
  );

const byWhat = ({ link_id, rule_id, rule_version, clicked_at, window_days, ts }: Version): string =>
  rule_id !== null
    ? ` ${rule_id} version ${rule_version}`
    : clicked_at === null
      ? ""
      : ` on link ${link_id}, ${span(ts - clicked_at)} before it, window ${window_days} days`;

const creditWord = ({ credit_reason, credit_status, merged_into, t }: Version): string => {
  if (credit_reason === UNDONE) return "withdrawn";
  return merged_into !== null ? "second copy" : t === "refund" ? "refund" : credit_status;
};

const versionsTable = (versions: readonly Version[]): string =>
  table(
    ["version", "credit", "by or why", "partner", "value", "fraud"],
    versions.map((row) => [
      row.version,
      creditWord(row),
      row.t === "refund" ? null : (row.credit_method ?? row.credit_reason),
      row.partner_id,
      money(row.value_minor, row.currency),
      row.fraud_score,
    ]),
  );

export const lettersTable = (letters: readonly LetterAbout[]): string =>
  table(
    ["letter", "state", "refused by", "code", "event", "since"],
    letters.map((one) => [
      ...[one.letter_id, one.state, one.stage, one.code, one.event_id],
      new Date(one.first_failed_at).toISOString(),
    ]),
  );

const lettersSection = ({ letters }: ExplanationWithDecisions): readonly string[] =>
  letters.length === 0
    ? []
    : section(
        "Not all of it has come through: in the dead letters, see tributary dlq show <letter>",
        lettersTable(letters),
      );

const decisionsSection = ({ decisions }: ExplanationWithDecisions, partner: Name): readonly string[] =>
  section(
    "Decided by people",
    ...decisions.map(({ at, by, kind, reason, from, to, amount, currency }) => {
      const credit = to === null ? "" : ` from ${from.map(partner).join(", ") || "no partner"} to ${partner(to)}`;
      const sum = amount === null ? "" : ` of ${amount}${currency === null ? "" : ` ${currency}`}`;
      return `${new Date(at).toISOString()} ${kind}${sum}${credit} by ${by}: ${reason}`;
    }),
  );

/** What was decided before a person did. */
const firstSection = (found: ExplanationWithDecisions, partner: Name, campaign: Name): readonly string[] => {
  const { first_credit: first } = found;
  if (first === null) return [];
  const { status, method, reason, candidates } = first.credit;
  return section(
    `Version 1, before that: ${status}, ${method ?? inWords(reason ?? "no reason")}`,
    candidatesTable(candidates, found, partner, campaign),
    `fraud ${first.fraud.score} of 100, band ${first.fraud.band}, value ${money(first.value_minor, first.currency)}`,
  );
};

const candidatesTable = (
  candidates: readonly Candidate[],
  found: Explanation,
  partner: Name,
  campaign: Name,
): string =>
  candidates.length === 0
    ? "no partner: the event carries no click id and no partner, and no rule matches"
    : table(
        ["by", "reference", "partner", "campaign", "outcome"],
        candidates.map((one) => [
          one.method,
          one.method === "rule" ? ruleName(one.reference, found) : one.reference,
          one.partner_id === null ? "-" : partner(one.partner_id),
          campaign(one.campaign_id),
          inWords(one.outcome),
        ]),
      );
const ruleName = (reference: string, { rules }: Explanation): string => {
  const rule = rules.find(({ rule_id }) => String(rule_id) === reference);
  return rule === undefined ? reference : `${reference} ${rule.name}`;
};

const fraudTable = ({ fraud_reasons }: Version): string =>
  fraud_reasons.length === 0
    ? "no rule had anything against it"
    : table(
        ["rule", "weight", "evidence"],
        fraud_reasons.map(({ code, weight, evidence }) => [code, weight, evidence]),
      );

const orderNotes = (order: NonNullable<Explanation["order"]>): string =>
  [
    ...(order.waiting_refunds > 0 ? [`${order.waiting_refunds} refunds wait for their sale`] : []),
    ...(order.refunds_in_other_currency > 0
      ? [`${order.refunds_in_other_currency} refunds are in another currency than their sale, and take nothing`]
      : []),
    ...order.void_refunds.map((one) => `${money(one.amount_minor, one.currency)} of refunds exceeds it and is void`),
  ]
    .map((note) => `, ${note}`)
    .join("");

const orderSection = ({ order }: Explanation, partner: Name): readonly string[] =>
  order === null
    ? []
    : section(
        `Order as settle remembers it: ${order.order_key}${orderNotes(order)}`,
        table(
          ["product", "status", "held by", "value", "given back", "copies", "conversion", "review"],
          order.lines.map((line) => [
            line.product_key === "" ? "-" : line.product_key,
            line.status,
            partner(line.partner_id),
            money(line.value_minor, line.currency),
            money(line.refunded_minor, line.currency),
            line.copies,
            line.conversion_id,
            line.review,
          ]),
        ),
        ...order.lines.flatMap(amountNote),
        ...totalNotes(order.lines),
      );

/** Why a total and lines are one, or wait to be. */
const totalNotes = (lines: NonNullable<Explanation["order"]>["lines"]): readonly string[] => {
  const merged = [...new Set(lines.flatMap(({ total_from, stands }) => (stands ? [] : (total_from ?? []))))];
  const [kept] = lines.filter(({ stands }) => stands);
  const isDisputed = lines.some(({ review }) => review === DISPUTED_TOTAL);
  return [
    ...merged.map((id) => `${id} reported its total and was merged into these lines: they come to its worth`),
    ...(kept === undefined ? [] : [`a person kept the ${kept.product_key === "" ? "total" : "lines"} of the two`]),
    ...(isDisputed ? ["its total and its lines are of another worth: tributary decide release --keep says which"] : []),
  ];
};

/** What of a second copy counts. */
const amountWord = ({ event_id, order }: Explanation): string =>
  order?.lines.some(({ money_from }) => money_from?.event_id === event_id)
    ? "its amount is that of the sale"
    : "it counts nowhere";

/** Which copy amended the amount of a line, or was the first to know it. */
const amountNote = ({ product_key, money_from }: NonNullable<Explanation["order"]>["lines"][number]) =>
  money_from === null
    ? []
    : [`the amount of ${product_key || "-"} is that of copy ${money_from.event_id}, dated ${time(money_from.at)}`];

/** Only a refund gives back. Everything else closes a conversion, and may open another one. */
const takenWord = ({ status, reason, refunded_minor, currency, is_opened_again }: ConversionOf): string =>
  status === "credited" || reason === null || isRefundReason(reason)
    ? `given back ${money(refunded_minor, currency)}: ${reason ?? "no reason"}`
    : `closed${is_opened_again ? ", and opened again" : ""}: ${inWords(reason)}`;

const conversionsSection = (
  { conversions, commissions }: Explanation,
  partner: Name,
  campaign: Name,
): readonly string[] =>
  section(
    "Conversions",
    ...conversions.map((one) => {
      const earned = commissions.find(({ conversion_id }) => conversion_id === one.conversion_id);
      const lines = [
        `${one.conversion_id} version ${one.version}, ${one.status}: ` +
          `${money(one.value_minor, one.currency)} to ${partner(one.partner_id)}, campaign ` +
          `${campaign(one.campaign_id)}, by ${one.method}`,
      ];
      if (one.refunded_minor !== 0n || one.status === "reversed") lines.push(`  ${takenWord(one)}`);
      if (one.review !== null) lines.push(`  under review: ${one.review}`);
      if (earned !== undefined)
        lines.push(
          `  earns ${money(earned.amount_minor, earned.currency)} in ` +
            `${earned.year}-${String(earned.month).padStart(2, "0")}, ` +
            `${earned.status}${earned.payable_from === null ? "" : `, payable from ${time(earned.payable_from)}`}`,
        );
      return lines.join("\n");
    }),
  );

const entryText = (entry: EntryOf, { contracts }: Explanation, partner: Name): string => {
  const contract = contracts.find(({ contract_id }) => contract_id === entry.contract_id);
  const under =
    entry.contract_id === null
      ? "no contract"
      : `contract ${entry.contract_id} version ${entry.contract_version} ` +
        `(${entry.commission_type}${contract?.segment ? `, segment ${contract.segment}` : ""})`;
  return [
    `${entry.entry_id} ${entry.kind}: ${money(entry.amount_minor, entry.currency)} for ` +
      `${partner(entry.partner_id)}, ${under}${entry.reason === null ? "" : `, ${entry.reason}`}`,
    `  ${entry.formula}`,
    `  receipt ${JSON.stringify(entry.inputs)}`,
    ...entry.lines.map(
      ({ account, amount_minor }) =>
        `  ${account.padEnd(24)} ${money(BigInt(amount_minor), entry.currency).padStart(18)}`,
    ),
  ].join("\n");
};

const nothingTaken: Readonly<Record<TookNothing, string>> = {
  second_copy: "nothing: it is a second copy of a refund",
  held_twice: "nothing yet: another source reported the same refund, and a person decides whether both are one",
  waits_for_sale: "nothing yet: it waits for its sale",
  other_currency: "nothing: it is in another currency than its sale (other_currency); see: tributary waiting",
  with_its_sale: "nothing by itself: it came before its sale, which was credited less (see the ledger)",
  no_partner: "nothing: no partner was credited for the sale",
  nothing_left: "nothing: nothing of the sale's credit was left to take back",
};

const takenBackSection = (found: Explanation, partner: Name): readonly string[] => {
  const { taken_back: taken, entries } = found;
  if (taken === null) return [];
  const own = entries.filter(({ entry_id }) => taken.entries.includes(entry_id));
  return section(
    "What it took back",
    ...(taken.nothing === null ? own.map((entry) => entryText(entry, found, partner)) : [nothingTaken[taken.nothing]]),
  );
};

/** The other entries of a refund's order. */
const ledgerSection = (found: Explanation, partner: Name): readonly string[] => {
  const { entries, taken_back: taken } = found;
  const others = entries.filter(({ entry_id }) => taken?.entries.includes(entry_id) !== true);
  const title = taken === null ? "Ledger" : "Ledger of its order, beside that";
  return section(title, ...others.map((entry) => entryText(entry, found, partner)));
};
