// Computes what a decision would move, by running settle and commission on a copy of their memory,
// as `reprocess` does.
import type pg from "pg";
import { toDecimal } from "../../../../domain/money.ts";
import { reference } from "../../../../domain/reference/reference.ts";
import { openRegistry } from "../../../../infra/avro/registry.ts";
import { openWire } from "../../../../infra/avro/wire.ts";
import { postgresMemory } from "../../../../infra/postgres/durable-memory.ts";
import { openReference, readOf } from "../../../../modules/catalog/reference/reference.ts";
import { decisionMessages } from "../../../../modules/money/decisions/decision-messages.ts";
import { earnedBy } from "../../../../modules/money/orders/order-lines.ts";
import { moneyOf } from "../../../../modules/money/reprocess/money.ts";
import type { Claim } from "../../../../schemas/generated.ts";
import { topics } from "../../../../topics.ts";
import { pipeline } from "../../../../topology.ts";
import { addresses } from "../../config.ts";

/** The commission of a partner in one currency, in decimals, on the lines of the decision. */
export interface MoneyBefore {
  readonly partner_id: number;
  readonly currency: string;
  readonly before: string;
  readonly change: string;
  readonly after: string;
}

/**
 * Returns the earnings of each partner from these events, now and after the decision, including
 * unchanged ones.
 */
export const decidedMoney = async (
  pool: pg.Pool,
  clientId: number,
  eventIds: readonly string[],
  claim: Claim,
): Promise<readonly MoneyBefore[]> => {
  const { registryUrl, topicPrefix } = addresses();
  const wire = await openWire(Object.values(topics), openRegistry({ url: registryUrl, topicPrefix }));
  const known = openReference(pool);
  try {
    const read = readOf({ [reference.view]: known.source });
    const ports = { topology: pipeline, wire, memory: postgresMemory(pool), read };
    const { moved } = await moneyOf(
      ports,
      decisionMessages(wire, [claim]).map((message) => ({ message })),
    );
    const sums = new Map<string, { partner_id: number; currency: string; before: bigint; change: bigint }>();
    const add = (partner_id: number, currency: string, before: bigint, change: bigint): void => {
      const key = `${partner_id} ${currency}`;
      const own = sums.get(key) ?? { partner_id, currency, before: 0n, change: 0n };
      sums.set(key, { ...own, before: own.before + before, change: own.change + change });
    };
    for (const one of await earnedBy(pool, clientId, eventIds)) add(one.partner_id, one.currency, one.amount_minor, 0n);
    for (const one of moved) add(one.partner_id, one.currency, 0n, one.commission_minor);
    return [...sums.values()]
      .sort((a, b) => a.partner_id - b.partner_id)
      .map(({ partner_id, currency, before, change }) => ({
        ...{ partner_id, currency, before: toDecimal(before, currency) },
        ...{ change: toDecimal(change, currency), after: toDecimal(before + change, currency) },
      }));
  } finally {
    await known.close();
  }
};
