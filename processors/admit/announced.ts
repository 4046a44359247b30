// The edges of the outbox: a row that a change has left becomes the record that announces it.
import type { DomainChanged, ReferenceChanged } from "../../schemas/generated.ts";
import type { UnixMs } from "../../stream/flow.ts";

/** A row of the outbox; the id of its record was made with it. */
export interface Announcement<Data extends { readonly event_id: string }> {
  readonly event_id: string;
  readonly written_at: UnixMs;
  readonly record: Omit<Data, "event_id">;
}

export const referenceChange = ({ event_id, written_at, record }: Announcement<ReferenceChanged>) => ({
  at: written_at,
  data: { ...record, event_id },
});

export const domainChange = ({ event_id, written_at, record }: Announcement<DomainChanged>) => ({
  at: written_at,
  data: { ...record, event_id },
});
