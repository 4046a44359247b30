// One job on the log with its progress by partition, and the token that writes the result of a
// comparison.
import type { PoolClient } from "pg";
import { pageOfRows } from "../../../infra/postgres/rows.ts";
import { missing } from "../../base/refusal.ts";
import { holdOfOperation } from "../../log/groups/group-holds.ts";
import { placeOf, readReplay } from "../../log/replays/replays.ts";
import type { Reprocess } from "./move.ts";
import { type MovePorts, stateAway } from "./move-request.ts";
import { type KeptPlan, moveRows } from "./moves.ts";
import { type MovePlanToken, PLAN_MS, planToken } from "./plan-token.ts";
import { digestOfReprocess, planIdOf } from "./reprocess-plan.ts";

export interface MoveRow {
  readonly plan: KeptPlan;
  readonly subject: string;
  readonly [field: string]: any;
}

/** Jobs belong to the operator, who is client 0. Throws RefusalError: missing. */
export const readMove = async (tx: PoolClient, operation_id: string, fields: readonly string[]): Promise<MoveRow> => {
  const reading = { names: [...fields, "plan", "subject"], sort: "created_at", clients: [0] };
  const { rows } = await pageOfRows(tx, moveRows({ operation_id }), reading, { limit: 1 });
  if (rows[0] === undefined) throw missing();
  return rows[0] as MoveRow;
};

/** The row in the form that this user may see. Throws Unavailable. */
export const moveView = async (ports: MovePorts, row: MoveRow, user_id: number) => {
  const { plan, subject: _, ...shown } = row;
  const partitions = await partitionsOf(ports, row).catch(stateAway);
  return { ...shown, ...writingOf(ports, row, user_id), partitions };
};

const NO_TOKEN = { plan_token: null, expires_at: null };

/** The plan that writes the differences of a comparison, while the comparison is fresh. */
const writingOf = (
  { planKeys }: Pick<MovePorts, "planKeys">,
  { id, request, finished_at, difference }: MoveRow,
  user_id: number,
): { readonly plan_token: string | null; readonly expires_at: number | null } => {
  if (difference === null || difference.decisions === 0) return NO_TOKEN;
  const expires_at: number = finished_at + PLAN_MS;
  if (expires_at < Date.now()) return NO_TOKEN;
  const move: Reprocess = { ...request, writes: { of: id, digest: difference.digest }, user_id };
  const token: MovePlanToken = {
    ...{ plan_id: planIdOf(id), user_id, expires_at, move, before: id },
    digest: digestOfReprocess(move),
  };
  return { plan_token: planToken(planKeys, token), expires_at };
};

/** The progress of a rewind is in the offsets of its group, that of a replay in its lane. */
const partitionsOf = async (ports: Pick<MovePorts, "pool" | "log">, row: MoveRow) => {
  const { plan, status, replay_id, move } = row;
  const { partitions } = plan;
  const isDone = status === "completed";
  if (replay_id !== null) {
    const { positions = {} } = (await readReplay(ports.pool, replay_id)) ?? {};
    return partitions.map((one) => ({ ...one, at: isDone ? one.to : (positions[placeOf(one)] ?? one.from) }));
  }
  if (isDone) return partitions.map((one) => ({ ...one, at: one.to }));
  // Their progress is a sum without partitions: `progress` has it.
  if (move === "relearn" || move === "reprocess" || partitions.length === 0)
    return partitions.map((one) => ({ ...one, at: null }));
  return rewound(ports, row);
};

const rewound = async ({ pool, log }: Pick<MovePorts, "pool" | "log">, { id, subject: group, plan }: MoveRow) => {
  const hold = await holdOfOperation(pool, id);
  const { topic } = plan.partitions[0]!;
  const moved =
    hold?.plan?.partitions
      .filter(({ committed, target }) => target < committed)
      .map(({ partition, committed, target }) => ({ topic, partition, from: target, to: committed })) ??
    plan.partitions;
  if (hold === null || hold.releasedAt === null) return moved.map((one) => ({ ...one, at: one.from }));
  const committed = await log(({ admin }) => admin.committed(group, topic)).catch(() => null);
  return moved.map((one) => ({
    ...one,
    at: committed && Math.min(one.to, Math.max(one.from, committed.get(one.partition) ?? one.from)),
  }));
};
