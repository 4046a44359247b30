// The table of conversions: each as its newest record left it.
import {
  bigint,
  bytes,
  int,
  nullable,
  oneOf,
  type StoredRow,
  text,
  time,
  uuid,
  type WrittenRow,
} from "../../infra/postgres/columns.ts";
import { postgresTable } from "../stores/postgres.ts";
import { statementsOf } from "./statements.ts";

const conversionColumns = {
  client_id: int,
  conversion_id: text,
  version: int,
  partner_id: int,
  campaign_id: nullable(int),
  event_id: uuid,
  cause_event_id: uuid,
  event_type: text,
  order_id: nullable(text),
  product_id: nullable(text),
  segment: nullable(text),
  quantity: nullable(int),
  customer: text,
  occurred_at: time,
  value_minor: bigint,
  refunded_minor: bigint,
  currency: text,
  status: oneOf<"credited" | "reversed">(),
  reason: nullable(text),
  review: nullable(text),
  method: text,
  rule_id: nullable(int),
  rule_version: nullable(int),
  content_hash: bytes,
};
export type ConversionRow = WrittenRow<typeof conversionColumns>;
export type StoredConversion = StoredRow<typeof conversionColumns>;

const declared = {
  name: "conversions",
  key: ["client_id", "conversion_id"],
  columns: conversionColumns,
} as const;

/**
 * The newest version of a conversion wins; another content under a version that is there is
 * refused.
 */
export const conversions = postgresTable<ConversionRow>(declared, statementsOf(declared));
