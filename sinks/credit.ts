// How an event was credited, as columns: what the tables of sales and of app events share.
import { int, nullable, text, uuid, type WrittenRow } from "../infra/postgres/columns.ts";
import type { EventAttributed } from "../schemas/generated.ts";

export const creditColumns = {
  credit_status: text,
  credit_reason: nullable(text),
  partner_id: nullable(int),
  campaign_id: nullable(int),
  fraud_band: text,
  /** The first copy, when this is a second copy of one conversion: it counts nowhere. */
  merged_into: nullable(uuid),
};

export const creditOf = ({ credit, fraud, merged_into }: EventAttributed): WrittenRow<typeof creditColumns> => ({
  credit_status: credit.status,
  credit_reason: credit.reason,
  partner_id: credit.partner_id,
  campaign_id: credit.campaign_id,
  fraud_band: fraud.band,
  merged_into,
});
