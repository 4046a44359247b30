// Columns that several tables have: how an event was credited, and the hash of a row's content.

import { hash } from "node:crypto";
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

/**
 * Hex SHA-256 of these values; bigints are written as their digits, and none lies deeper. Stored
 * rows keep it, so the values have one order for good: a field that is added to a schema counts
 * only where it differs from its default (`"hashed": "unless_default"`), else every record of
 * before would be another content.
 */
export const contentHash = (values: readonly unknown[]): string =>
  // A replacer of JSON.stringify would be called for each value, and for each of those inside.
  hash("sha256", JSON.stringify(values.map((value) => (typeof value === "bigint" ? `${value}` : value))), "hex");
