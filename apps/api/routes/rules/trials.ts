// The routes that try a rule on history, and apply it there.
import { orUnavailable, Problem, unavailable } from "../../../../infra/http/problem.ts";
import { readClient } from "../../../../modules/catalog/clients/client-reads.ts";
import { openClient } from "../../../../modules/catalog/clients/open-client.ts";
import { lockReference } from "../../../../modules/catalog/reference/open-change.ts";
import { type SavedRule, savedRule } from "../../../../modules/catalog/rules/rule-reads.ts";
import { askForBackfill } from "../../../../modules/money/trials/backfill.ts";
import { tryOnHistory } from "../../../../modules/money/trials/trial.ts";
import { type TriedRule, triedRule, UNSAVED } from "../../../../modules/money/trials/try-rule.ts";
import { BadWindow, type RuleWindow, ruleWindow } from "../../../../modules/money/trials/window.ts";
import { backfillRule, simulateRule } from "../../contract/rules/trials.ts";
import { notFound } from "../../request/accept.ts";
import { type ApiPorts, type Route, route } from "../../route.ts";

/** Each holds a core for a second or two. */
const AT_ONCE = 3;

export const routes = ({ pool, trials }: Pick<ApiPorts, "pool" | "trials">): readonly Route[] => {
  let running = 0;
  const tried = async (
    rule: TriedRule,
    window: RuleWindow & { readonly event_types?: readonly string[] | undefined },
  ) => {
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
  return [
    route(simulateRule, async ({ read, body }) => {
      const { client_id, rule, rule_id, mode, event_types } = body;
      const window = windowOf(body);
      const saved = await read(async (tx, { clients }) => {
        if ((await readClient(tx, client_id, clients, [])) === undefined) throw notFound();
        return rule_id === undefined ? undefined : ruleOf(await savedRule(tx, rule_id, [client_id]), mode);
      });
      const unsaved = { client_id, rule_id: UNSAVED, version: 1, ...rule };
      const answer = await tried({ ...(saved ?? (unsaved as TriedRule)), mode }, { ...window, event_types });
      return { body: saved === undefined ? { ...answer, rule_id: null, rule_version: null } : { ...answer, rule_id } };
    }),

    route(backfillRule, async ({ read, write, params, body, user, checkVersion }) => {
      const { dry_run, trigger_recalc, event_types } = body;
      const window = { ...windowOf(body), event_types };
      if (dry_run) {
        const rule = await read(async (tx, { clients }) => ruleOf(await savedRule(tx, params.id, clients), "alone"));
        checkVersion(rule.version);
        const { money: _, budgets_breached: __, would_lose_to: ___, ...answer } = await tried(rule, window);
        return { body: { ...answer, rule_id: rule.rule_id } };
      }
      return write(async (work) => {
        const { tx, scope, audit } = work;
        await lockReference(tx);
        const rule = ruleOf(await savedRule(tx, params.id, scope.clients), "alone");
        await openClient(work, rule.client_id);
        checkVersion(rule.version);
        const job_id = await askForBackfill(tx, { rule, window, trigger_recalc }, user.email);
        const said = { from: window.first_day, to: window.last_day, event_types, trigger_recalc, job_id };
        const entity = `rule:${params.id}`;
        const known = { rule_id: rule.rule_id, rule_version: rule.version };
        await audit({
          action: "rule.backfill_started",
          client_id: rule.client_id,
          entity,
          after: { ...known, ...said },
        });
        return { status: 202, body: { ok: true, ...known, dry_run: false, from: said.from, to: said.to, job_id } };
      });
    }),
  ];
};

const windowOf = (body: { readonly from?: string | undefined; readonly to?: string | undefined }): RuleWindow => {
  try {
    return ruleWindow(body, Date.now());
  } catch (error) {
    if (!(error instanceof BadWindow)) throw error;
    const errors = [{ pointer: "/from", code: error.code, detail: error.message }];
    throw new Problem("validation_failed", error.message, { code: error.code, errors });
  }
};

/** Throws Problem 404 for what is not there, and for what is archived. */
const ruleOf = (saved: SavedRule | undefined, mode: TriedRule["mode"]): TriedRule => {
  if (saved === undefined || saved.archived) throw notFound();
  return triedRule(saved, mode);
};
