// The routes of moves of the log: what the command line's rewind, relearn and replay do, planned
// here, kept, and carried out by a keeper.
import { randomUUID } from "node:crypto";
import { Problem } from "../../../../infra/http/problem.ts";
import { pageOfRows } from "../../../../infra/postgres/rows.ts";
import { holdOfOperation } from "../../../../modules/log/groups/group-holds.ts";
import { placeOf, readReplay, requestReplayWithin } from "../../../../modules/log/replays/replays.ts";
import type { Move, MovePlan, Reprocess } from "../../../../modules/running/log-jobs/move.ts";
import {
  askForMove,
  type KeptPlan,
  moveRows,
  newestMoveOf,
  openText,
  PlanRefused,
} from "../../../../modules/running/log-jobs/moves.ts";
import { planMove, UnknownTarget } from "../../../../modules/running/log-jobs/plan.ts";
import { type MovePlanToken, PLAN_MS, plannedIn, planToken } from "../../../../modules/running/log-jobs/plan-token.ts";
import { digestOfReprocess, planIdOf } from "../../../../modules/running/log-jobs/reprocess-plan.ts";
import { pipeline } from "../../../../topology.ts";
import { listOperations, planOperation, readOperation, startOperation } from "../../contract/system/operations.ts";
import { fault, notFound } from "../../request/accept.ts";
import { away } from "../../request/checked-request.ts";
import { type ApiPorts, type Ask, type Route, route } from "../../route.ts";

type Ports = Pick<ApiPorts, "pool" | "log" | "planKeys">;

export const routes = (ports: ApiPorts): readonly Route[] => [
  route(planOperation, (ask) => plan(ports, ask)),
  route(startOperation, (ask) => start(ports, ask)),
  route(listOperations, ({ list, query }) => list(moveRows(query))),
  route(readOperation, (ask) => show(ports, ask)),
];

const planned = async ({ pool, log }: Ports, move: Move): Promise<MovePlan> => {
  // A question that throws ends the connection, and with it the questions of others.
  const found = await log((sources) =>
    planMove({ pool, ...sources, topology: pipeline }, move, Date.now()).catch((error: unknown) => {
      if (error instanceof UnknownTarget) return error;
      throw error;
    }),
  );
  if (found instanceof UnknownTarget) throw fault("/target", "unknown_target", found.message);
  return found;
};

const moveOf = (body: Ask<typeof planOperation>["body"], now: number, user_id: number): Move => {
  if (body.move === "relearn") return body;
  if (body.move === "reprocess") {
    const { from, to = now, client_id = null, ...rest } = body;
    if (from >= to || to > now) throw fault("/from", "bad_range", "begin before the end, and end by now");
    return { ...rest, from, to, client_id, user_id, writes: null };
  }
  if (body.move === "replay") {
    const { move, target, from, to = null, reason } = body;
    if (from >= (to ?? now)) throw fault("/from", "bad_range", "begin before the end, and before now");
    return { move, sinks: target === undefined ? [] : [target], from, to, reason };
  }
  const { from, ...rest } = body;
  if (typeof from === "number" && from > now) throw fault("/from", "bad_range", "this time has not come yet");
  return { ...rest, from: typeof from === "number" ? new Date(from).toISOString() : from };
};

const plan = async (ports: Ports, { body, user, read }: Ask<typeof planOperation>) => {
  const now = Date.now();
  const move = moveOf(body, now, user.user_id);
  if (move.move === "reprocess" && move.client_id !== null) await checkClient({ read }, move.client_id);
  const found = await planned(ports, move);
  const { nodes, records, seconds, partitions, consequences, digest, subject } = found;
  const newest = await newestMoveOf(ports.pool, subject).catch(away);
  const problem = newest?.is_open ? openText(newest) : found.problem;
  const shown = { move: move.move, nodes, records, estimated_seconds: seconds, partitions, consequences, problem };
  if (problem !== null) return { body: { ...shown, plan_token: null, expires_at: null } };
  const expires_at = now + PLAN_MS;
  const before = newest?.operation_id ?? null;
  const token: MovePlanToken = { plan_id: randomUUID(), user_id: user.user_id, expires_at, move, digest, before };
  return { body: { ...shown, plan_token: planToken(ports.planKeys, token), expires_at } };
};

/** Throws Problem for a token that is no good any more, and for a state that has moved on. */
const start = async (ports: Ports, { body, user, write }: Ask<typeof startOperation>) => {
  const token = plannedIn(ports.planKeys, body.plan_token);
  // Another user's looks like none: a plan says what its user wants.
  if (token === undefined || token.user_id !== user.user_id)
    throw fault("/plan_token", "bad_plan_token", "take plan_token of a plan of your own");
  const found = await planned(ports, token.move);
  const operation_id = `op_${randomUUID()}`;
  return write(async ({ tx, audit }) => {
    const { move } = token;
    const asks = { operation_id, actor: user.email };
    await askForMove(tx, asks, token, () => {
      if (token.expires_at < Date.now()) throw stale("plan_expired", "this plan is older than ten minutes: plan again");
      if (found.problem !== null) throw stale("plan_outdated", found.problem);
      if (found.digest !== token.digest) throw stale("plan_outdated", "the log has moved on: plan again");
      return { plan: found, replay: () => replayOf(tx, move, found, user.email) };
    }).catch(planRefused);
    await audit({ action: "operation.asked", client_id: null, entity: `operation:${operation_id}`, after: move });
    const headers = { Location: `/api/operations/${operation_id}` };
    return { body: { id: operation_id, status: "queued" }, headers };
  });
};

