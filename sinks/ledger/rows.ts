// A ledger entry with its lines as a row.
import type { LedgerEntry } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { contentHash } from "../content-hash.ts";
import type { LedgerRow } from "./columns.ts";

/** Lines are debits of the client's books; what is held for a partner is a credit there. */
const heldBy = ({ lines }: LedgerEntry): bigint =>
  lines.reduce((held, { account, amount_minor }) => (account.startsWith("held:") ? held - amount_minor : held), 0n);

/** As digits, like every 64-bit integer in a row. */
const linesOf = ({ lines }: LedgerEntry): LedgerRow["lines"] =>
  lines.map(({ account, amount_minor }) => ({ account, amount_minor: amount_minor.toString() }));

/** In this order for good. */
const contentOf = (data: LedgerEntry): readonly unknown[] => [
  data.entry_id,
  data.kind,
  data.client_id,
  data.partner_id,
  data.campaign_id,
  data.conversion_id,
  data.change_id,
  data.conversion_version,
  data.event_type,
  data.segment,
  data.currency,
  data.amount_minor,
  linesOf(data),
  data.reason,
  data.contract_id,
  data.contract_version,
  data.commission_type,
  data.formula,
  data.inputs,
  data.occurred_at,
  data.payable_from,
  data.year,
  data.month,
  data.held,
  data.reverses_entry_id,
];

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
    lines: linesOf(data),
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
    content_hash: contentHash(contentOf(data)),
  },
];
