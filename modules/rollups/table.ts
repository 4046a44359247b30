// The table of rollups: counts of events, one row a group, by minute, hour and day.

/** What events are grouped by inside a bucket. */
export const rollupGroups = [
  "event_type",
  "source",
  "partner_id",
  "campaign_id",
  "country",
  "device",
  "currency",
] as const;
export const rollupCounts = [
  "events",
  "clicks",
  "conversions",
  "unattributed",
  "revenue_minor",
  "review",
  "rejected",
] as const;
export const rollupKey = ["client_id", "grain", "bucket", ...rollupGroups] as const;
export const rollupColumns: readonly { readonly name: string; readonly volatile?: string }[] = [
  ...[...rollupKey, ...rollupCounts].map((name) => ({ name })),
  { name: "version", volatile: "the sequence of the mark that asked for the computation" },
];
