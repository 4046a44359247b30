// The decision that an identifier does not belong to a device, as an event of the device's log: so
// it is kept, replayed and explained like everything else that is known of the device.
import type { EventReceived } from "../../schemas/generated.ts";
import type { UnixMs } from "../../stream/flow.ts";
import { blankEvent } from "../nothing-found.ts";

const NAME = "identity_unlinked";
/** A decision asks no visitor. */
const EVERY_BIT = 0xff;

export interface UnlinkDecision {
  /** A UUID; the same decision made again counts once. */
  readonly decision_id: string;
  readonly client_id: number;
  /** Keyed hashes, as the log has them. */
  readonly did: string;
  readonly kind: string;
  readonly identifier: string;
  readonly actor: string;
  /** In words. */
  readonly reason: string;
  readonly at: UnixMs;
}

export const unlinkEvent = ({ decision_id, client_id, did, at, ...said }: UnlinkDecision): EventReceived =>
  blankEvent({
    ...{ event_id: decision_id, client_id, did, t: "custom", custom_name: NAME, ts: at },
    ...{ consent: EVERY_BIT, props: JSON.stringify(said) },
  });

/** What such a decision is about; null for every other event. */
export const unlinkedBy = (event: EventReceived): Pick<UnlinkDecision, "kind" | "identifier"> | null => {
  if (event.source !== "decision" || event.custom_name !== NAME) return null;
  const { kind, identifier } = JSON.parse(event.props) as UnlinkDecision;
  return { kind, identifier };
};
