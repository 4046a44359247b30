// Credits a partner with the lines of a sale that no partner is credited with.
import { conflict, type RefusalError } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { checkCredit } from "./creditable.ts";
import type { CreditDecision } from "./decide.ts";
import { type NamedSale, saleNamed } from "./find-sales.ts";
import {
  acceptedOutcome,
  type DecidedSales,
  type DecisionPorts,
  type DecisionWords,
  recordDecisions,
} from "./record-decisions.ts";

export interface Assignment extends NamedSale, DecisionWords {
  readonly partner_id: number;
  readonly campaign_id?: number | null | undefined;
}

export const alreadyCredited = (): RefusalError =>
  conflict("already_credited", "a partner is credited: reattribute it");

/**
 * Throws RefusalError: missing, `client_id_required`, conflict `already_credited`, and the refusals
 * of `checkCredit`.
 */
export const assignSale = async (work: Work, ports: DecisionPorts, input: Assignment): Promise<DecidedSales> => {
  const { partner_id, campaign_id = null, reason, actor } = input;
  const sale = await saleNamed(ports.clickhouse, work, input);
  const { client_id, subject, lines } = sale;
  await checkCredit(work.tx, client_id, { partner_id, campaign_id });
  refuseCredited(lines, partner_id);
  const words = { reason, actor, at: Date.now() };
  const decision_id = work.idOf(0);
  const decided: CreditDecision = {
    ...words,
    partner_id,
    campaign_id,
    decision_id,
    client_id,
    subject,
    kind: "assign",
  };
  await recordDecisions(work, ports, [{ decided, lines }]);
  return { outcomes: [acceptedOutcome(decision_id, lines)], sales: [sale] };
};

/**
 * An assignment affects only lines without a partner. Throws RefusalError `already_credited` if
 * there are none, unless all lines belong to this partner; the same decision is then made again.
 */
export const refuseCredited = (lines: readonly { readonly partner_id: number | null }[], partnerId: number): void => {
  const isCredited = lines.every(({ partner_id }) => partner_id !== null);
  if (isCredited && lines.some(({ partner_id }) => partner_id !== partnerId)) throw alreadyCredited();
};
