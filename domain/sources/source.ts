// The definition of an external source: another system that sends or holds a client's events, and
// where its payloads contain our fields.
import type { SourcePath } from "./path.ts";

export const sourceKinds = ["generic", "postback_network", "property_relay", "mmp"] as const;
export type SourceKind = (typeof sourceKinds)[number];
/** The ways in which a property relay measures. */
export const relayModes = ["measurement_relay", "data_warehouse"] as const;
export type RelayMode = (typeof relayModes)[number];
export const sourceStates = ["draft", "active", "paused"] as const;
export type SourceState = (typeof sourceStates)[number];

/** The fields of an event. A mapping gives the path of each in the payload. */
export const logicalFields = [
  "event_name",
  "value",
  "currency",
  "partner_param",
  "dedup_key",
  "order_id",
  "click_id",
  "ts",
  "did",
  "product_id",
  "product_line",
  "quantity",
  "url",
  "reason",
] as const;
export type LogicalField = (typeof logicalFields)[number];

export interface SourceMapping {
  /** Dot paths or JSON Pointers, by field. */
  readonly mapping: Readonly<Partial<Record<LogicalField, string>>>;
  /** Values for fields that the payload does not contain. */
  readonly constants: Readonly<Partial<Record<LogicalField, string | number>>>;
  /** The source's event names and ours. */
  readonly event_names: Readonly<Record<string, string>>;
}

/** A mapping with parsed paths, so that they need not be parsed for each payload. */
export interface ReadMapping {
  readonly fields: readonly {
    readonly field: LogicalField;
    readonly path: SourcePath | null;
    readonly constant: string | number | null;
  }[];
  readonly eventNames: ReadonlyMap<string, string>;
}

/** The `source` of events from this source. Its keys are unique within it. */
export const sourceName = (slug: string): string => `generic:${slug}`;
