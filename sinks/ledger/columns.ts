// The columns of the ledger: entries, their lines, and the commission that the entries of a
// conversion add up to.
import {
  bigint,
  bytes,
  computed,
  int,
  json,
  nullable,
  oneOf,
  text,
  time,
  type WrittenRow,
} from "../../infra/postgres/columns.ts";
import { fieldColumns } from "./generated.ts";

export const entryColumns = { ...fieldColumns, held_minor: bigint, content_hash: bytes };

export const lineColumns = {
  client_id: int,
  entry_id: text,
  line: int,
  account: text,
  currency: text,
  amount_minor: bigint,
};

const status = `case when is_reversed and amount_minor = 0 then 'reversed'
  when held_minor <> 0 then 'on_hold' else 'pending' end`;
const receipt = "jsonb_build_object('formula', (first).formula, 'inputs', (first).inputs, 'entries', listed)";
/**
 * Computed from the entries of a conversion, which ./statements.ts sums up. The first entry gives
 * the partner and the contract; the amount is the sum of all entries.
 */
export const commissionColumns = {
  client_id: int,
  commission_id: computed(text, "'cms_' || regexp_replace(conversion_id, '^cnv_', '')"),
  conversion_id: text,
  version: computed(int, "entries"),
  partner_id: computed(int, "(first).partner_id"),
  campaign_id: computed(nullable(int), "(first).campaign_id"),
  event_type: computed(text, "(first).event_type"),
  segment: computed(nullable(text), "(first).segment"),
  type: computed(nullable(text), "(first).commission_type"),
  amount_minor: bigint,
  currency: computed(text, "(first).currency"),
  status: computed(oneOf<"pending" | "on_hold" | "reversed">(), status),
  reason: nullable(text),
  year: computed(int, "(first).year"),
  month: computed(int, "(first).month"),
  occurred_at: computed(time, "(first).occurred_at"),
  payable_from: computed(nullable(time), "payable_from"),
  contract_id: computed(nullable(int), "(first).contract_id"),
  contract_version: computed(nullable(int), "(first).contract_version"),
  receipt: computed(json, receipt),
};
type LineOfRow = Pick<WrittenRow<typeof lineColumns>, "account" | "amount_minor">;
export type LedgerRow = WrittenRow<typeof entryColumns> & { readonly lines: readonly LineOfRow[] };
