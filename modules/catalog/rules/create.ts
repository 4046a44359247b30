// Makes a rule, which applies to events received from then on.
import type { Work } from "../../base/work.ts";
import { openClient } from "../clients/open-client.ts";
import { changeReference } from "../reference/change.ts";
import { checkRule, entityOf, type RuleFields, recordOf } from "./open-rule.ts";

/**
 * Returns the id. Throws RefusalError: missing or archived client, invalid `partner_not_of_client`,
 * `partner_inactive`, `too_many_rules`, and refusals of wrong fields.
 */
export const createRule = async (work: Work, input: RuleFields & { readonly client_id: number }): Promise<number> => {
  const { client_id } = input;
  await openClient(work, client_id);
  await checkRule(work, client_id, input, null);
  const saved = await changeReference(work, { rules: [{ rule_id: -1, ...recordOf(input) }] });
  const id = saved.idOf("rules", -1);
  await work.audit({ action: "rule.created", client_id, entity: entityOf(id), after: input });
  return id;
};
