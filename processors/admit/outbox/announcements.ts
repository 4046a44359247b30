// The edges of the outbox: each outbox row becomes a record that announces the change.
import type { DomainChanged, EventReceived, ReferenceChanged } from "../../../schemas/generated.ts";
import type { UnixMs } from "../../../stream/flow.ts";

/** A row of the outbox. The id of its record was assigned together with the row. */
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

/** An event that was admitted before its row was written. The row stores its amount as text. */
export interface StoredEvent {
  readonly received_at: UnixMs;
  readonly event: Omit<EventReceived, "value_minor"> & { readonly value_minor: string | null };
}

export const leadReceived = ({ record: { received_at, event } }: { readonly record: StoredEvent }) => ({
  at: Math.min(event.ts, received_at),
  receivedAt: received_at,
  data: {
    ...event,
    value_minor: event.value_minor === null ? null : BigInt(event.value_minor),
    // Rows written before this field existed lack it.
    across: (event as Partial<EventReceived>).across ?? [],
  },
});
