// A backfill of a rule, on the memory of settle in this process: the decision about one line.
import { orderKeyOf } from "../../../processors/attribute/claims.ts";
import { decisionOnRow } from "../../../processors/settle/decision-claim.ts";
import { DISPUTED, rowOf } from "../../../processors/settle/order.ts";
import type { Claim } from "../../../schemas/generated.ts";
import type { Memory } from "../../../stream/memory/memory.ts";
import { clickCredit } from "../../support/builders.ts";
import { ordersIn } from "./look-up.ts";
import { decisionIdOf, type Published } from "./real.ts";

type Job = Extract<Published, { readonly topic: "backfill" }>;

/** Undefined: the event made no line, or a person has decided about it. */
export const backfillClaim = async (
  durable: Memory,
  { asked, event }: Job,
  apart: number,
): Promise<{ readonly data: Claim; readonly at: number; readonly receivedAt: number } | undefined> => {
  if (event === undefined) return undefined;
  const key = orderKeyOf(event);
  const order = await ordersIn(durable)(`${event.client_id}:${key}`);
  const line = order?.lines.find(({ event_id }) => event_id === event.event_id);
  if (line === undefined || line.is_decided) return undefined;
  const { partner, isDisputed, recalculates, receivedAt } = asked;
  const said = {
    ...{ decision_id: decisionIdOf(apart, asked.id), actor: "job:backfill", reason: "a rule", at: receivedAt },
    ...{ partner_id: null, campaign_id: null, flags: [], review_from: 101, reject_from: 101 },
  };
  const row = rowOf(line);
  const campaign_id = partner === line.partner_id ? line.campaign_id : 1;
  const data =
    partner === undefined
      ? decisionOnRow(key, row, "line", { ...said, kind: "recredit" })
      : decisionOnRow(
          key,
          { ...row, credit: { ...row.credit, ...clickCredit({ method: "rule", partner_id: partner, campaign_id }) } },
          "line",
          {
            ...{ ...said, kind: "reprocess" as const, recalculates, claimed_by: [partner] },
            review: line.review ?? (isDisputed ? DISPUTED : null),
          },
        );
  return { data, at: line.at, receivedAt };
};
