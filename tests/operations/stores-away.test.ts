// Screens that read stores outside of a snapshot are unavailable while a store is away.
import { afterAll, expect, test } from "vitest";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { Unavailable } from "../../infra/runtime/errors.ts";
import type { ScopedRead } from "../../modules/base/work.ts";
import { eventView } from "../../modules/money/explain/event-view.ts";
import { planRequest } from "../../modules/running/log-jobs/move-request.ts";
import { moveView } from "../../modules/running/log-jobs/move-view.ts";
import { closedPort } from "../support/closed-port.ts";

const port = await closedPort();
const pool = openPool(`postgres://tributary@127.0.0.1:${port}/tributary`, { max: 1 });
const clickhouse = openClickhouse(`http://127.0.0.1:${port}`);
afterAll(() => Promise.all([clickhouse.close(), pool.end()]));

const read: ScopedRead = (work) => work(undefined as never, { clients: [7], isAll: false });
const plan = { nodes: [], records: 0, partitions: [], problem: null };
const ports = { pool, log: async () => plan as never, planKeys: [Buffer.alloc(32)] };
const replayed = { plan, subject: "", status: "running", difference: null, replay_id: "replay_1", move: "replay" };

test.each([
  ["an explanation", () => eventView({ clickhouse, pool }, read, { event_id: "evt" })],
  ["the plan of a job", () => planRequest(ports, read, { move: "relearn" } as never, 1)],
  ["the progress of a job", () => moveView(ports, replayed as never, 1)],
])("%s", (_, view) => expect(view()).rejects.toBeInstanceOf(Unavailable));
