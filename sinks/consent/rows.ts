// The explicit choice that an event reports, as a row of the table of changes of consent.
import { chosenBy } from "../../domain/personal/consent.ts";
import type { EventAttributed } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import type { ConsentRow } from "./table.ts";

/** One row for a choice, none for nearly every event; its time is at most that of the receipt. */
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
