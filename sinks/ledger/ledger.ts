// Ledger entries with their lines, and the commission that the entries of a conversion add up to.
import type { LedgerEntry } from "../../schemas/generated.ts";
import type { Recorded, Table, UnixMs } from "../../stream/flow.ts";
import { contentHash } from "./content-hash.ts";

export interface LedgerRow {
  readonly client_id: number;
  readonly entry_id: string;
  readonly kind: string;
  readonly partner_id: number;
  readonly campaign_id: number | null;
  readonly conversion_id: string;
  readonly change_id: string;
  readonly conversion_version: number;
  readonly event_type: string;
  readonly segment: string | null;
  readonly currency: string;
  /** Digits of a 64-bit integer, as in every row. */
  readonly amount_minor: string;
  readonly held_minor: string;
  readonly lines: readonly { readonly account: string; readonly amount_minor: string }[];
  readonly reason: string | null;
  readonly contract_id: number | null;
  readonly contract_version: number | null;
  readonly commission_type: string | null;
  readonly formula: string;
  /** JSON text. */
  readonly inputs: string;
  readonly occurred_at: UnixMs;
  readonly payable_from: UnixMs | null;
  readonly year: number;
  readonly month: number;
  readonly held: boolean;
  readonly reverses_entry_id: string | null;
  /** Hex. */
  readonly content_hash: string;
}

/** Lines are debits of the client's books; what is held for a partner stands there as a credit. */
const heldBy = ({ lines }: LedgerEntry): bigint =>
  lines.reduce((held, { account, amount_minor }) => (account.startsWith("held:") ? held - amount_minor : held), 0n);

export const ledgerRows = ({ data }: Recorded<LedgerEntry>): readonly LedgerRow[] => [
  {
    client_id: data.client_id,
    entry_id: data.entry_id,
    kind: data.kind,
    partner_id: data.partner_id,
    campaign_id: data.campaign_id,
    conversion_id: data.conversion_id,
    change_id: data.change_id,
    conversion_version: data.conversion_version,
    event_type: data.event_type,
    segment: data.segment,
    currency: data.currency,
    amount_minor: data.amount_minor.toString(),
    held_minor: heldBy(data).toString(),
    lines: data.lines.map(({ account, amount_minor }) => ({ account, amount_minor: amount_minor.toString() })),
    reason: data.reason,
    contract_id: data.contract_id,
    contract_version: data.contract_version,
    commission_type: data.commission_type,
    formula: data.formula,
    inputs: data.inputs,
    occurred_at: data.occurred_at,
    payable_from: data.payable_from,
    year: data.year,
    month: data.month,
    held: data.held,
    reverses_entry_id: data.reverses_entry_id,
    content_hash: contentHash(Object.values(data)),
  },
];

/**
 * An entry that is there stays as it is; another content under its id is refused. Commissions
 * follow in the same transaction from all entries of the touched conversions, so that what was
 * redelivered or came late adds up to the same.
 */
export const ledger: Table<LedgerRow> = {
  name: "ledger_entries",
  store: "postgres",
  key: ["client_id", "entry_id"],
  tenantOf: (row) => row.client_id,
  write: async (rows, write) => {
    await write("ledger_entries", rows);
    await write("ledger_lines", rows);
    await write("commissions", rows);
  },
};
