// POST /admin/rules/:id/backfill: the backfill of the platform API, for the holder of an admin
// token. The job itself runs in the keeper.
import type { Request, Response } from "express";
import type { Pool, PoolClient } from "pg";
import { reference } from "../../../domain/reference/reference.ts";
import { orUnavailable, Problem, unavailable } from "../../../infra/http/problem.ts";
import { localWindow } from "../../../infra/http/rate-limit.ts";
import { parseJson, readBytes } from "../../../infra/http/read-json.ts";
import { transaction } from "../../../infra/postgres/sql.ts";
import type { Token } from "../../../modules/access/tokens/tokens.ts";
import { writeAudit } from "../../../modules/base/audit/audit.ts";
import { savedRule } from "../../../modules/catalog/rules/rule-reads.ts";
import { askForBackfill } from "../../../modules/money/trials/backfill.ts";
import { backfillBody } from "../../../modules/money/trials/backfill-body.ts";
import type { OpenTrials } from "../../../modules/money/trials/open-trials.ts";
import { tryOnHistory } from "../../../modules/money/trials/trial.ts";
import { type TriedRule, triedRule } from "../../../modules/money/trials/try-rule.ts";
import { BadWindow, type RuleWindow, ruleWindow } from "../../../modules/money/trials/window.ts";
import type { UnixMs } from "../../../stream/flow.ts";

export interface BackfillParts {
  /** Of the kind admin: every client's. */
  readonly authenticate: (request: Request, address: string) => Token;
  readonly pool: Pool;
  readonly trials: OpenTrials;
}

const CALLS_A_MINUTE = { limit: 60, windowMs: 60_000 };
const MOST_FAULTS = 100;

type Window = RuleWindow & { readonly event_types?: readonly string[] | undefined };

export const backfillRoute = ({ authenticate, pool, trials }: BackfillParts) => {
  const calls = localWindow(CALLS_A_MINUTE);
  // This host takes events, and a trial needs a core: there is one at a time.
  let isTrying = false;

  const tried = async (rule: TriedRule, window: Window, now: UnixMs): Promise<object> => {
    if (isTrying) throw unavailable("another rule is being tried: come again", 2);
    isTrying = true;
    try {
      const found = await tryOnHistory({ ...(await trials()), pool, now }, rule, window);
      const { money: _, budgets_breached: __, would_lose_to: ___, samples, ...answer } = found;
      const shown = samples.map(({ at, ...sample }) => ({ ...sample, at: new Date(at).toISOString() }));
      return { ...answer, rule_id: rule.rule_id, samples: shown };
    } finally {
      isTrying = false;
    }
  };
  /** Every client there is or was: an admin token is of no client in particular. */
  const clientsAt = async (now: UnixMs): Promise<readonly number[]> =>
    (await (await trials()).read(reference, now)).clientIds;

  return async (request: Request, response: Response): Promise<void> => {
    const token = authenticate(request, request.ip ?? "");
    if (!calls.take(String(token.token_id), performance.now()).isAllowed)
      throw new Problem("rate_limited", "a token may call 60 times a minute", { headers: { "Retry-After": "5" } });
    const { version, dry_run, trigger_recalc, event_types, ...days } = await bodyOf(request);
    const window: Window = { ...windowOf(days), event_types };
    const now = Date.now();
    const asked = async (): Promise<object> => {
      const clients = await clientsAt(now);
      const reading = (tx: PoolClient) => ruleOf(tx, String(request.params.id), clients, version);
      if (dry_run) return tried(await transaction(pool, clients, reading, { isReadOnly: true }), window, now);
      return transaction(pool, clients, async (tx) => {
        const rule = await reading(tx);
        const { rule_id, version: rule_version, client_id } = rule;
        const actor = `token:${token.token_id}`;
        const job_id = await askForBackfill(tx, { rule, window, trigger_recalc }, actor);
        const said = { rule_id, rule_version, from: window.first_day, to: window.last_day, job_id };
        await writeAudit(
          tx,
          { actor, role: "token", request_id: String(response.locals.requestId), ip: request.ip ?? null },
          {
            ...{ action: "rule.backfill_started", client_id, entity: `rule:${rule_id}` },
            after: { ...said, event_types, trigger_recalc },
          },
        );
        return { ok: true, dry_run, ...said };
      });
    };
    const answer = await asked().catch(orUnavailable("history cannot be read now", 2));
    response.status(dry_run ? 200 : 202).json(answer);
  };
};

/** Throws Problem 404, and 409 when another version than the expected one is there. */
const ruleOf = async (
  tx: PoolClient,
  id: string,
  clients: readonly number[],
  expected: number | undefined,
): Promise<TriedRule> => {
  const saved = /^[1-9]\d{0,8}$/.test(id) ? await savedRule(tx, Number(id), clients) : undefined;
  if (saved === undefined || saved.archived) throw new Problem("not_found", "there is no such rule");
  if (expected !== undefined && expected !== saved.version)
    throw new Problem("conflict", `this has changed: version ${saved.version} is there now`, {
      code: "version_conflict",
      members: { current_version: saved.version },
    });
  return triedRule(saved, "alone");
};

const bodyOf = async (request: Request) => {
  const bytes = await readBytes(request);
  const parsed = backfillBody.safeParse(bytes.length === 0 ? {} : parseJson(bytes));
  if (parsed.success) return parsed.data;
  const errors = parsed.error.issues
    .flatMap(({ path, message, code, ...issue }) => {
      const at = path.map((part) => `/${String(part)}`).join("");
      const keys = "keys" in issue ? (issue.keys as readonly string[]) : undefined;
      return keys === undefined
        ? [{ pointer: at, code: code as string, detail: message }]
        : keys.map((key) => ({
            pointer: `${at}/${key}`,
            code: "unknown_field",
            detail: "there is no such field here",
          }));
    })
    .slice(0, MOST_FAULTS);
  throw new Problem("validation_failed", "the body is not acceptable", { errors });
};

const windowOf = (days: { readonly from?: string | undefined; readonly to?: string | undefined }) => {
  try {
    return ruleWindow(days, Date.now());
  } catch (error) {
    if (!(error instanceof BadWindow)) throw error;
    const errors = [{ pointer: "/from", code: error.code, detail: error.message }];
    throw new Problem("validation_failed", error.message, { code: error.code, errors });
  }
};
