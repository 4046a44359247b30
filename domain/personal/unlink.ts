// The decision that an identifier does not belong to a device. It is an event in the device's log,
// so it is stored, replayed and explained like any other.
import type { EventReceived } from "../../schemas/generated.ts";
import type { UnixMs } from "../../stream/flow.ts";
import { blankEvent } from "../nothing-found.ts";

const NAME = "identity_unlinked";
/** A decision does not depend on a visitor's consent, so all bits are set. */
const EVERY_BIT = 0xff;

export interface UnlinkDecision {
  /** A UUID. The same decision made again counts once. */
  readonly decision_id: string;
  readonly client_id: number;
  /** Keyed hashes, as in the log. */
  readonly did: string;
  readonly kind: string;
  readonly identifier: string;
  readonly actor: string;
  /** The reason in words. */
  readonly reason: string;
  readonly at: UnixMs;
}

export const unlinkEvent = ({ decision_id, client_id, did, at, ...said }: UnlinkDecision): EventReceived =>
  blankEvent({
    ...{ event_id: decision_id, client_id, did, t: "custom", custom_name: NAME, ts: at },
    ...{ consent: EVERY_BIT, props: JSON.stringify(said) },
  });

/** The content of such a decision. Null for every other event. */
export const unlinkedBy = (event: EventReceived): Pick<UnlinkDecision, "kind" | "identifier"> | null => {
  if (event.source !== "decision" || event.custom_name !== NAME) return null;
  const { kind, identifier } = JSON.parse(event.props) as UnlinkDecision;
  return { kind, identifier };
};
