// The tables of the ledger: entries, their lines, and the commission that the entries of a
// conversion add up to.
import { type StoredRow, time } from "../../infra/postgres/columns.ts";
import { postgresTable } from "../stores/postgres.ts";
import { commissionColumns, entryColumns, type LedgerRow, lineColumns } from "./columns.ts";
import { statementsOf } from "./statements.ts";

/** Set by the store when it writes a row, so it differs between two readings of one log. */
const entryVolatile = { stored_at: time };
export type StoredEntry = StoredRow<typeof entryColumns & typeof entryVolatile>;
export type StoredCommission = StoredRow<typeof commissionColumns>;

const lines = { name: "ledger_lines", key: ["client_id", "entry_id", "line"], columns: lineColumns };
const commissions = { name: "commissions", key: ["client_id", "conversion_id"], columns: commissionColumns };
const entries = {
  name: "ledger_entries",
  key: ["client_id", "entry_id"],
  columns: entryColumns,
  fills: [lines, commissions],
} as const;

/**
 * A stored entry never changes, and a different content under its id is refused. Commissions are
 * computed in the same transaction from all entries of the touched conversions, so repeated and
 * late entries give the same sum.
 */
export const ledger = postgresTable<LedgerRow>(entries, statementsOf({ entries, lines, commissions }));
