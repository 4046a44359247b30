// Starts a job that applies a rule to history.
import { checkVersion } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { openClient } from "../../catalog/clients/open-client.ts";
import { lockReference } from "../../catalog/reference/open-change.ts";
import { askForBackfill } from "./backfill.ts";
import { ruleToTry } from "./rule-to-try.ts";
import type { EventWindow } from "./window.ts";

export interface BackfillInput {
  readonly rule_id: number;
  readonly window: EventWindow;
  readonly trigger_recalc: boolean;
  /** The version that the caller has seen; undefined: any. */
  readonly version: number | undefined;
}
export interface StartedBackfill {
  readonly rule_id: number;
  readonly rule_version: number;
  readonly from: string;
  readonly to: string;
  readonly job_id: string;
}

/**
 * Repeating the same backfill returns the same job. Throws RefusalError: missing,
 * `client_archived`, `version_conflict`.
 */
export const startBackfill = async (
  work: Work,
  { rule_id, window, trigger_recalc, version }: BackfillInput,
): Promise<StartedBackfill> => {
  const { tx, scope, act } = work;
  await lockReference(tx);
  const rule = await ruleToTry(tx, rule_id, scope.clients, "alone");
  const { client_id } = rule;
  await openClient(work, client_id);
  checkVersion(version, rule.version);
  const job_id = await askForBackfill(tx, { rule, window, trigger_recalc }, act.actor);
  const { first_day: from, last_day: to, event_types } = window;
  const started = { rule_id, rule_version: rule.version, from, to, job_id };
  const after = { ...started, event_types, trigger_recalc };
  await work.audit({ action: "rule.backfill_started", client_id, entity: `rule:${rule_id}`, after });
  return started;
};
