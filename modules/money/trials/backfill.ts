// Applies a rule to history: credits matching events by decisions, page by page, oldest first.
import { setTimeout as sleep } from "node:timers/promises";
import type { Pool, PoolClient } from "pg";
import { askForJob, type TakenJob } from "../../base/jobs/jobs.ts";
import type { Report } from "../../base/jobs/work-off.ts";
import type { WritePorts } from "../reprocess/write.ts";
import { openPages } from "./backfill-pages.ts";
import { type EvaluationPorts, evaluateRule } from "./evaluate.ts";
import { periodsOf } from "./summary.ts";
import { currencyOf, deltasIn } from "./trial.ts";
import type { TriedRule } from "./try-rule.ts";
import type { EventWindow } from "./window.ts";

export interface Backfill {
  /** The version that was requested, even when the rule has changed since. */
  readonly rule: TriedRule;
  readonly window: EventWindow;
  readonly trigger_recalc: boolean;
}

/** Runs inside a transaction that has the client as its tenant. The same backfill is one job. */
export const askForBackfill = (tx: PoolClient, backfill: Backfill, created_by: string): Promise<string> => {
  const { rule, window, trigger_recalc } = backfill;
  const { first_day, last_day, event_types } = window;
  const types = event_types === undefined ? null : [...new Set(event_types)].sort();
  return askForJob(tx, {
    kind: "backfill",
    client_id: rule.client_id,
    key: JSON.stringify([rule.rule_id, rule.version, first_day, last_day, types, trigger_recalc]),
    input: backfill,
    created_by,
  });
};

/** The result of a backfill. */
export type BackfillResult = Awaited<ReturnType<typeof runBackfill>>;

export interface BackfillPorts extends Omit<EvaluationPorts, "now"> {
  readonly pool: Pool;
  readonly produce: WritePorts["produce"];
  readonly clock: () => number;
}

/**
 * Overtaken changes are decided again in another pass: an earlier job may have changed an event
 * whose newest row is not readable in the analytics store yet. It is within seconds.
 */
const MOST_PASSES = 6;
const PAUSE_MS = 2_500;

/**
 * The order of durable effects: 1. the decisions of a page and what they book, in the row of the
 * job; 2. the decisions in `claims`; 3. settle processes each once; 4. the result in the row. A run
 * that follows a killed one continues from the row: the decisions that are left of the page keep
 * their ids.
 */
export const runBackfill = async (ports: BackfillPorts, job: TakenJob, report: Report) => {
  const { rule, window, trigger_recalc } = job.input as Backfill;
  const now = ports.clock();
  let total: number | null = null;
  const going = { trigger_recalc, left: job.checkpoint ?? undefined, done: job.done };
  const pages = openPages(ports, going, (done, checkpoint) => report({ done, total, checkpoint }));
  await report({ done: job.done, total });
  const pass = () =>
    evaluateRule(
      { ...ports, now },
      {
        ...{ rule, window, recalculates: trigger_recalc, actor: job.job_id, after: pages.after() },
        reason: `backfill of rule ${rule.rule_id}, version ${rule.version}`,
      },
      async (page) => {
        total = page.total;
        await pages.take(page);
        return true;
      },
    );
  let { evaluated, truncated } = await pass();
  while (pages.written().overtaken > 0 && pages.passes() < MOST_PASSES) {
    await sleep(PAUSE_MS);
    await pages.again();
    ({ evaluated, truncated } = await pass());
  }
  const found = pages.found();
  const { matched, by_event_type, by_partner } = found;
  const currency = await currencyOf(ports.pool, rule.client_id);
  return {
    ...{ rule_id: rule.rule_id, rule_version: rule.version, from: window.first_day, to: window.last_day },
    ...{ evaluated, truncated, matched, by_event_type, by_partner, ...pages.written() },
    ...deltasIn(found.deltas, currency),
    affected_periods: periodsOf(found, now),
  };
};
