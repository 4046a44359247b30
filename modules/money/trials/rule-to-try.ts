// Finds the rule that is tried on history or applied to it.
import type { PoolClient } from "pg";
import { missing } from "../../base/refusal.ts";
import { clientOf } from "../../catalog/clients/client-reads.ts";
import { savedRule } from "../../catalog/rules/rule-reads.ts";
import { type TriedRule, triedRule, UNSAVED } from "./try-rule.ts";

/** Throws RefusalError: missing, also if the rule is archived. */
export const ruleToTry = async (
  tx: PoolClient,
  ruleId: number,
  clients: readonly number[],
  mode: TriedRule["mode"],
): Promise<TriedRule> => {
  const saved = await savedRule(tx, ruleId, clients);
  if (saved === undefined || saved.archived) throw missing();
  return triedRule(saved, mode);
};

export interface RuleOfTrial {
  readonly client_id: number;
  /** One of both. */
  readonly rule?: Pick<TriedRule, "when" | "then" | "priority"> | undefined;
  readonly rule_id?: number | undefined;
  readonly mode: TriedRule["mode"];
}

/** The saved rule, or the one that is given. Throws RefusalError: missing. */
export const ruleOfTrial = async (
  tx: PoolClient,
  clients: readonly number[],
  { client_id, rule, rule_id, mode }: RuleOfTrial,
): Promise<TriedRule> => {
  await clientOf(tx, client_id, clients);
  if (rule_id !== undefined) return ruleToTry(tx, rule_id, [client_id], mode);
  return { client_id, rule_id: UNSAVED, version: 1, ...rule!, mode };
};
