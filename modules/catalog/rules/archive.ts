// Switches a rule off and archives it. Its credits stay.
import { checkVersion } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { changeReference } from "../reference/change.ts";
import { entityOf, lockRule } from "./open-rule.ts";

/**
 * Does nothing if it is archived and off already. Throws RefusalError: missing, `client_archived`,
 * `version_conflict`.
 */
export const archiveRule = async (
  work: Work,
  { rule_id, version }: { readonly rule_id: number; readonly version: number | undefined },
): Promise<void> => {
  const before = await lockRule(work, rule_id);
  // A rule that was archived while active is switched off now.
  if (before.archived && before.status === "inactive") return;
  checkVersion(version, before.version);
  const after = { status: "inactive", archived: true } as const;
  await changeReference(work, { rules: [{ rule_id, ...after }] });
  const { client_id } = before;
  await work.audit({ action: "rule.archived", client_id, entity: entityOf(rule_id), before, after });
};
