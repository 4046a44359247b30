// Adds up every line of the ledger: the proof that it balances, which no sum by day can give.
import type { Pool } from "pg";
import { toDecimal } from "../../../domain/money.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";

export interface LedgerSum {
  readonly currency: string;
  /** In units of the currency. Law M1: debits and credits are equal, so it is 0. */
  readonly amount: number;
}

/** Reads client by client, so that no statement takes longer than the largest client's. */
export const ledgerSums = async (pool: Pool, clients: readonly number[]): Promise<readonly LedgerSum[]> => {
  const sums = new Map<string, bigint>();
  for (const client of clients)
    for (const { currency, total } of await linesOf(pool, client))
      sums.set(currency, (sums.get(currency) ?? 0n) + magnitude(BigInt(total)));
  return [...sums].map(([currency, total]) => ({ currency, amount: Number(toDecimal(total, currency)) }));
};

/** So that what one client lacks does not hide what another has too much. */
const magnitude = (amount: bigint): bigint => (amount < 0n ? -amount : amount);

const linesOf = (pool: Pool, client: number) =>
  transaction(
    pool,
    [client],
    async (tx) =>
      (
        await tx.query<{ currency: string; total: string }>(sql`
          select currency, sum(amount_minor)::text as total from ledger_lines where client_id = ${client}
          group by currency`)
      ).rows,
    { isReadOnly: true },
  );
