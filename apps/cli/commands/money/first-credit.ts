// Finds how a sale was credited when it came, before a person decided about it: the store of events
// keeps the newest version alone, the topic of claims keeps every claim for ever.
import { peek } from "../../../../infra/kafka/kafka.ts";
import type { Explanation } from "../../../../modules/money/explain/explanation.ts";
import type { Claim, Credit, Fraud } from "../../../../schemas/generated.ts";
import { partitionOf } from "../../../../stream/partitioner.ts";
import { topics } from "../../../../topics.ts";
import { kafkaOf, wireOf, withAdmin } from "../../connections.ts";
import { decoded } from "../../readable.ts";

/** Version 1 of an event: the credit and the fraud that it was stored with first. */
export interface FirstCredit {
  readonly credit: Credit;
  readonly fraud: Omit<Fraud, "hints">;
  readonly value_minor: bigint | null;
  readonly currency: string | null;
}

/** Clocks of brokers and edges differ. */
const EARLIER_MS = 60_000;
/** A sale's claim is appended within moments of its receipt, unless something stood. */
const MOST_READ = 5_000;

/** Null when it is not among the claims that followed the receipt. Throws when the log is away. */
export const firstCreditOf = async ({ client, event_id, order }: Explanation): Promise<FirstCredit | null> => {
  const own = (order?.lines ?? []).filter((line) => line.event_id === event_id);
  if (order === null || own.length === 0) return null;
  const topic = topics.claims;
  const key = `${client.client_id}:${order.order_key}`;
  const partition = partitionOf(Buffer.from(key), topic.partitions);
  const since = Math.min(...own.map(({ received_at }) => received_at)) - EARLIER_MS;
  const from = await withAdmin((admin) => admin.offsetsAt(topic.name, since));
  const records = await peek(kafkaOf(), {
    ...{ topic: topic.name, count: MOST_READ },
    from: new Map([[partition, from.get(partition) ?? 0]]),
  });
  const wire = await wireOf([topic]);
  for (const record of records) {
    if (record.key?.toString() !== key) continue;
    const { kind, attributed }: Claim = (await decoded(wire, topic, record)).data;
    if (kind === "decision" || attributed.event.event_id !== event_id) continue;
    const { credit, event } = attributed;
    const { score, band, reasons } = attributed.fraud;
    return { credit, fraud: { score, band, reasons }, value_minor: event.value_minor, currency: event.currency };
  }
  return null;
};
