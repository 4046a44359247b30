// POST /pull/trigger: requests a window of every active external source. The keeper pulls it in the
// background.
import type { Request, Response } from "express";
import type { Pool } from "pg";
import { z } from "zod";
import { Problem } from "../../../infra/http/problem.ts";
import { localWindow } from "../../../infra/http/rate-limit.ts";
import { parseJson, readBytes } from "../../../infra/http/read-json.ts";
import { orUnavailable } from "../../../infra/runtime/errors.ts";
import type { Token } from "../../../modules/access/tokens/tokens.ts";
import { type RequestResult, requestPulls } from "../../../modules/intake/pulls/pulls.ts";

export interface PullTriggerParts {
  /** Takes tokens of the kind admin, which belong to no client. */
  readonly authenticate: (request: Request, address: string) => Promise<Token>;
  readonly pool: Pool;
}

const CALLS_A_MINUTE = { limit: 60, windowMs: 60_000 };
const STEP_DAYS = 3;
const DAY_MS = 24 * 3_600_000;
/** Years have four digits, because Postgres and every source can read those. */
const moment = z.iso
  .datetime({ offset: true, error: "must be RFC 3339 with a zone, e.g. 2026-11-01T00:00:00Z" })
  .transform((text) => Date.parse(text));
const windowBody = z.strictObject({ from: moment, to: moment });

export const pullTriggerRoute = ({ authenticate, pool }: PullTriggerParts) => {
  const calls = localWindow(CALLS_A_MINUTE);
  return async (request: Request, response: Response): Promise<void> => {
    const token = await authenticate(request, request.ip ?? "");
    if (!calls.take(String(token.token_id), performance.now()).isAllowed)
      throw new Problem("rate_limited", "a token may call 60 times a minute", { headers: { "Retry-After": "5" } });
    const { from, to } = windowIn(parseJson(await readBytes(request)));
    const asked = requestPulls(pool, { from, to, actor: `token:${token.token_id}` });
    const requested = await asked.catch(orUnavailable("pulls cannot be asked for now", 2));
    response.json({ ok: true, status: "started", note: noteOf(requested, to - from) });
  };
};

const windowIn = (body: unknown): z.infer<typeof windowBody> => {
  const parsed = windowBody.safeParse(body);
  if (!parsed.success) {
    const errors = parsed.error.issues.flatMap(({ path, code, message, ...issue }) => {
      const unknown = "keys" in issue ? (issue.keys as readonly string[]) : undefined;
      return unknown === undefined
        ? [{ pointer: path.map((part) => `/${String(part)}`).join(""), code: code as string, detail: message }]
        : unknown.map((key) => ({ pointer: `/${key}`, code: "unknown_field", detail: "there is no such field here" }));
    });
    throw new Problem("validation_failed", "the body is not acceptable", { errors });
  }
  const { from, to } = parsed.data;
  if (from < to) return parsed.data;
  const errors = [{ pointer: "/from", code: "bad_window", detail: "must lie before `to`" }];
  throw new Problem("validation_failed", "from must lie before to", { code: "bad_window", errors });
};

/** Describes to the caller which pulls were started. */
const noteOf = ({ sources, started, covered, overlapping }: RequestResult, lengthMs: number): string => {
  if (sources === 0) return "no source is active that could be pulled";
  if (started === 0) return "already running";
  const parts = [`${started} of ${sources} sources`];
  if (covered > 0) parts.push(`already running for ${covered}`);
  if (overlapping > 0) parts.push(`${overlapping} pull a window that overlaps first`);
  if (lengthMs > STEP_DAYS * DAY_MS) parts.push(`longer than ${STEP_DAYS} days: pulled in steps of ${STEP_DAYS} days`);
  return parts.join("; ");
};
