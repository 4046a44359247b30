// The table of sales and refunds, attributed or not, from which reports count.
import {
  bigint,
  int,
  keepNewest,
  nullable,
  type StoredRow,
  text,
  time,
  uuid,
  type WrittenRow,
} from "../../infra/postgres/columns.ts";
import { creditColumns } from "../shared-columns.ts";
import { postgresTable } from "../stores/postgres.ts";

const saleColumns = {
  client_id: int,
  event_id: uuid,
  version: int,
  t: text,
  order_id: nullable(text),
  product_id: nullable(text),
  segment: nullable(text),
  quantity: nullable(int),
  /** On a refund, null means the whole amount. */
  value_minor: nullable(bigint),
  currency: nullable(text),
  occurred_at: time,
  did: text,
  ...creditColumns,
  /** The refunded part of a sale. Null if the sale was settled before this column existed. */
  refunded_minor: nullable(bigint),
};
export type SaleRow = WrittenRow<typeof saleColumns>;
export type StoredSale = StoredRow<typeof saleColumns>;

const declared = { name: "product_sales", key: ["client_id", "event_id"], columns: saleColumns } as const;

/** The newest version of an event wins. */
export const productSales = postgresTable<SaleRow>(declared, [{ text: keepNewest(declared) }]);
