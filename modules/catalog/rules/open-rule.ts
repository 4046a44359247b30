// Opens the rule that a use case changes, and checks rules.
import { conflict, missing, type RefusalError } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { openClient } from "../clients/open-client.ts";
import { namedPartners, refuseInactive } from "../partners/named-partners.ts";
import type { ReferenceChanges } from "../reference/entities.ts";
import { lockReference } from "../reference/open-change.ts";
import { activeBeside, type SavedRule, savedRule } from "./rule-reads.ts";

type RuleRecord = NonNullable<ReferenceChanges["rules"]>[number];
/** The complete rule: fields that are left out get the defaults of a new rule. */
export type RuleFields = Pick<RuleRecord, "status" | "priority" | "effective_from" | "effective_to"> & {
  readonly name: string;
  readonly when?: unknown;
  readonly then: { readonly partner_id: number; readonly campaign_id?: number | undefined };
};

/** The fields in the form of a change of reference data. */
export const recordOf = (rule: RuleFields): Omit<RuleRecord, "rule_id"> => rule as Omit<RuleRecord, "rule_id">;

/**
 * Returns the rule, archived or not, and locks reference data until the commit. Throws
 * RefusalError: missing, `client_archived`.
 */
export const lockRule = async (work: Work, ruleId: number): Promise<SavedRule> => {
  await lockReference(work.tx);
  const found = await savedRule(work.tx, ruleId, work.scope.clients);
  if (found === undefined) throw missing();
  await openClient(work, found.client_id);
  return found;
};

export const ruleArchived = (): RefusalError => conflict("rule_archived", "this rule is archived");

/** The name of a rule in the audit. */
export const entityOf = (ruleId: number): string => `rule:${ruleId}`;

/** Every event of the client is evaluated against each of them. */
const MOST_ACTIVE_RULES = 500;

/**
 * An inactive rule may belong to a partner that has paused. `ruleId` is null for a new rule. Throws
 * RefusalError: invalid `partner_not_of_client`, `partner_inactive`, `too_many_rules`.
 */
export const checkRule = async (
  work: Work,
  clientId: number,
  { status = "active", then: { partner_id } }: RuleFields,
  ruleId: number | null,
): Promise<void> => {
  const named = [{ id: partner_id, path: "/then/partner_id" }];
  const statuses = await namedPartners(work, clientId, named);
  if (status === "inactive") return;
  refuseInactive(statuses, named);
  if ((await activeBeside(work.tx, clientId, ruleId)) >= MOST_ACTIVE_RULES)
    throw conflict("too_many_rules", `a client has at most ${MOST_ACTIVE_RULES} active rules: switch one off first`);
};
