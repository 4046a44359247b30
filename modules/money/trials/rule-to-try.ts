// The saved rule that is tried on history, or applied there.
import type { PoolClient } from "pg";
import { missing } from "../../base/refusal.ts";
import { savedRule } from "../../catalog/rules/rule-reads.ts";
import { type TriedRule, triedRule } from "./try-rule.ts";

/** Throws RefusalError: missing, also for a rule that is archived. */
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
