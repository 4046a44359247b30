// What the undo of an import has come to, as its row keeps it and as it is shown.
import type { PoolClient } from "pg";
import { toDecimal } from "../../../domain/money.ts";
import { sql } from "../../../infra/postgres/sql.ts";

/** What became of the rows that were accepted: each is one of these. */
export interface UndoneRows {
  /** Its sale is credited to no partner any more. */
  readonly taken_back: number;
  /** No partner was credited for it. */
  readonly uncredited: number;
  /** A copy of a sale that is counted by another row, or was known from elsewhere. */
  readonly copies: number;
  /** Credited by a person's decision since, which stands. */
  readonly decided: number;
  /** No sale: of a type that no partner earns on. */
  readonly no_sale: number;
  /** Not stored: it waits behind others, is a dead letter, or of an erased person. */
  readonly not_stored: number;
}
export interface UndoTotals extends UndoneRows {
  /** Of the sales that were taken back, in minor units as text, by currency. */
  readonly sums: Readonly<Record<string, string>>;
}
/** As the row of the import keeps it. */
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

/** In the transaction that ends the job. */
export const keepUndone = async (tx: PoolClient, import_id: string, undone: UndoTotals): Promise<void> => {
  await tx.query(sql`update imports set undone_at = clock_timestamp(),
    undone = undone || ${JSON.stringify(undone)}::jsonb where import_id = ${import_id}`);
};

/** Sums by currency as they are shown. */
const amountsIn = (sums: UndoTotals["sums"]): readonly { readonly currency: string; readonly amount: string }[] =>
  Object.entries(sums)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([currency, minor]) => ({ currency, amount: toDecimal(BigInt(minor), currency) }));

/** What is shown of it; null: no one has asked for it. */
export const shownUndo = (undone: KeptUndo | null) =>
  undone === null
    ? null
    : {
        ...{ job_id: undone.job_id, reason: undone.reason, asked_by: undone.asked_by },
        ...{ taken_back: undone.taken_back ?? 0, uncredited: undone.uncredited ?? 0, copies: undone.copies ?? 0 },
        ...{ decided: undone.decided ?? 0, no_sale: undone.no_sale ?? 0, not_stored: undone.not_stored ?? 0 },
        sums: amountsIn(undone.sums ?? {}),
      };
