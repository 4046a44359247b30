// The routes of jobs on the log (rewind, relearn, replay, reprocess): planned and stored here,
// carried out by a keeper.
import { planAgain, planRequest, startMove } from "../../../../modules/running/log-jobs/move-request.ts";
import { moveView, readMove } from "../../../../modules/running/log-jobs/move-view.ts";
import { moveRows } from "../../../../modules/running/log-jobs/moves.ts";
import { listOperations, planOperation, readOperation, startOperation } from "../../contract/system/operations.ts";
import { type ApiPorts, type Route, route } from "../../route.ts";

export const routes = (ports: Pick<ApiPorts, "pool" | "log" | "planKeys">): readonly Route[] => [
  route(planOperation, async ({ body, user, read }) => ({
    body: await planRequest(ports, read, body, user.user_id),
  })),

  route(startOperation, async ({ body, user, write }) => {
    const start = await planAgain(ports, body.plan_token, user);
    return write(
      (work) => startMove(work, start),
      (id) => ({ body: { id, status: "queued" }, headers: { Location: `/api/operations/${id}` } }),
    );
  }),

  route(listOperations, ({ list, query }) => list(moveRows(query))),

  route(readOperation, async ({ params, fields, read, user }) => {
    const row = await read((tx) => readMove(tx, params.id, fields));
    return { body: await moveView(ports, row, user.user_id) };
  }),
];
