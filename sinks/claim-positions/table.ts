// The index of the claims of each order: where they lie in the topic `claims`. Reprocessing reads
// those of a window by it.
import { hash } from "node:crypto";
import type { DeclaredColumn, WrittenValues } from "../../infra/clickhouse/columns.ts";
import { clickhouseTable } from "../stores/clickhouse.ts";

/** Columns in the order in which `claimPositionRows` lists the values. */
const positionColumns = [
  { name: "client_id", type: "UInt32" },
  { name: "order_hash", type: "UInt64" },
  { name: "log_partition", type: "UInt16" },
  { name: "log_offset", type: "UInt64" },
  { name: "is_conversion", type: "Bool" },
  { name: "received_at", type: "DateTime64(3, 'UTC')" },
] as const satisfies readonly DeclaredColumn[];

/** The key by name and all columns by position. */
export interface ClaimPositionRow {
  readonly client_id: number;
  readonly order_hash: number;
  readonly log_partition: number;
  readonly log_offset: number;
  readonly is_conversion: boolean;
  readonly received_at: number;
  readonly values: WrittenValues<typeof positionColumns>;
}

const HASH_HEX_DIGITS = 12;
/**
 * A number for an order, which fits a double. The index names no order and no person: the key of an
 * order may be made of them. Two orders of one number only cost reading.
 */
export const orderHash = (orderKey: string): number =>
  Number.parseInt(hash("sha256", orderKey, "hex").slice(0, HASH_HEX_DIGITS), 16);

/** A view fills `claim_receipts` from it, by which the orders of a window are found. */
export const claimPositions = clickhouseTable<ClaimPositionRow>({
  name: "claim_positions",
  key: ["client_id", "order_hash", "log_partition", "log_offset"],
  columns: positionColumns,
  unhashed: "where claims lie in the log: a log that was restored has them at other offsets",
  isBesideFigures: true,
});
