// Ids of events are made from what was sent, so that an event that is stored keeps its id though
// ids now have one spelling.
import { expect, test } from "vitest";
import { identifyFor, pepperOf } from "../../domain/device-id.ts";
import { contentEventId, leadIdOf, leadSubject } from "../../domain/ids.ts";
import { readMapping } from "../../domain/sources/map-payload.ts";
import { acceptsBatch, admitBatch } from "../../processors/admit/batch.ts";
import { admitLead } from "../../processors/admit/outbox/lead.ts";
import { admitPulled } from "../../processors/admit/sources/pulled-row.ts";
import { emptyOrder, type OrderState } from "../../processors/settle/order.ts";
import { moveToOrder, refundsOfBefore } from "../../processors/settle/refund-claim.ts";
import { settle } from "../../processors/settle/settle.ts";
import { waitingOf } from "../../processors/settle/waiting-items.ts";
import { topics } from "../../topics.ts";
import { clientId, noon, recorded } from "../support/builders.ts";
import { refund, sale } from "../support/money-builders.ts";

const identify = identifyFor(pepperOf("the secret of an installation", clientId), 100);
const facts = { clientId, segments: [], consentDefault: 255, isClientSide: false, identify };
const ZERO_WIDTH = "A\u200b-1";

test("an event without an id of its own has that of before, whatever its device and order are spelled like", () => {
  const props = { order_id: ` ${ZERO_WIDTH}`, product_id: " a", revenue: 10, quantity: 1 };
  const body = JSON.stringify({ events: [{ t: "purchase", ts: noon, cid: clientId, did: " phone ", props }] });
  const arrival = { receivedAt: noon, sender: "1", address: null, header: () => undefined };
  const [admitted] = [...admitBatch(acceptsBatch(Buffer.from(body)), arrival, facts)];
  if (admitted?.kind !== "accepted") throw new Error(JSON.stringify(admitted));
  expect(admitted.data).toMatchObject({ did: identify.plain("phone"), order_id: "A-1", product_id: "a" });
  const said = { client_id: clientId, t: "purchase", custom_name: null, ts: noon, url: null };
  const before = { ...said, did: identify.plain(" phone "), order_id: ZERO_WIDTH };
  expect(admitted.id).toBe(contentEventId({ ...before, props: JSON.parse(admitted.data.props) }));
});

const names = {
  event_name: "event",
  value: "value",
  ts: "at",
  order_id: "order",
  dedup_key: "key",
  product_id: "item",
};
const from = { sourceId: 7, mapping: readMapping({ mapping: names, constants: {}, event_names: {} }) };
const pulled = (given: object) => {
  const row = admitPulled(
    from,
    noon,
    facts,
  )({ event: "ext_purchase", value: 10, at: "2026-06-15T18:00:00Z", ...given });
  if (row.kind === "refused") throw new Error(JSON.stringify(row.refusal));
  return row;
};
test("two spellings of a pulled row are two events, as they were before, and meet by their key", () => {
  const [plain, other] = [pulled({ order: "A-1", item: "a" }), pulled({ order: ZERO_WIDTH, item: "a\u200b" })];
  expect(other.event.event_id).not.toBe(plain.event.event_id);
  expect(other.event.sale_hash).toBe(plain.event.sale_hash);
  expect(plain.event.sale_hash).toBe(plain.saleHash);
  expect([plain.hashBefore, other.hashBefore]).toEqual([null, null]);
});
test("rows whose order id is a placeholder differ by their key, and are known as before too", () => {
  const [one, two, alone] = [
    pulled({ order: "n/a", key: "1" }),
    pulled({ order: "n/a", key: "2" }),
    pulled({ order: "n/a" }),
  ];
  expect(one.event.event_id).not.toBe(two.event.event_id);
  // A row that was pulled before had the hash of its placeholder, as one without a key still has.
  expect([one.hashBefore, two.hashBefore, alone.hashBefore]).toEqual([alone.saleHash, alone.saleHash, null]);
});

test("a lead whose id is spelled otherwise is that lead, and names the one that may be stored since before", () => {
  const subjectsOf = (client_lead_id: string) => {
    const admitted = admitLead({ client_lead_id }, noon, facts);
    if (admitted.kind === "refused") throw new Error(JSON.stringify(admitted.refusal));
    return admitted.subjects;
  };
  expect(subjectsOf("L-1")).toMatchObject({ lead_before: null });
  expect(subjectsOf(" L-1")).toEqual({
    ...subjectsOf("L-1"),
    lead_before: leadIdOf(clientId, leadSubject(" L-1")),
  });
  expect(admitLead({ client_lead_id: " n/a " }, noon, facts)).toMatchObject({ refusal: { code: "bad_lead_id" } });
});

const next = (claim: Parameters<typeof settle>[0], state: OrderState): OrderState => {
  const outcome = settle(claim, state, null);
  if (outcome.kind !== "emit") throw new Error(outcome.kind);
  return outcome.state as OrderState;
};
const refundedIn = ({ lines }: OrderState) => lines.map(({ refunded_minor }) => refunded_minor);

test("a refund finds the order that was stored with an invisible character", () => {
  const key = `o:${ZERO_WIDTH}`;
  const sold = next(sale({ order_id: ZERO_WIDTH, product_id: "a" }), emptyOrder);
  const props = JSON.stringify({ order_id: ZERO_WIDTH });
  const asked = refund({ order_id: "A-1", product_id: "a", value_minor: 30_00n, props });
  const waiting = next(asked, emptyOrder);
  expect(waitingOf(waiting, noon)).toMatchObject([{ kind: "refund", reason: "no_sale" }]);
  const [stray] = refundsOfBefore(waiting, "o:A-1");
  expect(stray).toMatchObject({ order_key: key, refund: { event_id: asked.id } });
  const place = { client_id: clientId, order_key: "o:A-1" };
  const [there, leaves] = moveToOrder(place, stray!.refund, key, noon).map((data) => recorded(topics.claims, data));
  const moved = next(there!, sold);
  expect(refundedIn(moved)).toEqual([30_00n]);
  expect(waitingOf(next(leaves!, waiting), noon)).toEqual([]);
  // It stays there, and takes once.
  expect(refundsOfBefore(moved, key)).toEqual([]);
  expect(refundedIn(next(there!, moved))).toEqual([30_00n]);
});

test("and looks nowhere else: not for a plain id, a placeholder, or one that met its sale", () => {
  const waits = (sent: string | number, order_id: string) =>
    refundsOfBefore(next(refund({ order_id, props: JSON.stringify({ order_id: sent }) }), emptyOrder), `o:${order_id}`);
  expect(waits("A-1", "A-1")).toEqual([]);
  expect(waits(" A-1 ", "A-1")).toEqual([]);
  expect(waits(7, "7")).toEqual([]);
  expect(waits("0\u200b0", "00")).toEqual([]);
  const props = JSON.stringify({ order_id: ZERO_WIDTH });
  const met = next(refund({ order_id: "A-1", props }), next(sale({ order_id: "A-1" }), emptyOrder));
  expect(refundsOfBefore(met, "o:A-1")).toEqual([]);
});
