// POST /admin/rules/:id/backfill: the same backfill as that of the platform API, for holders of an
// admin token. The keeper runs the job.

import { randomUUID } from "node:crypto";
import type { Request, Response } from "express";
import type { Pool } from "pg";
import { Problem, unavailable } from "../../../infra/http/problem.ts";
import { localWindow } from "../../../infra/http/rate-limit.ts";
import { parseJson, readBytesIfAny } from "../../../infra/http/read-json.ts";
import { problemOfRefusal } from "../../../infra/http/refusal-problem.ts";
import { transaction } from "../../../infra/postgres/sql.ts";
import { orUnavailable } from "../../../infra/runtime/errors.ts";
import { enterEveryClient } from "../../../modules/access/scope.ts";
import type { Token } from "../../../modules/access/tokens/tokens.ts";
import type { Act } from "../../../modules/base/audit/audit.ts";
import { checkVersion, missing, RefusalError } from "../../../modules/base/refusal.ts";
import { runWork } from "../../../modules/base/work.ts";
import { backfillBody } from "../../../modules/money/trials/backfill-body.ts";
import type { OpenTrials } from "../../../modules/money/trials/open-trials.ts";
import { ruleToTry } from "../../../modules/money/trials/rule-to-try.ts";
import { type BackfillInput, startBackfill } from "../../../modules/money/trials/start-backfill.ts";
import { type AskedTrial, tryOnHistory } from "../../../modules/money/trials/trial.ts";
import type { TriedRule } from "../../../modules/money/trials/try-rule.ts";
import { ruleWindow } from "../../../modules/money/trials/window.ts";

export interface BackfillParts {
  /** Takes tokens of the kind admin, which belong to no client. */
  readonly authenticate: (request: Request, address: string) => Promise<Token>;
  readonly pool: Pool;
  readonly trials: OpenTrials;
}

const CALLS_A_MINUTE = { limit: 60, windowMs: 60_000 };
const MOST_FAULTS = 100;

/** Tries rules on history, one at a time: this host takes events, and a trial needs a core. */
const openTrying = ({ pool, trials }: BackfillParts) => {
  let isTrying = false;
  return async (asked: AskedTrial): Promise<object> => {
    if (isTrying) throw unavailable("another rule is being tried: come again", 2);
    isTrying = true;
    try {
      const found = await tryOnHistory({ ...(await trials()), pool, now: Date.now() }, asked);
      const { money: _, budgets_breached: __, would_lose_to: ___, samples, ...answer } = found;
      const shown = samples.map(({ at, ...sample }) => ({ ...sample, at: new Date(at).toISOString() }));
      return { ...answer, rule_id: asked.rule.rule_id, samples: shown };
    } finally {
      isTrying = false;
    }
  };
};

/** Reads the rule of a trial, which writes nothing. */
const readRule = async (pool: Pool, { rule_id, version }: BackfillInput): Promise<TriedRule> => {
  const rule = await transaction(
    pool,
    null,
    async (tx) => ruleToTry(tx, rule_id, (await enterEveryClient(tx)).clients, "alone"),
    { isReadOnly: true },
  );
  checkVersion(version, rule.version);
  return rule;
};

const start = (pool: Pool, input: BackfillInput, act: Act): Promise<object> =>
  transaction(pool, null, async (tx) =>
    runWork(
      { tx, scope: await enterEveryClient(tx), act, idOf: () => randomUUID() },
      (work) => startBackfill(work, input),
      (backfill) => ({ ok: true, dry_run: false, ...backfill }),
    ),
  );

export const backfillRoute = (parts: BackfillParts) => {
  const { authenticate, pool } = parts;
  const calls = localWindow(CALLS_A_MINUTE);
  const tryRule = openTrying(parts);

  return async (request: Request, response: Response): Promise<void> => {
    const token = await authenticate(request, request.ip ?? "");
    if (!calls.take(String(token.token_id), performance.now()).isAllowed)
      throw new Problem("rate_limited", "a token may call 60 times a minute", { headers: { "Retry-After": "5" } });
    const { version, dry_run, trigger_recalc, event_types, ...days } = await bodyOf(request);
    const request_id = String(response.locals.requestId);
    const act = { actor: `token:${token.token_id}`, role: "token", request_id, ip: request.ip ?? null };
    const answer = async (): Promise<object> => {
      const window = { ...ruleWindow(days, Date.now()), event_types };
      const input = { rule_id: idIn(String(request.params.id)), window, trigger_recalc, version };
      return dry_run
        ? tryRule({ rule: await readRule(pool, input), window, recalculates: trigger_recalc })
        : start(pool, input, act);
    };
    const body = await answer().catch(refusedOrUnavailable);
    response.status(dry_run ? 200 : 202).json(body);
  };
};

const unavailableOr = orUnavailable("history cannot be read now", 2);
const refusedOrUnavailable = (error: unknown): never =>
  unavailableOr(error instanceof RefusalError ? problemOfRefusal(error) : error);

/** A malformed id is an unknown one. Throws RefusalError: missing. */
const idIn = (text: string): number => {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw missing();
  return Number(text);
};

const bodyOf = async (request: Request) => {
  const bytes = await readBytesIfAny(request);
  const parsed = backfillBody.safeParse(bytes === undefined ? undefined : parseJson(bytes));
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
