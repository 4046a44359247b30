// LedgerEntry as a row: the columns that hold its fields. Do not edit: npm run generate.
import { bigint, bool, int, json, nullable, text, time } from "../../infra/postgres/columns.ts";
import type { LedgerEntry } from "../../schemas/generated.ts";

export const fieldColumns = {
  entry_id: text,
  kind: text,
  client_id: int,
  partner_id: int,
  campaign_id: nullable(int),
  conversion_id: text,
  change_id: text,
  conversion_version: int,
  event_type: text,
  segment: nullable(text),
  currency: text,
  amount_minor: bigint,
  reason: nullable(text),
  contract_id: nullable(int),
  contract_version: nullable(int),
  commission_type: nullable(text),
  formula: text,
  inputs: json,
  occurred_at: time,
  payable_from: nullable(time),
  year: int,
  month: int,
  held: bool,
  reverses_entry_id: nullable(text),
};

/**
 * The row, with the values that the sink computes. A spread copy of an object with so many fields
 * would cost 2 us.
 */
export const rowOf = <HeldMinor, Lines, ContentHash>(
  data: LedgerEntry,
  made: {
    readonly held_minor: HeldMinor;
    readonly lines: Lines;
    readonly content_hash: ContentHash;
  },
) => ({
  entry_id: data.entry_id,
  kind: data.kind,
  client_id: data.client_id,
  partner_id: data.partner_id,
  campaign_id: data.campaign_id,
  conversion_id: data.conversion_id,
  change_id: data.change_id,
  conversion_version: data.conversion_version,
  event_type: data.event_type,
  segment: data.segment,
  currency: data.currency,
  amount_minor: data.amount_minor.toString(),
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
  held_minor: made.held_minor,
  lines: made.lines,
  content_hash: made.content_hash,
});

/**
 * The values that are hashed. Their order never changes. A newer field is included only if it
 * differs from its default.
 */
export const contentOf = (data: LedgerEntry): readonly unknown[] => [
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
  data.lines.map(({ account, amount_minor }) => ({ account, amount_minor: `${amount_minor}` })),
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
