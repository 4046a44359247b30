// Claims as a worker reads them, and the parts that the money stages need to process them without a
// log.
import { derivedId } from "../../domain/ids.ts";
import { reference } from "../../domain/reference/reference.ts";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import type { Claim } from "../../schemas/generated.ts";
import { inMemory } from "../../stream/memory/in-memory.ts";
import type { Memory } from "../../stream/memory/memory.ts";
import type { Control, OutputMessage } from "../../stream/messages.ts";
import type { LogPorts, RunnerPorts } from "../../stream/ports.ts";
import { client, contract, longAgo, partner, partnerId, reads, referenceWith } from "../../tests/support/builders.ts";
import { sale } from "../../tests/support/money-builders.ts";
import { topics } from "../../topics.ts";
import { pipeline } from "../../topology.ts";

export const PARTNERS = 50;
const partners = Array.from({ length: PARTNERS }, (_, n) => partnerId + n);

const read = reads([
  reference,
  referenceWith({
    clients: [client()],
    partners: partners.map((partner_id) => partner({ partner_id })),
    contracts: partners.map((partner_id, n) =>
      contract({
        contract_id: n + 1,
        partner_id,
        effective_from: longAgo,
        currency: "MXN",
        cap: { period: "month", amount_minor: 10n ** 15n },
      }),
    ),
  }),
]);
const wire = inMemoryWire(Object.values(topics));

export const logPorts = (produce: (messages: readonly OutputMessage[]) => void): LogPorts => ({
  wire,
  produce: async (messages) => produce(messages),
  deadLetters: pipeline.deadLetters,
  deadLetter: ({ stage, code, message }) => {
    throw new Error(`${stage} refused a record of the bench: ${code}: ${message}`);
  },
  retry: (_, step) => step(),
  stops: async () => 1,
  log: { info: () => undefined, warn: () => undefined, error: () => undefined },
});

export const stagePorts = (durable: Memory, produce: (messages: readonly OutputMessage[]) => void): RunnerPorts => ({
  ...logPorts(produce),
  memories: { fast: inMemory("fast"), durable },
  read,
  count: () => undefined,
});

export const control: Control = {
  commit: async () => undefined,
  heartbeat: async () => undefined,
  isCurrent: () => true,
  seek: () => undefined,
  readOn: () => undefined,
  rest: () => undefined,
};

/** The n-th claim: a purchase in the form in which an edge admits it. */
export const claimOf = (
  n: number,
  { order, partner = partnerId }: { readonly order: string; readonly partner?: number },
): Buffer => {
  const made = sale({
    partner,
    event_id: derivedId("bench", String(n), "claim", 0),
    sender_event_id: `bench-${n}`,
    did: derivedId("bench", String(n), "device", 0),
    order_id: order,
    product_id: `sku-${n}`,
    url: `https://shop.example/catalogue/spring/product-${n % 500}?utm_source=newsletter&utm_campaign=spring-2026`,
    ref: "https://www.search.example/results?q=floor+lamp+with+shelf",
    ip: `203.0.113.${1 + (n % 250)}`,
    ua: "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0",
    value_minor: BigInt(10_000 + n),
    props: JSON.stringify({ order_id: order, product_id: `sku-${n}`, quantity: 1, currency: "MXN", revenue: "100.00" }),
  });
  const event = { ...made, position: { topic: topics.claims.name, partition: 0, offset: n } };
  return wire.encode<Claim>(topics.claims, event, null);
};
