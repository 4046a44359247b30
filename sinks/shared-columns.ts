// Columns that several tables share: how an event was credited, and the hash of a row's content.

import { hash } from "node:crypto";
import { int, nullable, text, uuid, type WrittenRow } from "../infra/postgres/columns.ts";
import type { EventAttributed } from "../schemas/generated.ts";

export const creditColumns = {
  credit_status: text,
  credit_reason: nullable(text),
  partner_id: nullable(int),
  campaign_id: nullable(int),
  fraud_band: text,
  /**
   * The event id of the first copy, if this is a second copy of one conversion. Such a row is not
   * counted.
   */
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
 * Hex SHA-256 of these values, which distinguishes two contents of one id (law R11). Bigints are
 * written as decimal text; none is nested deeper. Stored rows keep the hash, so the order of the
 * values never changes. A field that is added to a schema is hashed only where it differs from its
 * default (`"hashed": "unless_default"`). Otherwise every older record would have another content.
 */
export const contentHash = (values: readonly unknown[]): string =>
  // A replacer of JSON.stringify would be called for every value, also for nested ones.
  hash("sha256", JSON.stringify(values.map((value) => (typeof value === "bigint" ? `${value}` : value))), "hex");
