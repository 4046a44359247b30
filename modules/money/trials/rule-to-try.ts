// Finds the saved rule that is tried on history or applied to it.
import type { PoolClient } from "pg";
import { missing } from "../../base/refusal.ts";
import { savedRule } from "../../catalog/rules/rule-reads.ts";
import { type TriedRule, triedRule } from "./try-rule.ts";

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
