// Turns the explicit consent choice that an event reports into a row of the table of consent
// changes.
import { chosenBy } from "../../domain/personal/consent.ts";
import type { EventAttributed } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import type { ConsentRow } from "./table.ts";

/**
 * One row for a choice; nearly every event has none. The time of the row is not later than the
 * receipt.
 */
export const consentRows = ({
  data: { event },
  receivedAt,
  position,
}: Recorded<EventAttributed>): readonly ConsentRow[] => {
  const mask = chosenBy(event);
  if (mask === null) return none;
  const { client_id, did, event_id, ts } = event;
  return [
    {
      client_id,
      did,
      event_id,
      mask,
      values: [client_id, did, event_id, mask, Math.min(ts, receivedAt), position.offset],
    },
  ];
};
const none: readonly ConsentRow[] = [];
