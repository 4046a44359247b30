// Waiting claims are found in all orders in Postgres, for one client or for all, page by page.
import { afterAll, expect, test } from "vitest";
import { packed } from "../../infra/postgres/packed-values.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { countWaiting, waitingOrders } from "../../modules/money/orders/waiting-items.ts";
import { keysOfOrder, order, orderMemory } from "../../processors/settle/memory.ts";
import { emptyOrder } from "../../processors/settle/order.ts";
import { settle } from "../../processors/settle/settle.ts";
import type { Claim } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { hourMs, noon } from "../support/builders.ts";
import { decide, refund, sale } from "../support/money-builders.ts";
import { bytesOf } from "../support/remembered.ts";
import { sharedStack } from "../support/shared-stack.ts";

const pool = openPool(sharedStack().env.POSTGRES_URL!);
afterAll(() => pool.end());
const tenant = 600_000_000 + (Date.now() % 1_000_000) * 100;
const later = noon + 72 * hourMs;

/** Stores it in parts if `memory` says so. */
const remember = async (key: string, claim: Recorded<Claim>, memory = order): Promise<number> => {
  const outcome = settle(claim, emptyOrder, null);
  if (outcome.kind !== "emit") throw new Error(`settle emits, this one was a ${outcome.kind}`);
  const changes = bytesOf(memory, keysOfOrder(key), emptyOrder, outcome.state);
  for (const change of changes)
    await pool.query(
      `insert into memory_state (stage, key, version, event_id, topic, partition, "offset", value)
       values ('settle', $1, 1, $2, 'claims', 0, 0, $3)`,
      [change.key, claim.id, packed(change.value)],
    );
  return changes.length;
};
const listed = async (clientId?: number) => {
  const found = [];
  for await (const one of waitingOrders(pool, later, clientId === undefined ? {} : { clientId })) found.push(one);
  return found.filter(({ client_id }) => client_id === tenant || client_id === tenant + 1);
};

test("refunds, decisions and held lines are listed with their age and reason, and what is settled is not", async () => {
  await remember(`${tenant}:o:held`, sale({ band: "review" }));
  await remember(`${tenant}:o:paid`, sale());
  expect(await remember(`${tenant}:o:parts`, sale({ band: "review" }), orderMemory(0))).toBe(2);
  await remember(`${tenant}:o:refund`, refund({ value_minor: 5_00n, receivedAt: noon + hourMs }));
  await remember(`${tenant + 1}:o:decided`, decide("take_back"));
  await remember(`${tenant}:o:none`, sale({ url: 'https://shop.example/?x="review":"' }));

  expect((await listed(tenant)).map(({ order_key, kind, reason, since }) => [order_key, kind, reason, since])).toEqual([
    ["o:held", "held", "fraud_review", noon],
    ["o:parts", "held", "fraud_review", noon],
    ["o:refund", "refund", "no_sale", noon + hourMs],
  ]);
  expect((await listed()).map(({ kind }) => kind)).toEqual(["held", "held", "refund", "decision"]);

  const counts = await countWaiting(pool, later, () => false);
  expect(counts.map(({ kind }) => kind)).toEqual(["refund", "refund_twice", "decision", "held", "void"]);
  expect(counts.find(({ kind }) => kind === "refund")!.count).toBeGreaterThanOrEqual(1);
  expect(counts.find(({ kind }) => kind === "held")!.seconds).toBeGreaterThanOrEqual(72 * 3_600);
});
