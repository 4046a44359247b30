// A job on the log as an admin requests it over the platform API: planned first, then started with
// the token of its plan.
import { randomUUID } from "node:crypto";
import type { Pool, PoolClient } from "pg";
import { orUnavailable } from "../../../infra/runtime/errors.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { pipeline } from "../../../topology.ts";
import type { User } from "../../access/users/users.ts";
import { conflict, invalid, RefusalError } from "../../base/refusal.ts";
import type { ScopedRead, Work } from "../../base/work.ts";
import type { LogReads } from "../../log/log-reads.ts";
import { requestReplayWithin } from "../../log/replays/replays.ts";
import type { Move, MovePlan, Reprocess } from "./move.ts";
import { askForMove, newestMoveOf, openText } from "./moves.ts";
import { planMove } from "./plan.ts";
import { type MovePlanToken, PLAN_MS, plannedIn, planToken } from "./plan-token.ts";

export interface MovePorts {
  readonly pool: Pool;
  readonly log: LogReads;
  /** The first key signs plans; every key is accepted. */
  readonly planKeys: readonly Buffer[];
}

type Rewind = Extract<Move, { readonly move: "rewind" }>;
type Replay = Extract<Move, { readonly move: "replay" }>;
/** Times are Unix milliseconds; `to` left out is now, or the end of the log. */
export type MoveRequest =
  | (Omit<Rewind, "from"> & { readonly from: string | UnixMs })
  | Extract<Move, { readonly move: "relearn" }>
  | (Pick<Replay, "move" | "from" | "reason"> & {
      /** A sink; undefined: every sink. */
      readonly target?: string | undefined;
      readonly to?: UnixMs | undefined;
    })
  | (Omit<Reprocess, "to" | "client_id" | "user_id" | "writes"> & {
      readonly to?: UnixMs | undefined;
      /** Undefined: every client. */
      readonly client_id?: number | undefined;
    });

const badRange = (message: string): RefusalError => invalid("/from", "bad_range", message);

/** Throws RefusalError: invalid `bad_range`. */
const moveOf = (request: MoveRequest, now: UnixMs, user_id: number): Move => {
  if (request.move === "relearn") return request;
  if (request.move === "reprocess") {
    const { from, to = now, client_id = null, ...rest } = request;
    if (from >= to || to > now) throw badRange("begin before the end, and end by now");
    return { ...rest, from, to, client_id, user_id, writes: null };
  }
  if (request.move === "replay") {
    const { move, target, from, to = null, reason } = request;
    if (from >= (to ?? now)) throw badRange("begin before the end, and before now");
    return { move, sinks: target === undefined ? [] : [target], from, to, reason };
  }
  const { from, ...rest } = request;
  if (typeof from === "number" && from > now) throw badRange("this time has not come yet");
  return { ...rest, from: typeof from === "number" ? new Date(from).toISOString() : from };
};

/** Maps errors of Postgres to Unavailable while it is away. */
export const stateAway = orUnavailable("this cannot be read or changed now", 2);

const planOf = async ({ pool, log }: MovePorts, move: Move): Promise<MovePlan> => {
  // A refusal thrown inside of the question would end the connection to the log.
  const plan = await log((sources) =>
    planMove({ pool, ...sources, topology: pipeline }, move, Date.now()).catch((error: unknown) => {
      if (error instanceof RefusalError) return error;
      throw error;
    }),
  ).catch(stateAway);
  if (plan instanceof RefusalError) throw plan;
  return plan;
};

/**
 * Plans the job: its effects, and the token with which its user carries it out; there is no token
 * if the plan is refused. Changes nothing. Throws Unavailable, and RefusalError: invalid
 * `bad_range`, `unknown` and `unknown_target`.
 */
export const planRequest = async (ports: MovePorts, read: ScopedRead, request: MoveRequest, user_id: number) => {
  const now = Date.now();
  const move = moveOf(request, now, user_id);
  if (move.move === "reprocess" && move.client_id !== null) await checkClient(read, move.client_id);
  const plan = await planOf(ports, move);
  const { nodes, records, seconds, partitions, consequences, digest, subject } = plan;
  const newest = await newestMoveOf(ports.pool, subject).catch(stateAway);
  const problem = newest?.is_open ? openText(newest) : plan.problem;
  const shown = { move: move.move, nodes, records, estimated_seconds: seconds, partitions, consequences, problem };
  if (problem !== null) return { ...shown, plan_token: null, expires_at: null };
  const expires_at = now + PLAN_MS;
  const before = newest?.operation_id ?? null;
  const token: MovePlanToken = { plan_id: randomUUID(), user_id, expires_at, move, digest, before };
  return { ...shown, plan_token: planToken(ports.planKeys, token), expires_at };
};

const checkClient = (read: ScopedRead, clientId: number): Promise<void> =>
  read(async (_tx, { clients }) => {
    if (!clients.includes(clientId)) throw invalid("/client_id", "unknown", `no client has the id ${clientId}`);
  });

/** A plan that its user has named by its token, and the same job planned again now. */
export interface MoveStart {
  readonly token: MovePlanToken;
  readonly plan: MovePlan;
}

/**
 * Throws Unavailable, and RefusalError: invalid `bad_plan_token`, also for the token of another
 * user, because a plan shows its user's intent.
 */
export const planAgain = async (ports: MovePorts, text: string, { user_id }: Pick<User, "user_id">) => {
  const token = plannedIn(ports.planKeys, text);
  if (token === undefined || token.user_id !== user_id)
    throw invalid("/plan_token", "bad_plan_token", "take plan_token of a plan of your own");
  return { token, plan: await planOf(ports, token.move) };
};

/**
 * Requests the job of a plan, and returns its id. Throws RefusalError: conflict `plan_expired`,
 * `plan_used` and `plan_outdated`.
 */
export const startMove = async ({ tx, act, audit }: Work, { token, plan }: MoveStart): Promise<string> => {
  const operation_id = `op_${randomUUID()}`;
  const { move, expires_at, digest } = token;
  await askForMove(tx, { operation_id, actor: act.actor }, token, () => {
    if (expires_at < Date.now()) throw conflict("plan_expired", "this plan is older than ten minutes: plan again");
    if (plan.problem !== null) throw conflict("plan_outdated", plan.problem);
    if (plan.digest !== digest) throw conflict("plan_outdated", "the log has moved on: plan again");
    return { plan, replay: () => replayOf(tx, move, plan, act.actor) };
  });
  await audit({ action: "operation.asked", client_id: null, entity: `operation:${operation_id}`, after: move });
  return operation_id;
};

const replayOf = async (tx: PoolClient, move: Move, { nodes }: MovePlan, actor: string): Promise<string> => {
  if (move.move !== "replay") throw new Error(`${move.move} is no replay`);
  const { from, to } = move;
  return (await requestReplayWithin(tx, { actor, hours: null, from, to, sinks: nodes })).replay_id;
};