const stale = (code: string, detail: string): Problem => new Problem("conflict", detail, { code });

const planRefused = (error: unknown): never => {
  if (!(error instanceof PlanRefused)) throw error;
  throw new Problem("conflict", error.message, { code: error.code, members: { operation_id: error.operation } });
};

const replayOf = async (
  tx: Parameters<typeof requestReplayWithin>[0],
  move: Move,
  { nodes }: MovePlan,
  actor: string,
): Promise<string> => {
  if (move.move !== "replay") throw new Error(`${move.move} is no replay`);
  const { from, to } = move;
  return (await requestReplayWithin(tx, { actor, hours: null, from, to, sinks: nodes })).replay_id;
};

/** Throws Problem 400. */
const checkClient = ({ read }: Pick<Ask, "read">, clientId: number): Promise<void> =>
  read(async (_tx, { clients }) => {
    if (!clients.includes(clientId)) throw fault("/client_id", "unknown", `no client has the id ${clientId}`);
  });

const show = async (ports: Ports, { params, fields, read, user }: Ask<typeof readOperation>) => {
  const row = await read(async (tx) => {
    const reading = { names: [...fields, "plan", "subject"], sort: "created_at", clients: [0] };
    const { rows } = await pageOfRows(tx, moveRows({ operation_id: params.id }), reading, { limit: 1 });
    if (rows[0] === undefined) throw notFound();
    return rows[0];
  });
  const { plan: kept, subject, ...shown } = row as { plan: KeptPlan; subject: string; [field: string]: any };
  const partitions = await partitionsOf(ports, { ...shown, ...kept, subject });
  return { body: { ...shown, ...writingOf(ports, shown, user.user_id), partitions } };
};

/** The plan that writes what a comparison found, while it is fresh. */
const writingOf = (
  { planKeys }: Ports,
  { id, request, finished_at, difference }: Readonly<Record<string, any>>,
  user_id: number,
): { readonly plan_token: string | null; readonly expires_at: number | null } => {
  const none = { plan_token: null, expires_at: null };
  if (difference === null || difference.decisions === 0) return none;
  const expires_at: number = finished_at + PLAN_MS;
  if (expires_at < Date.now()) return none;
  const writes = { of: id as string, digest: difference.digest as string };
  const move: Reprocess = { ...request, writes, user_id };
  const token: MovePlanToken = {
    ...{ plan_id: planIdOf(id), user_id, expires_at, move, before: id },
    digest: digestOfReprocess(move),
  };
  return { plan_token: planToken(planKeys, token), expires_at };
};

interface OperationRow extends KeptPlan {
  readonly subject: string;
  readonly [field: string]: any;
}

/** How far each partition is: of a rewind by the offsets of its group, of a replay by its lane. */
const partitionsOf = async ({ pool, log }: Ports, row: OperationRow) => {
  const { partitions, status, replay_id, move, id, subject } = row;
  if (replay_id !== null) {
    const { positions = {} } = (await readReplay(pool, replay_id)) ?? {};
    return partitions.map((one) => ({
      ...one,
      at: status === "completed" ? one.to : (positions[placeOf(one)] ?? one.from),
    }));
  }
  if (status === "completed") return partitions.map((one) => ({ ...one, at: one.to }));
  // No offset of a group says it; the sum is in `progress`.
  if (move === "relearn" || move === "reprocess" || partitions.length === 0)
    return partitions.map((one) => ({ ...one, at: null }));
  return rewound({ pool, log }, id, subject, partitions);
};

const rewound = async (
  { pool, log }: Pick<Ports, "pool" | "log">,
  id: string,
  group: string,
  planned: KeptPlan["partitions"],
) => {
  const hold = await holdOfOperation(pool, id);
  const { topic } = planned[0]!;
  const moved =
    hold?.plan?.partitions
      .filter(({ committed, target }) => target < committed)
      .map(({ partition, committed, target }) => ({ topic, partition, from: target, to: committed })) ?? planned;
  if (hold === null || hold.releasedAt === null) return moved.map((one) => ({ ...one, at: one.from }));
  const committed = await log(({ admin }) => admin.committed(group, topic)).catch(() => null);
  return moved.map((one) => ({
    ...one,
    at: committed && Math.min(one.to, Math.max(one.from, committed.get(one.partition) ?? one.from)),
  }));
};
