// Asks the index of claims for the orders of a window, once it holds every claim that was in the
// log at the beginning.
import { setTimeout as sleep } from "node:timers/promises";
import type { Clickhouse } from "../../../../infra/clickhouse/client.ts";
import { scopeOf } from "../../../../infra/clickhouse/query.ts";
import type { Admin } from "../../../../infra/kafka/kafka.ts";
import { CommandRefused } from "../../../../infra/runtime/command-errors.ts";
import {
  claimsOfOrders,
  inOrder,
  type NumberedOrder,
  ordersReceived,
} from "../../../../sinks/claim-positions/reads.ts";
import { claimPositions } from "../../../../sinks/claim-positions/table.ts";
import { sinkInto } from "../../../../stream/topology.ts";
import { pipeline } from "../../../../topology.ts";
import type { Hosts } from "../../../log/groups/hosts.ts";
import type { Progress } from "../log/stretches.ts";
import type { IndexedClaims, ReceiptWindow } from "../ports.ts";

export const indexing = sinkInto(pipeline, claimPositions);

const ASKED_EVERY_MS = 500;
/** Longest wait without any progress of the index. */
const PATIENCE_MS = 20_000;

export interface IndexState {
  readonly admin: Pick<Admin, "watermarks" | "committed">;
  readonly hosts: Hosts;
}
export interface IndexWait {
  /** The number of rows in the index. */
  readonly sizeOf: () => Promise<number>;
  readonly progress: (unit: string) => Progress;
  readonly patienceMs?: number;
}

/**
 * Claims that are dead letters or of erased subjects are in no row. More than these parts of all
 * claims are not missing for such a reason.
 */
const LACKING = { part: 0.01, few: 100 };

/**
 * Resolves when the index has read every claim that is in the log now. Throws CommandRefused with
 * the cure when it stands, or has lost rows.
 */
export const untilIndexed = async (
  { admin, hosts }: IndexState,
  { sizeOf, progress, patienceMs = PATIENCE_MS }: IndexWait,
): Promise<void> => {
  const { group, topic } = hosts(indexing);
  const marks = await admin.watermarks(topic);
  const total = marks.reduce((sum, { low, high }) => sum + high - low, 0);
  const tell = progress("claims in the index");
  let most = -1;
  for (let moved = performance.now(); ; await sleep(ASKED_EVERY_MS)) {
    const committed = await admin.committed(group, topic);
    const done = marks.reduce(
      (sum, { partition, low, high }) => sum + Math.min(high, Math.max(low, committed.get(partition) ?? low)) - low,
      0,
    );
    if (done >= total) {
      if (most !== -1) tell.done();
      return refuseLacking(total, await sizeOf());
    }
    if (done > most) [most, moved] = [done, performance.now()];
    tell.at(done, total);
    if (performance.now() - moved > patienceMs)
      throw new CommandRefused(
        `the index of claims stands at ${done} of ${total} claims: host the sink ${indexing.name} ` +
          `(tributary groups: ${group}), and run this again once its lag is 0`,
      );
  }
};

/** Offsets say what was read, and not what a store has lost since. */
const refuseLacking = (claims: number, rows: number): void => {
  const lacking = claims - rows;
  if (lacking > LACKING.few && lacking > claims * LACKING.part)
    throw new CommandRefused(
      `the index of claims has ${rows} rows for ${claims} claims; fill it again: ` +
        `tributary rewind ${indexing.name} --to earliest`,
    );
};

const nameOf = ({ client_id, order_hash }: NumberedOrder): string => `${client_id} ${order_hash}`;

/** The claims of every order that has a conversion in the window. */
export const indexedClaims = async (
  clickhouse: Clickhouse,
  clients: readonly number[],
  window: Pick<ReceiptWindow, "from" | "to">,
): Promise<IndexedClaims> => {
  if (clients.length === 0) return { orders: 0, claims: [] };
  const scope = scopeOf(...clients);
  const orders = await ordersReceived(clickhouse, scope, window);
  const names = new Set(orders.map(nameOf));
  const found = await claimsOfOrders(clickhouse, scope, orders);
  return {
    orders: orders.length,
    claims: inOrder(found.filter((one) => names.has(nameOf(one)))).map((one) => ({
      ...{ partition: one.log_partition, offset: one.log_offset },
      ...{ receivedAt: one.received_at, isConversion: one.is_conversion },
    })),
  };
};
