// Turns an event into members of the sets that hints are counted from.
import { eventTimeOf } from "../../domain/money-time.ts";
import { unlinkedBy } from "../../domain/personal/unlink.ts";
import { addressOfVisitor } from "../../domain/personal/visitor.ts";
import type { EventAttributed, EventReceived } from "../../schemas/generated.ts";
import type { Recorded, UnixMs } from "../../stream/flow.ts";
import { sets, type VelocityRow } from "./table.ts";

const conversions: ReadonlySet<string> = new Set(["purchase", "ext_purchase", "lead_submit", "install"]);

/**
 * Writes rows for clicks, conversions and known persons, but not for a page view of an unknown
 * person. A click id counts only if attribute verified its MAC (then the credit has the time of the
 * click), so invented ids fill no set.
 */
export const velocityRows = (recorded: Recorded<EventAttributed>): readonly VelocityRow[] => {
  const { event, enrichment, credit } = recorded.data;
  // Scoring counts by the time of the event, not by that of its money.
  const at = eventTimeOf(recorded);
  const unlink = unlinkedBy(event);
  if (unlink !== null) return [unlinkedRow(event, unlink)];
  const isConversion = conversions.has(event.t);
  const isClick = event.t === "click";
  if (!isConversion && !isClick && enrichment.person === null) return none;
  const client_id = event.client_id;
  const rows: VelocityRow[] = [];
  const add = (set: string, member: string, order: UnixMs | null = null): void =>
    void rows.push({ client_id, set, member, at: order });
  const address = isConversion ? addressOfVisitor(event) : null;
  if (address !== null) add(sets.conversionsOf(client_id, address, at), event.event_id);
  if (
    (isConversion || isClick) &&
    event.click_id !== null &&
    credit.clicked_at !== null &&
    credit.method !== "identity"
  ) {
    add(sets.devicesOf(client_id, event.click_id), event.did);
    add(sets.clicksOf(client_id, event.did), event.click_id, credit.clicked_at);
    if (isClick && enrichment.country !== null)
      add(sets.countriesOf(client_id, event.click_id), enrichment.country, at);
  }
  if (enrichment.person !== null) add(sets.devicesOfPerson(client_id, enrichment.person), event.did, at);
  return rows;
};
const none: readonly VelocityRow[] = [];

/** Removes the device from the person, so that its clicks no longer count for the person. */
const unlinkedRow = (
  { client_id, did }: EventReceived,
  { kind, identifier }: NonNullable<ReturnType<typeof unlinkedBy>>,
): VelocityRow => ({
  ...{ client_id, member: did, at: null, is_gone: true },
  set: sets.devicesOfPerson(client_id, `${kind}:${identifier}`),
});
