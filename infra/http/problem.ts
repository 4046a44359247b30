// Every answer that is not a success: application/problem+json (RFC 9457) with a stable code and
// the request's id.
import type { ErrorRequestHandler, Request, Response } from "express";
import { BadBody } from "../../stream/flow.ts";
import { QuotaSpent, Unavailable } from "../runtime/errors.ts";
import type { Log } from "../runtime/log.ts";

/**
 * Codes of docs/design/contracts.md, "Answers", with the status and the title that belong to them.
 */
const KINDS = {
  bad_request: [400, "The request cannot be understood"],
  validation_failed: [400, "The body is not acceptable"],
  unauthorized: [401, "A valid bearer token is needed"],
  forbidden: [403, "This is not allowed to you"],
  no_account: [403, "There is no account for this identity"],
  not_found: [404, "There is nothing here"],
  method_not_allowed: [405, "This path does not take this method"],
  conflict: [409, "This does not go together with what is there"],
  payload_too_large: [413, "The body is too large"],
  unsupported_media_type: [415, "This kind of body is not taken here"],
  rate_limited: [429, "Too many requests"],
  internal: [500, "Something failed on our side"],
  unavailable: [503, "The service cannot take this now"],
} as const satisfies Record<string, readonly [number, string]>;

export type ProblemKind = keyof typeof KINDS;

/** The parts of an answer beside its kind. */
export interface ProblemParts {
  readonly headers?: Readonly<Record<string, string>>;
  readonly errors?: readonly { readonly pointer: string; readonly code: string; readonly detail: string }[];
  /** A code of the domain, e.g. `slug_taken`, instead of the kind's own. */
  readonly code?: string;
  /** Further members of the answer, e.g. `current_version`. */
  readonly members?: Readonly<Record<string, unknown>>;
}

/**
 * May be thrown anywhere during a request. `detail` is for the sender, so it names no store and
 * quotes no body.
 */
export class Problem extends Error {
  readonly kind: ProblemKind;
  readonly code: string;
  readonly headers: NonNullable<ProblemParts["headers"]>;
  readonly errors: NonNullable<ProblemParts["errors"]>;
  readonly members: NonNullable<ProblemParts["members"]>;
  constructor(kind: ProblemKind, detail: string, parts: ProblemParts = {}) {
    super(detail);
    this.name = "Problem";
    this.kind = kind;
    this.code = parts.code ?? kind;
    this.headers = parts.headers ?? {};
    this.errors = parts.errors ?? [];
    this.members = parts.members ?? {};
  }
  get status(): number {
    return KINDS[this.kind][0];
  }
}

export const unavailable = (detail: string, retryAfterSec: number): Problem =>
  new Problem("unavailable", detail, { headers: { "Retry-After": String(retryAfterSec) } });

/** The sender has gone: no answer can reach it. */
export class SenderGone extends Error {}

/**
 * Answers any error that a route throws. An unexpected error is logged with its stack and answered
 * without it.
 */
export const answerProblems =
  (log: Log): ErrorRequestHandler =>
  (error, request, response, _next) => {
    if (error instanceof SenderGone || response.headersSent) return void response.destroy();
    const problem = problemOf(error);
    if (problem.kind === "internal") log.error("request.failed", { request_id: response.locals.requestId, error });
    sendProblem(request, response, problem);
  };

/** The problem that answers an error. */
export const problemOf = (error: unknown): Problem => {
  if (error instanceof Problem) return error;
  if (error instanceof Unavailable) return unavailable(error.message, error.retryAfterSec);
  if (error instanceof QuotaSpent) return spent(error);
  if (error instanceof BadBody) return ofBody(error);
  // express and its router mark a bad request with a status, e.g. for a path that cannot be
  // decoded.
  const status = (error as { status?: unknown }).status;
  if (typeof status === "number" && status >= 400 && status < 500)
    return new Problem("bad_request", "the request cannot be read");
  return new Problem("internal", "the request failed; it was recorded under its request id");
};

const spent = ({ message, retryAfterSec }: QuotaSpent): Problem =>
  new Problem("rate_limited", message, { code: "quota_spent", headers: { "Retry-After": String(retryAfterSec) } });

const ofBody = ({ code, message, pointer }: BadBody): Problem => {
  if (code === "bad_json") return new Problem("bad_request", message);
  if (code === "body_too_large") return new Problem("payload_too_large", message);
  return new Problem("validation_failed", message, { errors: [{ pointer, code, detail: message }] });
};

/**
 * The answer of a problem, independent of the server. `path` has no query, which may hold a secret.
 */
export const problemAnswer = (
  problem: Problem,
  { path, requestId }: { readonly path: string; readonly requestId: string },
) => {
  const [status, title] = KINDS[problem.kind];
  const body = {
    ...problem.members,
    type: `urn:tributary:problem:${problem.code}`,
    title,
    status,
    detail: problem.message,
    instance: path,
    code: problem.code,
    request_id: requestId,
    ...(problem.errors.length === 0 ? {} : { errors: problem.errors }),
  };
  const headers = { ...problem.headers, "Content-Type": "application/problem+json; charset=utf-8" };
  return { status, headers, body: JSON.stringify(body) };
};

const sendProblem = (request: Request, response: Response, problem: Problem): void => {
  const { path } = request;
  const { status, headers, body } = problemAnswer(problem, { path, requestId: response.locals.requestId as string });
  response.status(status).set(headers).send(body);
};
