// Turns an install or an ext_* event into a row, attributed or not.
import type { EventAttributed } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { creditOf } from "../shared-columns.ts";
import type { AppEventRow } from "./table.ts";

/** One row for an install, an ext_purchase or a custom event `ext_*`. None for any other event. */
export const appEventRows = ({ at, data }: Recorded<EventAttributed>): readonly AppEventRow[] => {
  const { event, version } = data;
  const type = event.t === "install" ? event.t : (event.custom_name ?? event.t);
  if (event.t !== "install" && !type.startsWith("ext_")) return none;
  return [
    {
      client_id: event.client_id,
      event_id: event.event_id,
      version,
      event_type: type,
      source: event.source,
      occurred_at: at,
      did: event.did,
      ...creditOf(data),
      order_id: event.order_id,
      product_id: event.product_id,
      segment: event.product_line,
      value_minor: event.value_minor?.toString() ?? null,
      currency: event.currency,
      sale_hash: event.sale_hash,
    },
  ];
};
const none: readonly AppEventRow[] = [];
