// Takes the credit of a sale away from its partner, so that no partner is credited.
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

export interface TakeBack extends NamedSale, DecisionWords {}

/** Throws RefusalError: missing, `client_id_required`, conflict `client_archived`. */
export const takeBackSale = async (work: Work, ports: DecisionPorts, input: TakeBack): Promise<DecidedSales> => {
  const sale = await saleNamed(ports.clickhouse, work, { ...input, withHeldRefunds: true });
  const { client_id, subject, lines } = sale;
  const credit = { partner_id: null, campaign_id: null };
  await checkCredit(work.tx, client_id, credit);
  const { reason, actor } = input;
  const decision_id = work.idOf(0);
  const words = { reason, actor, at: Date.now() };
  const decided: CreditDecision = { ...words, ...credit, decision_id, client_id, subject, kind: "take_back" };
  await recordDecisions(work, ports, [{ decided, lines }]);
  return { outcomes: [acceptedOutcome(decision_id, lines)], sales: [sale] };
};
