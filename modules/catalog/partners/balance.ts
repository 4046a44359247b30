// The unpaid balance of a partner, from the ledger.

import { toDecimal } from "../../../domain/money.ts";
import { type Sql, sql } from "../../../infra/postgres/sql.ts";

/** The amount that one client owes in one currency, in minor units as text. */
export interface OwedByClient {
  readonly currency: string;
  readonly payable: string;
  readonly held: string;
}
interface OwedAmounts {
  /** The sum of what clients owe; clients with a negative sum are left out. */
  readonly payable: string;
  /** Earnings under review: neither paid nor taken back yet. */
  readonly held: string;
  /** Debts, zero or less. A client deducts them from what it owes in later months. */
  readonly carried: string;
  readonly currency: string;
}
export interface Balance extends OwedAmounts {
  readonly other_currencies: readonly OwedAmounts[];
}

/**
 * A JSON list of OwedByClient for the partner `p.partner_id`, over the clients of `scope`, an
 * int[].
 */
export const owedByClients = (scope: Sql): Sql => sql`(
  select coalesce(jsonb_agg(jsonb_build_object('currency', owed.currency, 'payable', owed.payable::text,
    'held', owed.held::text)), '[]')
  from (select currency, sum(amount_minor - part_minor) as payable, sum(part_minor) as held
    from money_days e where e.partner_id = p.partner_id and e.source = 'ledger' and e.client_id = any (${scope})
    group by e.client_id, e.currency) owed)`;

/** A debt at one client does not reduce what another client owes. */
export const balanceIn = (currency: string, owed: readonly OwedByClient[]): Balance => {
  const inCurrency = (code: string): OwedAmounts => {
    const own = owed.filter((one) => one.currency === code);
    const sum = (amounts: readonly bigint[]): string =>
      toDecimal(
        amounts.reduce((all, amount) => all + amount, 0n),
        code,
      );
    const payable = own.map((one) => BigInt(one.payable));
    return {
      payable: sum(payable.filter((amount) => amount > 0n)),
      held: sum(own.map(({ held }) => BigInt(held))),
      carried: sum(payable.filter((amount) => amount < 0n)),
      currency: code,
    };
  };
  const others = [...new Set(owed.map((one) => one.currency))].filter((code) => code !== currency).sort();
  return { ...inCurrency(currency), other_currencies: others.map(inCurrency) };
};

/** Whether nothing is owed in either direction. */
export const isSettled = (owed: readonly OwedByClient[]): boolean =>
  owed.every(({ payable, held }) => BigInt(payable) === 0n && BigInt(held) === 0n);
