// The undo of an import, as it is asked for and as it is shown: its sales lose their credit by
// decisions, in a job.
import type { PoolClient } from "pg";
import { toDecimal } from "../../../domain/money.ts";
import { sql } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { askForJob } from "../../base/jobs/jobs.ts";
import type { ImportState } from "./import-state.ts";

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
export interface Undone extends UndoneRows {
  /** Of the sales that were taken back, in minor units as text, by currency. */
  readonly sums: Readonly<Record<string, string>>;
}
/** As the row of the import keeps it. */
interface KeptUndo extends Partial<Undone> {
  readonly reason: string;
  readonly asked_by: string;
  readonly job_id: string;
  readonly round: number;
}
export interface UndoJob {
  readonly import_id: string;
  readonly reason: string;
}

const ended: readonly ImportState[] = ["completed", "completed_with_errors", "failed", "cancelled"];

export type AskedUndo =
  | { readonly kind: "asked"; readonly job_id: string; readonly isNew: boolean }
  | { readonly kind: "not_ended" }
  | { readonly kind: "already_undone"; readonly job_id: string };

/**
 * Inside a transaction that sees the client and has locked the import. One undo is one job, however
 * often it is asked for; where rows were not stored then, it may be asked for again when it has
 * ended.
 */
export const askForUndo = async (
  tx: PoolClient,
  {
    import_id,
    client_id,
    status,
  }: { readonly import_id: string; readonly client_id: number; readonly status: ImportState },
  { reason, created_by }: { readonly reason: string; readonly created_by: string },
): Promise<AskedUndo> => {
  if (!ended.includes(status)) return { kind: "not_ended" };
  const { rows } = await tx.query<{ undone: KeptUndo | null; undone_at: UnixMs | null }>(sql`
    select undone, undone_at from imports where import_id = ${import_id}`);
  const { undone, undone_at } = rows[0]!;
  const isAgain = undone_at !== null && (undone?.not_stored ?? 0) > 0;
  if (undone !== null && undone_at !== null && !isAgain) return { kind: "already_undone", job_id: undone.job_id };
  const round = (undone?.round ?? 1) + (isAgain ? 1 : 0);
  // The reason of the first who asks stands: it is in the decisions that are made already.
  const input: UndoJob = { import_id, reason: undone?.reason ?? reason };
  const key = `${import_id} ${round}`;
  const job_id = await askForJob(tx, { kind: "import_undo", client_id, key, input, created_by });
  const isNew = undone?.job_id !== job_id;
  if (isNew) {
    const kept: KeptUndo = { reason: input.reason, asked_by: created_by, job_id, round };
    await tx.query(sql`update imports set undone_at = null, undone = ${JSON.stringify(kept)}::jsonb
      where import_id = ${import_id}`);
  }
  return { kind: "asked", job_id, isNew };
};

/** In the transaction that ends the job. */
export const keepUndone = async (tx: PoolClient, import_id: string, undone: Undone): Promise<void> => {
  await tx.query(sql`update imports set undone_at = clock_timestamp(),
    undone = undone || ${JSON.stringify(undone)}::jsonb where import_id = ${import_id}`);
};

/** Sums by currency as they are shown. */
const amountsIn = (sums: Undone["sums"]): readonly { readonly currency: string; readonly amount: string }[] =>
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
