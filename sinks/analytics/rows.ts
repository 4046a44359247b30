// An attributed event as a row of the analytics table.
import { valuesOf } from "../../infra/clickhouse/sources.ts";
import type { EventAttributed } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { eventColumns } from "./generated.ts";
import { eventSources } from "./sources.ts";
import type { EventRow } from "./table.ts";
import { isSeen } from "./visibility.ts";

/** Stored without consent to analytics, and without what shows a visitor's way and device. */
const storedAnyway: ReadonlySet<string> = new Set(["purchase", "ext_purchase", "refund", "lead_submit", "install"]);

const values = valuesOf(eventColumns, eventSources);

/** Nothing of the event is read before it is asked for. */
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
 * One row a version; none where consent to analytics is missing and the event is neither order,
 * lead nor install (docs/design/contracts.md, "Consent").
 */
export const eventRows = (event: Recorded<EventAttributed>): readonly EventRow[] =>
  isSeen(event) || storedAnyway.has(event.data.event.t) ? [new Row(event)] : none;
const none: readonly EventRow[] = [];
