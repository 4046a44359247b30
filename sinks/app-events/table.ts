// The table of events in a client's app: installs and events named ext_*, attributed or not.
import { bigint, int, keepNewest, nullable, text, time, uuid, type WrittenRow } from "../../infra/postgres/columns.ts";
import { creditColumns } from "../shared-columns.ts";
import { postgresTable } from "../stores/postgres.ts";

const appEventColumns = {
  client_id: int,
  event_id: uuid,
  version: int,
  /** `install`, `ext_purchase`, or the `ext_` name of a custom event. */
  event_type: text,
  /** The edge that took the event: batch, pull, ... */
  source: text,
  occurred_at: time,
  did: text,
  ...creditColumns,
  order_id: nullable(text),
  product_id: nullable(text),
  segment: nullable(text),
  value_minor: nullable(bigint),
  currency: nullable(text),
  /** The hash of a pulled row. The same row pulled again has the same hash. */
  sale_hash: nullable(text),
};
export type AppEventRow = WrittenRow<typeof appEventColumns>;

const declared = { name: "app_events", key: ["client_id", "event_id"], columns: appEventColumns } as const;

/** The newest version of an event wins. */
export const appEvents = postgresTable<AppEventRow>(declared, [{ text: keepNewest(declared) }]);
