// What an external source is: who else sends or holds events of a client, and where its payloads
// say what we need.
import type { SourcePath } from "./path.ts";

export const sourceKinds = ["generic", "postback_network", "property_relay", "mmp"] as const;
export type SourceKind = (typeof sourceKinds)[number];
/** How a property relay measures. */
export const relayModes = ["measurement_relay", "data_warehouse"] as const;
export type RelayMode = (typeof relayModes)[number];
export const sourceStates = ["draft", "active", "paused"] as const;
export type SourceState = (typeof sourceStates)[number];

/** What an event is made of; a payload says each of them under a name of its own. */
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
  /** Dot paths or JSON Pointers. */
  readonly mapping: Readonly<Partial<Record<LogicalField, string>>>;
  /** Of every event whose payload does not say it. */
  readonly constants: Readonly<Partial<Record<LogicalField, string | number>>>;
  /** Their names of events, and ours. */
  readonly event_names: Readonly<Record<string, string>>;
}

/** A mapping whose paths are read, so that each payload need not read them. */
export interface ReadMapping {
  readonly fields: readonly {
    readonly field: LogicalField;
    readonly path: SourcePath | null;
    readonly constant: string | number | null;
  }[];
  readonly eventNames: ReadonlyMap<string, string>;
}

/** How events of a source say where they come from; also what its keys are unique within. */
export const sourceName = (slug: string): string => `generic:${slug}`;
