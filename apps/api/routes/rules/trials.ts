// The routes that try a rule on history, and apply it to history.
import { unavailable } from "../../../../infra/http/problem.ts";
import { orUnavailable } from "../../../../infra/runtime/errors.ts";
import { checkVersion } from "../../../../modules/base/refusal.ts";
import { type RuleOfTrial, ruleOfTrial, ruleToTry } from "../../../../modules/money/trials/rule-to-try.ts";
import { startBackfill } from "../../../../modules/money/trials/start-backfill.ts";
import { type AskedTrial, tryOnHistory } from "../../../../modules/money/trials/trial.ts";
import { UNSAVED } from "../../../../modules/money/trials/try-rule.ts";
import { type EventWindow, ruleWindow } from "../../../../modules/money/trials/window.ts";
import { backfillRule, simulateRule } from "../../contract/rules/trials.ts";
import { type ApiPorts, type Ask, type Route, route } from "../../route.ts";

type Ports = Pick<ApiPorts, "pool" | "trials">;

export const routes = (ports: Ports): readonly Route[] => {
  const tryRule = openTrialLimit(ports);
  return [
    route(simulateRule, async ({ read, body }) => {
      const window = windowOf(body);
      const rule = await read((tx, { clients }) => ruleOfTrial(tx, clients, body as RuleOfTrial));
      const answer = await tryRule({ rule, window, recalculates: true });
      return { body: { ...answer, ...(rule.rule_id === UNSAVED ? NO_RULE : { rule_id: rule.rule_id }) } };
    }),

    route(backfillRule, async ({ read, write, params, body, version }) => {
      const { dry_run, trigger_recalc } = body;
      const window = windowOf(body);
      if (!dry_run)
        return write(
          (work) => startBackfill(work, { rule_id: params.id, window, trigger_recalc, version }),
          (started) => ({ status: 202, body: { ok: true, dry_run, ...started } }),
        );
      const rule = await read((tx, { clients }) => ruleToTry(tx, params.id, clients, "alone"));
      checkVersion(version, rule.version);
      const found = await tryRule({ rule, window, recalculates: trigger_recalc });
      return { body: { ...found, rule_id: rule.rule_id } };
    }),
  ];
};

/** An unsaved rule is shown without id and version. */
const NO_RULE = { rule_id: null, rule_version: null };

/** Each trial uses a core for a second or two. */
const AT_ONCE = 3;

const openTrialLimit = ({ pool, trials }: Ports) => {
  let running = 0;
  return async (asked: AskedTrial) => {
    if (running >= AT_ONCE) throw unavailable("other rules are being tried: come again", 2);
    running += 1;
    try {
      const opened = await trials();
      return await tryOnHistory({ ...opened, pool, now: Date.now() }, asked);
    } catch (error) {
      return orUnavailable("history cannot be read now", 2)(error);
    } finally {
      running -= 1;
    }
  };
};

type HistoryDays = Pick<Ask<typeof backfillRule>["body"], "from" | "to" | "event_types">;
const windowOf = ({ event_types, ...days }: HistoryDays): EventWindow => ({
  ...{ ...ruleWindow(days, Date.now()), event_types },
});
