// Adds up a trial of a rule: matches, money by partner and month, and budgets that it would break.

import type { Credit, LedgerEntry } from "../../../schemas/generated.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { isClosed } from "../reprocess/difference.ts";
import type { Period } from "./choose-decisions.ts";
import type { Match, Page } from "./evaluate.ts";

export interface Delta extends Period {
  readonly currency: string;
  readonly amount_minor: bigint;
}
export interface SegmentDelta extends Omit<Delta, "partner_id"> {
  readonly segment: string | null;
}
interface CreditHolder {
  readonly partner_id: number | null;
  /** The method of a credit, else the reason for none. */
  readonly because: string;
}
export interface Sample {
  readonly event_id: string;
  readonly t: string;
  readonly at: UnixMs;
  readonly order_id: string | null;
  readonly value_minor: bigint | null;
  readonly currency: string | null;
  readonly before: CreditHolder;
  readonly after: CreditHolder;
}
export interface Summary {
  readonly matched: number;
  readonly by_event_type: Readonly<Record<string, number>>;
  /** Matched events by the partner that is credited now; null: no partner. */
  readonly by_partner: readonly { readonly partner_id: number | null; readonly matched: number }[];
  readonly samples: readonly Sample[];
  readonly lostTo: readonly { readonly rule_id: number; readonly count: number }[];
  /** Months whose money would move. */
  readonly deltas: readonly Delta[];
  /** Closed months whose money would have moved, and is left. */
  readonly closed: readonly Period[];
  readonly bySegment: readonly SegmentDelta[];
}

/** The fields of a ledger entry that are added up. */
export type Booking = Pick<LedgerEntry, "partner_id" | "year" | "month" | "currency" | "segment" | "amount_minor">;

/** The totals of a backfill in a form that JSON can hold. */
export interface KeptSummary {
  readonly matched: number;
  readonly types: readonly (readonly [string, number])[];
  readonly partners: readonly (readonly [number | null, number])[];
  readonly deltas: readonly (Omit<Delta, "amount_minor"> & { readonly amount_minor: string })[];
  /** Absent in jobs that an earlier version began. */
  readonly closed?: readonly Period[];
}

const MOST_SAMPLES = 20;

const heldBy = ({ partner_id, method, reason }: Credit): CreditHolder => ({
  partner_id,
  because: method ?? reason ?? "unknown",
});
const sampleOf = ({ stored: { event, received_at }, before, after }: Match): Sample => ({
  event_id: event.sender_event_id ?? event.event_id,
  t: event.custom_name ?? event.t,
  at: Math.min(event.ts, received_at),
  order_id: event.order_id,
  value_minor: event.value_minor,
  currency: event.currency,
  before: heldBy(before),
  after: heldBy(after),
});

const counted = <Key>(counts: Map<Key, number>, key: Key, by = 1): void =>
  void counts.set(key, (counts.get(key) ?? 0) + by);

const periodKeyOf = ({ partner_id, year, month }: Period): string => `${partner_id} ${year} ${month}`;
const keyOf = ({ partner_id, year, month, currency }: Omit<Delta, "amount_minor">): string =>
  `${partner_id} ${year} ${month} ${currency}`;

/** Adds up pages, on top of the totals that an earlier process stored, if any. */
export const openSummary = (before?: KeptSummary) => {
  const types = new Map<string, number>(before?.types);
  const partners = new Map<number | null, number>(before?.partners);
  const lostTo = new Map<number, number>();
  const deltas = new Map<string, Delta>(
    before?.deltas.map((one) => [keyOf(one), { ...one, amount_minor: BigInt(one.amount_minor) }]),
  );
  const closedMonths = new Map<string, Period>((before?.closed ?? []).map((one) => [periodKeyOf(one), one]));
  const segments = new Map<string, SegmentDelta>();
  const samples: Sample[] = [];
  let matched = before?.matched ?? 0;

  const book = ({ partner_id, year, month, currency, segment, amount_minor }: Booking): void => {
    const key = keyOf({ partner_id, year, month, currency });
    const sum = (deltas.get(key)?.amount_minor ?? 0n) + amount_minor;
    deltas.set(key, { partner_id, year, month, currency, amount_minor: sum });
    const place = `${segment ?? ""} ${year} ${month} ${currency}`;
    const ofSegment = (segments.get(place)?.amount_minor ?? 0n) + amount_minor;
    segments.set(place, { segment, year, month, currency, amount_minor: ofSegment });
  };
  return {
    book,
    add: ({
      matches,
      lostTo: lost,
      entries,
      closed,
    }: Pick<Page, "matches" | "lostTo" | "entries" | "closed">): void => {
      for (const match of matches) {
        matched += 1;
        counted(types, match.stored.event.custom_name ?? match.stored.event.t);
        counted(partners, match.before.partner_id);
        if (samples.length < MOST_SAMPLES) samples.push(sampleOf(match));
      }
      for (const [rule, count] of lost) counted(lostTo, rule, count);
      for (const { entry } of entries) book(entry);
      for (const one of closed) closedMonths.set(periodKeyOf(one), one);
    },
    kept: (): KeptSummary => ({
      ...{ matched, types: [...types], partners: [...partners] },
      deltas: [...deltas.values()].map((one) => ({ ...one, amount_minor: one.amount_minor.toString() })),
      closed: [...closedMonths.values()],
    }),
    result: (): Summary => ({
      matched,
      by_event_type: Object.fromEntries([...types].sort(([a], [b]) => (a < b ? -1 : 1))),
      by_partner: [...partners]
        .map(([partner_id, count]) => ({ partner_id, matched: count }))
        .sort((a, b) => b.matched - a.matched || (a.partner_id ?? 0) - (b.partner_id ?? 0)),
      samples,
      lostTo: [...lostTo]
        .map(([rule_id, count]) => ({ rule_id, count }))
        .sort((a, b) => b.count - a.count || a.rule_id - b.rule_id),
      deltas: [...deltas.values()].filter(({ amount_minor }) => amount_minor !== 0n).sort(inOrder),
      closed: [...closedMonths.values()],
      bySegment: [...segments.values()].filter(({ amount_minor }) => amount_minor !== 0n),
    }),
  };
};

const byPeriod = (a: Period, b: Period): number => a.partner_id - b.partner_id || a.year - b.year || a.month - b.month;
const inOrder = (a: Delta, b: Delta): number =>
  byPeriod(a, b) || (a.currency < b.currency ? -1 : a.currency > b.currency ? 1 : 0);

/**
 * Each period once: those whose money moves, and the closed ones where it would have moved and is
 * left.
 */
export const periodsOf = ({ deltas, closed }: Summary, now: UnixMs) =>
  [...new Map([...deltas, ...closed].map((one) => [periodKeyOf(one), one])).values()]
    .sort(byPeriod)
    .map(({ partner_id, year, month }) => ({ partner_id, year, month, closed: isClosed(year, month, now) }));
