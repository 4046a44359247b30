// Credits a partner with each of many sales. A sale that cannot be credited gets its refusal as its
// outcome.
import { codeOf, missing } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { creditables, creditRefusal, refuseArchivedClient } from "./creditable.ts";
import { findSales, lineNames, newestVersion, type SaleMatch, type SaleName } from "./find-sales.ts";
import {
  type DecidedSales,
  type DecisionOutcome,
  type DecisionPorts,
  type DecisionWords,
  type NewDecision,
  recordDecisions,
} from "./record-decisions.ts";

interface Attribution extends SaleName {
  readonly partner_id: number;
  readonly campaign_id?: number | null | undefined;
}
export interface Attributions extends DecisionWords {
  readonly client_id: number;
  readonly items: readonly Attribution[];
}

/** The input in the form of `findSales`. */
export const namedByItems = ({ client_id, items }: Pick<Attributions, "client_id" | "items">) => ({
  ...{ client_id, named: items, placeOf: (n: number) => `/items/${n}` },
});

/** Throws RefusalError: missing, invalid `one_of`, conflict `client_archived`. */
export const attributeEach = async (work: Work, ports: DecisionPorts, input: Attributions): Promise<DecidedSales> => {
  const { client_id, items, reason, actor } = input;
  const sales = await findSales(ports.clickhouse, work, namedByItems(input));
  const creditableFor = creditables(work.tx, client_id);
  const standing = await creditableFor({ partner_id: null, campaign_id: null });
  if (standing.client === undefined || !work.scope.clients.includes(client_id)) throw missing();
  refuseArchivedClient(standing);
  const words = { reason, actor, at: Date.now(), client_id };
  const taken = new Set<string>();
  const made: NewDecision[] = [];
  const outcomeOf = async (index: number, { partner_id, campaign_id = null }: Attribution, sale: SaleMatch) => {
    const of: DecisionOutcome = { index, code: null, decision_id: null, version: null, status: "rejected" };
    if (sale === undefined || sale === "several") return { ...of, code: codeOf(missing()) };
    const names = lineNames(sale);
    if (names.some((name) => taken.has(name))) return { ...of, code: "duplicate_item" };
    for (const name of names) taken.add(name);
    const refusal = creditRefusal(await creditableFor({ partner_id, campaign_id }), campaign_id);
    if (refusal !== undefined) return { ...of, code: codeOf(refusal) };
    const { lines, subject } = sale;
    const version = newestVersion(lines);
    if (lines.every((line) => line.partner_id === partner_id)) return { ...of, status: "unchanged" as const, version };
    const kind = lines.every((line) => line.partner_id === null) ? "assign" : "reattribute";
    const decision_id = work.idOf(index);
    made.push({ decided: { ...words, partner_id, campaign_id, decision_id, subject, kind }, lines });
    return { ...of, status: "accepted" as const, decision_id, version };
  };
  const outcomes: DecisionOutcome[] = [];
  for (const [index, item] of items.entries()) outcomes.push(await outcomeOf(index, item, sales[index]));
  await recordDecisions(work, ports, made, "sale.bulk_attributed");
  return { outcomes, sales };
};
