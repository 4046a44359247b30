// Applies a rule to history: what it meets is credited by decisions, page by page, oldest first.
import type { Pool, PoolClient } from "pg";
import type { UnixMs } from "../../stream/flow.ts";
import type { Produce } from "../../stream/messages.ts";
import { askForJob, type TakenJob } from "../jobs/jobs.ts";
import type { Report } from "../jobs/work-off.ts";
import type { Change } from "../reprocess/changes.ts";
import { isClosed } from "../reprocess/difference.ts";
import { writeChanges } from "../reprocess/write.ts";
import { type EvaluationPorts, evaluateRule, type Page } from "./evaluate.ts";
import { openSummary, periodsOf } from "./summary.ts";
import { currencyOf, deltasIn } from "./trial.ts";
import type { TriedRule } from "./try-rule.ts";
import type { RuleWindow } from "./window.ts";

export interface Backfill {
  /** The version that was asked for, whatever the rule has become since. */
  readonly rule: TriedRule;
  readonly window: RuleWindow & { readonly event_types?: readonly string[] | undefined };
  readonly trigger_recalc: boolean;
}

/** Inside a transaction that has the client as its tenant. The same backfill is one job. */
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

/** What a backfill came to. */
export type Backfilled = Awaited<ReturnType<typeof runBackfill>>;

export interface BackfillPorts extends Omit<EvaluationPorts, "now"> {
  readonly pool: Pool;
  readonly produce: Produce;
  readonly clock: () => number;
}

/** Decisions that would move money, and those of them that would move it in a closed month. */
const movesIn = ({ entries }: Page, now: UnixMs) => {
  const sums = new Map<string, { readonly decision_id: string; readonly isClosed: boolean; minor: bigint }>();
  for (const { entry, decision_id } of entries) {
    const { partner_id, year, month, currency, amount_minor } = entry;
    const key = `${decision_id} ${partner_id} ${year} ${month} ${currency}`;
    const known = sums.get(key) ?? { decision_id, isClosed: isClosed(year, month, now), minor: 0n };
    known.minor += amount_minor;
    sums.set(key, known);
  }
  const moves = [...sums.values()].filter(({ minor }) => minor !== 0n);
  return {
    moving: new Set(moves.map(({ decision_id }) => decision_id)),
    inClosed: new Set(moves.flatMap((one) => (one.isClosed ? one.decision_id : []))),
  };
};

interface Chosen {
  readonly changes: readonly Change[];
  readonly left_to_recalc: number;
  readonly left_in_closed_months: number;
}

/** Nothing edits the books of a closed month; a credit that is booked again must move money. */
const chosenIn = (page: Page, trigger_recalc: boolean, now: UnixMs): Chosen => {
  const { moving, inClosed } = movesIn(page, now);
  const changes: Change[] = [];
  const left = { left_to_recalc: 0, left_in_closed_months: 0 };
  for (const { change, isAgain, isHeld } of page.matches) {
    if (change === undefined || (isAgain && !(trigger_recalc && moving.has(change.decision_id)))) continue;
    if (trigger_recalc && inClosed.has(change.decision_id)) left.left_in_closed_months += 1;
    else if (!trigger_recalc && isHeld) left.left_to_recalc += 1;
    else changes.push(change);
  }
  return { changes, ...left };
};

/**
 * The order of durable effects: 1 the decisions of a page in `claims`, 2 settle answers each once,
 * 3 the progress of the job. A run that died anywhere begins again: what was settled stands and is
 * no match any more, and what was decided and not settled is decided under the same ids.
 */
export const runBackfill = async (ports: BackfillPorts, job: TakenJob, report: Report) => {
  const { rule, window, trigger_recalc } = job.input as Backfill;
  const summary = openSummary();
  const written = { decisions: 0, applied: 0, overtaken: 0, waiting: 0, left_to_recalc: 0, left_in_closed_months: 0 };
  const now = ports.clock();
  await report(0, null);
  const { evaluated, truncated } = await evaluateRule(
    { ...ports, now },
    {
      ...{ rule, window, recalculates: trigger_recalc, actor: job.job_id },
      reason: `backfill of rule ${rule.rule_id}, version ${rule.version}`,
    },
    async (page) => {
      const { changes, ...left } = chosenIn(page, trigger_recalc, now);
      const ids = new Set(changes.map(({ decision_id }) => decision_id));
      const entries = page.entries.filter(({ decision_id }) => !trigger_recalc || ids.has(decision_id));
      summary.add({ ...page, entries });
      written.left_to_recalc += left.left_to_recalc;
      written.left_in_closed_months += left.left_in_closed_months;
      if (changes.length > 0) {
        const { decisions, applied, overtaken, waiting } = await writeChanges(ports, changes, () => undefined);
        written.decisions += decisions;
        written.applied += applied;
        written.overtaken += overtaken;
        written.waiting += waiting;
      }
      await report(page.passed, page.total);
      return true;
    },
  );
  const found = summary.result();
  const { matched, by_event_type, by_partner } = found;
  const currency = await currencyOf(ports.pool, rule.client_id);
  return {
    ...{ rule_id: rule.rule_id, rule_version: rule.version, from: window.first_day, to: window.last_day },
    ...{ evaluated, truncated, matched, by_event_type, by_partner, ...written },
    ...deltasIn(found.deltas, currency),
    affected_periods: periodsOf(found, now),
  };
};
