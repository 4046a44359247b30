// A change to one line or event, and the decision that would write it. Equal changes make equal
// decisions, whenever they are found.
import { uuidOf } from "../../../domain/ids.ts";
import { decisionOnRow } from "../../../processors/settle/decision-claim.ts";
import type { Claim, Credit, Decision, EventAttributed } from "../../../schemas/generated.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import type { OutputMessage } from "../../../stream/messages.ts";
import type { Wire } from "../../../stream/wire.ts";
import { topics } from "../../../topics.ts";
import { decisionMessages } from "../decisions/decision-messages.ts";
import type { Part } from "./compare.ts";

/** The credited partner and the method, or why no partner is credited. */
export interface CreditHolder {
  readonly partner_id: number | null;
  readonly campaign_id: number | null;
  /** The method of a credit, else the reason for none. */
  readonly because: string;
}

export interface Change {
  readonly decision_id: string;
  readonly scope: "line" | "event";
  readonly client_id: number;
  readonly event_id: string;
  readonly sender_event_id: string | null;
  readonly t: string;
  readonly order_id: string | null;
  readonly at: UnixMs;
  readonly value_minor: bigint | null;
  readonly currency: string | null;
  readonly parts: readonly Part[];
  readonly before: CreditHolder;
  readonly after: CreditHolder;
  /** The message for `claims`, ready to be produced. */
  readonly message: OutputMessage;
}

const heldBy = ({ method, reason, partner_id, campaign_id }: Credit): CreditHolder => ({
  partner_id,
  campaign_id,
  because: method ?? reason ?? "unknown",
});

export interface DecisionInput {
  readonly wire: Wire;
  readonly now: UnixMs;
  readonly actor: string;
  readonly reason: string;
  /** False: the credited partner earns nothing from it yet. */
  readonly recalculates?: boolean | undefined;
}

const messageOf = ({ wire }: DecisionInput, claim: Claim): OutputMessage => decisionMessages(wire, [claim])[0]!;
const saidBy = ({
  actor,
  reason,
  now,
  recalculates = true,
}: DecisionInput): Omit<
  Decision,
  "scope" | "decision_id" | "kind" | "review" | "overrides" | "claimed_by" | "keep" | "withdraws"
> => ({
  actor,
  partner_id: null,
  campaign_id: null,
  reason,
  at: now,
  flags: [],
  review_from: 101,
  reject_from: 101,
  recalculates,
});

/** The content of an outcome as bytes that are the same every time. */
const outcomeOf = (
  { enrichment, fraud, credit }: EventAttributed,
  { review, overrides, claimed_by }: Pick<Decision, "review" | "overrides" | "claimed_by">,
): string => JSON.stringify([enrichment, fraud, credit, review, overrides, claimed_by]);

/**
 * Makes the decision for a change. Its id contains the version of the row that `today` was computed
 * against, and the outcome; code, rules and window are left out. So a run that was killed, or runs
 * again over another window, makes the same decision under the same id, which counts once.
 */
export const changeOf = (
  deciding: DecisionInput,
  about: {
    readonly scope: "line" | "event";
    readonly order_key: string;
    readonly at: UnixMs;
    readonly before: EventAttributed;
    readonly today: EventAttributed;
    readonly review: string | null;
    readonly overrides: boolean;
    readonly claimed_by: readonly number[];
    readonly parts: readonly Part[];
  },
): Change => {
  const { scope, order_key, before, today, review, overrides, claimed_by } = about;
  const { event } = today;
  const decision_id = uuidOf("reprocess", event.event_id, today.version, outcomeOf(today, about));
  const said = { ...saidBy(deciding), decision_id, kind: "reprocess", review, overrides, claimed_by } as const;
  return {
    decision_id,
    scope,
    ...shown(event, about.at),
    parts: about.parts,
    before: heldBy(before.credit),
    after: heldBy(today.credit),
    message: messageOf(deciding, decisionOnRow(order_key, today, scope, said)),
  };
};

/**
 * Makes the decision that credits a line again without changing it. `conversion` is the line's
 * current conversion; it is part of the id, so that the line is credited again only once.
 */
export const recreditOf = (
  deciding: DecisionInput,
  line: { readonly order_key: string; readonly at: UnixMs; readonly row: EventAttributed; readonly conversion: string },
): Change => {
  const decision_id = uuidOf("recredit", line.row.event.event_id, line.conversion);
  const held = heldBy(line.row.credit);
  return {
    decision_id,
    scope: "line",
    ...shown(line.row.event, line.at),
    parts: [],
    before: held,
    after: held,
    message: messageOf(
      deciding,
      decisionOnRow(line.order_key, line.row, "line", { ...saidBy(deciding), decision_id, kind: "recredit" }),
    ),
  };
};

const shown = (
  { client_id, event_id, sender_event_id, t, custom_name, order_id, value_minor, currency }: EventAttributed["event"],
  at: UnixMs,
) => ({
  client_id,
  event_id,
  sender_event_id,
  t: custom_name ?? t,
  order_id,
  at,
  value_minor,
  currency,
});

/** Decodes a change as settle will read it. */
export const readAgain = (wire: Wire, { message }: Pick<Change, "message">, offset: number) =>
  wire.decode(topics.claims, message.value, { topic: topics.claims.name, partition: 0, offset });
