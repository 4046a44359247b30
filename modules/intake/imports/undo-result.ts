// The result of undoing an import, as stored in its row and as shown.
import type { PoolClient } from "pg";
import { toDecimal } from "../../../domain/money.ts";
import { sql } from "../../../infra/postgres/sql.ts";

/** The numbers of accepted rows by result; each row has one result. */
export interface UndoneRows {
  /** A partner was credited by it, and is no more. */
  readonly taken_back: number;
  /** No partner was credited with it. */
  readonly uncredited: number;
  /** A copy of a sale that another row counts, or that others have reported. */
  readonly copies: number;
  /** A person has given the sale to another partner since, and that decision stays. */
  readonly decided: number;
  /** No sale: partners earn nothing from this event type. */
  readonly no_sale: number;
  /**
   * Rows that are not stored: they wait behind other events, are dead letters, or belong to an
   * erased person.
   */
  readonly not_stored: number;
}
export interface UndoTotals extends UndoneRows {
  /** Sums of what went back of partners, in minor units as text, by currency. */
  readonly sums: Readonly<Record<string, string>>;
}
/** The form in which the row of the import stores it. */
export interface KeptUndo extends Partial<UndoTotals> {
  readonly reason: string;
  readonly asked_by: string;
  readonly job_id: string;
  readonly round: number;
}
export interface UndoJob {
  readonly import_id: string;
  readonly reason: string;
}

/** Runs in the transaction that ends the job. */
export const keepUndone = async (tx: PoolClient, import_id: string, undone: UndoTotals): Promise<void> => {
  await tx.query(sql`update imports set undone_at = clock_timestamp(),
    undone = undone || ${JSON.stringify(undone)}::jsonb where import_id = ${import_id}`);
};

/** Sums by currency in the form of API responses. */
export const amountsIn = (
  sums: UndoTotals["sums"],
): readonly { readonly currency: string; readonly amount: string }[] =>
  Object.entries(sums)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([currency, minor]) => ({ currency, amount: toDecimal(BigInt(minor), currency) }));

/** The shown result; null: no undo was requested. */
export const shownUndo = (undone: KeptUndo | null) =>
  undone === null
    ? null
    : {
        ...{ job_id: undone.job_id, reason: undone.reason, asked_by: undone.asked_by },
        ...{ taken_back: undone.taken_back ?? 0, uncredited: undone.uncredited ?? 0, copies: undone.copies ?? 0 },
        ...{ decided: undone.decided ?? 0, no_sale: undone.no_sale ?? 0, not_stored: undone.not_stored ?? 0 },
        sums: amountsIn(undone.sums ?? {}),
      };
