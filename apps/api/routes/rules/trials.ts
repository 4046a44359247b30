// The routes that try a rule on history, and apply it there.
import { orUnavailable, unavailable } from "../../../../infra/http/problem.ts";
import { checkVersion, missing } from "../../../../modules/base/refusal.ts";
import { readClient } from "../../../../modules/catalog/clients/client-reads.ts";
import { ruleToTry } from "../../../../modules/money/trials/rule-to-try.ts";
import { startBackfill } from "../../../../modules/money/trials/start-backfill.ts";
import { tryOnHistory } from "../../../../modules/money/trials/trial.ts";
import { type TriedRule, UNSAVED } from "../../../../modules/money/trials/try-rule.ts";
import { type EventWindow, ruleWindow } from "../../../../modules/money/trials/window.ts";
import { backfillRule, simulateRule } from "../../contract/rules/trials.ts";
import { type ApiPorts, type Ask, type Route, route } from "../../route.ts";

/** Each holds a core for a second or two. */
const AT_ONCE = 3;

export const routes = ({ pool, trials }: Pick<ApiPorts, "pool" | "trials">): readonly Route[] => {
  let running = 0;
  const tried = async (rule: TriedRule, window: EventWindow) => {
    if (running >= AT_ONCE) throw unavailable("other rules are being tried: come again", 2);
    running += 1;
    try {
      const ports = await trials();
      return await tryOnHistory({ ...ports, pool, now: Date.now() }, rule, window);
    } catch (error) {
      return orUnavailable("history cannot be read now", 2)(error);
    } finally {
      running -= 1;
    }
  };
  /** What a dry run answers. */
  const triedBackfill = async (rule: TriedRule, window: EventWindow) => {
    const { money: _, budgets_breached: __, would_lose_to: ___, ...answer } = await tried(rule, window);
    return { body: { ...answer, rule_id: rule.rule_id } };
  };
  return [
    route(simulateRule, async (ask) => {
      const window = windowOf(ask.body);
      const rule = await simulatedRule(ask);
      const answer = await tried(rule, window);
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
      return triedBackfill(rule, window);
    }),
  ];
};

/** How a rule is shown that is not saved. */
const NO_RULE = { rule_id: null, rule_version: null };

/** The saved rule that the body names, or the one in it. Throws RefusalError: missing. */
const simulatedRule = ({ read, body }: Pick<Ask<typeof simulateRule>, "read" | "body">): Promise<TriedRule> => {
  const { client_id, rule, rule_id, mode } = body;
  return read(async (tx, { clients }) => {
    if ((await readClient(tx, client_id, clients, [])) === undefined) throw missing();
    if (rule_id !== undefined) return ruleToTry(tx, rule_id, [client_id], mode);
    return {
      client_id,
      rule_id: UNSAVED,
      version: 1,
      ...(rule as Pick<TriedRule, "when" | "then" | "priority">),
      mode,
    };
  });
};

type Days = Pick<Ask<typeof backfillRule>["body"], "from" | "to" | "event_types">;
const windowOf = ({ event_types, ...days }: Days): EventWindow => ({ ...ruleWindow(days, Date.now()), event_types });
