// Turns an attributed event into a row of the analytics table.
import { isStored } from "../../domain/personal/consent.ts";
import { valuesOf } from "../../infra/clickhouse/sources.ts";
import type { EventAttributed } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { eventColumns } from "./generated.ts";
import { type EventRow, eventSources } from "./table.ts";

const values = valuesOf(eventColumns, eventSources);

/** Reads fields of the event only when they are needed. */
class Row implements EventRow {
  readonly event: Recorded<EventAttributed>;
  constructor(event: Recorded<EventAttributed>) {
    this.event = event;
  }
  get client_id(): number {
    return this.event.data.event.client_id;
  }
  get ts(): number {
    return this.event.data.event.ts;
  }
  get event_id(): string {
    return this.event.data.event.event_id;
  }
  get values(): EventRow["values"] {
    return values(this.event) as EventRow["values"];
  }
}

/**
 * One row for each version of an event. None if consent to analytics is missing and the event is
 * neither order, lead nor install (docs/design/contracts.md, "Consent").
 */
export const eventRows = (event: Recorded<EventAttributed>): readonly EventRow[] =>
  isStored(event) ? [new Row(event)] : none;
const none: readonly EventRow[] = [];
