// Explains why a partner's earnings are not paid yet, from its ledger and its contracts.
import type { PoolClient } from "pg";
import { toDecimal, toMinor } from "../../../domain/money.ts";
import { sql } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import type { Span } from "./periods.ts";

/** Money of a partner that waits, by currency. */
interface HeldMoney {
  readonly currency: string;
  readonly inside_hold: string;
  readonly until: UnixMs | null;
}
export interface WhyNotPaid {
  readonly code: "threshold" | "hold" | "carried_debt" | "review" | "month_provisional" | "no_contract";
  readonly sentence: string;
  readonly amount?: string;
  readonly currency?: string;
  readonly until?: UnixMs;
}
interface MoneyQuestion {
  readonly partner_id: number;
  readonly clients: readonly number[];
  readonly now: UnixMs;
  /** The span in which sales without a contract are counted. */
  readonly span: Span;
}
export interface Payout {
  readonly currency: string;
  readonly min_amount: string;
}
export interface OwedAmounts {
  readonly payable: string;
  readonly held: string;
  readonly carried: string;
  readonly currency: string;
}

const insideHold = async (
  tx: PoolClient,
  { partner_id, clients, now }: MoneyQuestion,
): Promise<readonly HeldMoney[]> => {
  const { rows } = await tx.query<HeldMoney>(sql`
    select currency, sum(amount_minor - held_minor)::text as inside_hold, min(payable_from) as until
    from ledger_entries where partner_id = ${partner_id} and client_id = any (${clients}::int[])
      and payable_from > ${new Date(now)} and amount_minor > held_minor
    group by currency order by currency`);
  return rows;
};

const withoutContract = async (tx: PoolClient, { partner_id, clients, span }: MoneyQuestion): Promise<number> => {
  const { rows } = await tx.query<{ n: number }>(sql`
    select count(*)::int as n from commissions
    where partner_id = ${partner_id} and client_id = any (${clients}::int[]) and amount_minor = 0
      and reason = 'no_contract' and occurred_at >= ${new Date(span.from)} and occurred_at < ${new Date(span.to)}`);
  return rows[0]!.n;
};

/** `lockedFrom` is when the previous month stops being provisional; null when it already has. */
export const whyNotPaid = async (
  tx: PoolClient,
  asked: MoneyQuestion,
  {
    payout,
    balance,
    provisionalUntil,
  }: { readonly payout: Payout; readonly balance: OwedAmounts; readonly provisionalUntil: UnixMs | null },
): Promise<readonly WhyNotPaid[]> => {
  const reasons: WhyNotPaid[] = [];
  const { currency } = balance;
  const minor = (text: string, code = currency): bigint => {
    const read = toMinor(text, code);
    return read.kind === "amount" ? read.minor : 0n;
  };
  for (const { currency: code, inside_hold, until } of await insideHold(tx, asked))
    reasons.push({
      code: "hold",
      sentence: "Some of it can still be returned by the customer: it is payable when that time is over.",
      amount: toDecimal(BigInt(inside_hold), code),
      currency: code,
      ...(until !== null && { until }),
    });
  if (minor(balance.held) !== 0n)
    reasons.push({ code: "review", sentence: "Some of it is under review.", amount: balance.held, currency });
  if (minor(balance.carried) !== 0n)
    reasons.push({
      code: "carried_debt",
      sentence: "Returns of paid sales are set off against what is earned next.",
      amount: balance.carried,
      currency,
    });
  const payable = minor(balance.payable);
  if (payable > 0n && payable < minor(payout.min_amount, payout.currency) && payout.currency === currency)
    reasons.push({
      code: "threshold",
      sentence: `Payments begin at ${payout.min_amount} ${payout.currency}.`,
      amount: balance.payable,
      currency,
    });
  if (provisionalUntil !== null && payable > 0n)
    reasons.push({ code: "month_provisional", sentence: "The last month is not closed yet.", until: provisionalUntil });
  const unpriced = await withoutContract(tx, asked);
  if (unpriced > 0)
    reasons.push({ code: "no_contract", sentence: `No contract priced ${unpriced} of the sales when they were made.` });
  return reasons;
};
