// What an erasure found and erased, by place, and what stays and until when.
import type { DeviceUse } from "./devices.ts";

export interface ErasedPlace {
  readonly place: string;
  readonly found: number;
  /** Null: nothing was erased, because only counts were asked for. */
  readonly erased: number | null;
}
export interface ErasureReport {
  readonly client_id: number;
  readonly subject_kind: string;
  readonly dry_run: boolean;
  /** Devices of the subject, of which everything goes. */
  readonly devices: number;
  /** Devices that other people showed themselves on too: only what names the subject goes. */
  readonly shared_devices: number;
  /** The devices that no other person showed himself on, the claimed ones among them. */
  readonly device_uses: readonly DeviceUse[];
  readonly places: readonly ErasedPlace[];
  readonly stays: readonly KeptPlace[];
}
export interface KeptPlace {
  readonly where: string;
  readonly until: string;
}

export type Counts = Readonly<Record<string, number>>;

/** The names are printed; each is a row of the report. */
export const placesOf = (before: Counts, after: Counts | null): readonly ErasedPlace[] =>
  Object.entries(before).map(([place, found]) => ({
    place,
    found,
    erased: after === null ? null : Math.max(0, found - (after[place] ?? 0)),
  }));

/** docs/privacy.md, "Erase a person", says the same in the same words; a test compares them. */
export const stays: readonly KeptPlace[] = [
  {
    where: "`events.raw`, `events.restored`, `events.enriched`, `events.scored`, `events.attributed`",
    until: "7, 7, 1, 1 and 30 days; no sink writes the subject again",
  },
  { where: "archive", until: "`retention_months` of the client; a restore leaves the subject out" },
  {
    where: "`claims`, `claims.taken` and `conversions` of the log, durable memory of `settle` and `commission`",
    until: "for good: money is decided from them; an erasure that reaches them is not built yet",
  },
  { where: "dead letters", until: "90 days; none of the subject is sent again" },
  { where: "answers about single events in Redis: counts, and the click of a person", until: "8 days" },
  { where: "`receipts` of ClickHouse: ids of events and what became of them", until: "32 days" },
  { where: "`pulled_rows`: hashes of rows that were pulled", until: "25 months" },
  { where: "rejected rows of imports", until: "some minutes; they are hidden already" },
  { where: "recorded visits: objects without a key", until: "some 20 minutes" },
  { where: "parts that ClickHouse has replaced", until: "some 10 minutes" },
  { where: "backups of Postgres, ClickHouse and the archive", until: "as long as you keep them" },
  { where: "`audit`, the list of erased subjects: keyed hashes", until: "for good" },
];
