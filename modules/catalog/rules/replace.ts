// Saves the next version of a rule, which replaces all its fields. Former versions stay.
import { checkVersion } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { changeReference } from "../reference/change.ts";
import { checkRule, entityOf, lockRule, type RuleFields, recordOf, ruleArchived } from "./open-rule.ts";

export interface RuleReplacement {
  readonly rule_id: number;
  readonly rule: RuleFields;
  /** The version that the caller has seen; undefined: any. */
  readonly version: number | undefined;
}

/**
 * Throws RefusalError: missing, `client_archived`, `rule_archived`, `version_conflict`, and the
 * refusals of a new rule.
 */
export const replaceRule = async (work: Work, { rule_id, rule, version }: RuleReplacement): Promise<void> => {
  const before = await lockRule(work, rule_id);
  const { client_id } = before;
  if (before.archived) throw ruleArchived();
  checkVersion(version, before.version);
  await checkRule(work, client_id, rule, rule_id);
  await changeReference(work, { rules: [{ rule_id, ...recordOf(rule) }] });
  await work.audit({ action: "rule.versioned", client_id, entity: entityOf(rule_id), before, after: rule });
};
