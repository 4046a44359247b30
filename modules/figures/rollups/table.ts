// The tables of rollups: counts of events, one row a group, by minute, hour and day; and events and
// visitors by one dimension at a time, by hour and day.
import type { StoredTable } from "../../../infra/clickhouse/columns.ts";

/** The columns by which events are grouped inside a bucket. */
export const rollupGroups = [
  "event_type",
  "source",
  "partner_id",
  "campaign_id",
  "country",
  "device",
  "currency",
  "segment",
] as const;
export const rollupCounts = [
  "events",
  "clicks",
  "conversions",
  "unattributed",
  "revenue_minor",
  "review",
  "rejected",
  "repeats",
] as const;
const rollupKey = ["client_id", "grain", "bucket", ...rollupGroups] as const;

/**
 * Revision of the computation. Raise it when counts change: hours of older revisions are then
 * computed again.
 */
export const ROLLUP_REVISION = 2;

type Column = StoredTable["columns"][number];
const named = (...names: readonly string[]): readonly Column[] => names.map((name) => ({ name }));
const version: Column = { name: "version", volatile: "the sequence of the mark that asked for the computation" };

export const rollupColumns: readonly Column[] = [
  ...named(...rollupKey, ...rollupCounts),
  version,
  { name: "revision", volatile: "which computation wrote the row" },
];

export const dimensionGroups = ["dimension", "value", "event_type", "partner_id", "currency"] as const;
const dimensionCounts = ["events", "conversions", "revenue_minor"] as const;
const dimensionKey = ["client_id", "grain", "bucket", ...dimensionGroups] as const;
export const dimensionColumns: readonly Column[] = [
  ...named(...dimensionKey, ...dimensionCounts),
  { name: "visitors", volatile: "bytes of a sketch, which depend on the order of events" },
  version,
];

/**
 * A group that became empty stays as zeros, and does not exist where it never had events; so rows
 * without events are not compared.
 */
const where = "events > 0";
/** The tables as the state hash reads them. */
export const rollupTables: readonly StoredTable[] = [
  { name: "rollups", key: rollupKey, columns: rollupColumns, where },
  { name: "rollup_dimensions", key: dimensionKey, columns: dimensionColumns, where },
];
