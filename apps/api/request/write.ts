// The one transaction of a write: business rows, audit, outbox and the answer to its
// Idempotency-Key are saved together, or none of them.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { PoolClient } from "pg";
import { uuidOf } from "../../../domain/ids.ts";
import { Problem, unavailable } from "../../../infra/http/problem.ts";
import { transaction } from "../../../infra/postgres/sql.ts";
import { enterScope } from "../../../modules/access/scope.ts";
import type { User } from "../../../modules/access/users/users.ts";
import type { Act } from "../../../modules/base/audit/audit.ts";
import { claimKey, type KeyOfRequest, keepAnswer } from "../../../modules/base/idempotency/idempotency.ts";
import { runWork, type Work } from "../../../modules/base/work.ts";
import { tookTooLong } from "../../../modules/catalog/reference/open-change.ts";
import type { Reply } from "../route.ts";
import { idempotencyKey } from "./accept.ts";
import { type AskPorts, away, type CheckedRequest, rendered } from "./checked-request.ts";

/** A request waits this long for an earlier one with the same key. */
const TWIN_MS = 10_000;
const TWIN_PAUSE_MS = 100;
/**
 * How often a change of reference data is tried that is not saved in time, e.g. on a busy machine.
 * Nothing of a failed try is saved, and the next try gets its own stamp.
 */
const MOST_TRIES = 3;

/** Ends the transaction, because the request with the same key has not ended yet. */
class TwinAtWork extends Error {}

/** The arguments of `Ask.write`. */
export interface Writing {
  readonly useCase: (work: Work) => Promise<unknown>;
  readonly answer: (result: any, work: Work) => Reply | Promise<Reply>;
}

export const writeReply = async (
  { pool }: AskPorts,
  arrived: CheckedRequest,
  user: User,
  { useCase, answer }: Writing,
): Promise<Reply> => {
  const key = keyOf(arrived, user);
  const until = performance.now() + TWIN_MS;
  for (let tries = 1; ; ) {
    try {
      return await transaction(pool, null, (tx) =>
        answeredOnce(tx, key, arrived, () => done(tx, { key, arrived, user }, { useCase, answer })),
      );
    } catch (error) {
      if (tookTooLong(error) && tries < MOST_TRIES) {
        tries += 1;
        continue;
      }
      if (!(error instanceof TwinAtWork)) return away(error);
      if (performance.now() > until)
        throw unavailable("the first request with this Idempotency-Key is still at work", 5);
    }
    // The wait holds no connection, because the first request may need one.
    await sleep(TWIN_PAUSE_MS);
  }
};

/** The body that a write has answered; for a repeat, that of the first request. */
export const firstAnswer = <Answer>({ text }: Reply): Answer => JSON.parse(text!) as Answer;

const keyOf = ({ route, request, bytes }: CheckedRequest, user: User): KeyOfRequest | undefined => {
  const key = route.contract.isIdempotent ? idempotencyKey(request) : undefined;
  return key === undefined
    ? undefined
    : {
        owner: `user:${user.user_id}`,
        key,
        request: [request.method, request.originalUrl, bytes?.toString("base64") ?? ""],
      };
};

/** Runs the work, or returns the stored answer of its key. */
const answeredOnce = async (
  tx: PoolClient,
  key: KeyOfRequest | undefined,
  { route, caller }: CheckedRequest,
  work: () => Promise<Reply>,
): Promise<Reply> => {
  const claimed = key === undefined ? "mine" : await claimKey(tx, key);
  if (claimed === "busy") throw new TwinAtWork();
  if (claimed === "other")
    throw new Problem("conflict", "this Idempotency-Key was used for another request", {
      code: "idempotency_conflict",
    });
  if (claimed !== "mine") return claimed;
  const reply = await work();
  const answer = rendered(route, caller, reply);
  if (key !== undefined) {
    const { status, headers, text } =
      "repeat" in reply ? rendered(route, caller, { ...reply, body: reply.repeat }) : answer;
    await keepAnswer(tx, key, { status: status!, headers: headers!, text: text! });
  }
  return answer;
};

interface WriteRequest {
  readonly key: KeyOfRequest | undefined;
  readonly arrived: CheckedRequest;
  readonly user: User;
}

const done = async (
  tx: PoolClient,
  { key, arrived: { request, requestId }, user }: WriteRequest,
  { useCase, answer }: Writing,
): Promise<Reply> => {
  const scope = await enterScope(tx, user);
  const act: Act = { actor: user.email, role: user.role, request_id: requestId, ip: request.ip ?? null };
  const idOf = (n: number): string =>
    key === undefined ? randomUUID() : uuidOf("api", key.owner, key.key, ...key.request, n);
  return runWork({ tx, scope, act, idOf }, useCase, answer);
};
