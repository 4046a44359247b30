// An event id that two orders bear belongs to the one that came first, also after a rebuild that
// reads the partitions in another order.
import { describe, expect, test } from "vitest";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import { letterHeaders } from "../../stream/dead-letters.ts";
import { partitionOf } from "../../stream/partitioner.ts";
import { inMemoryLog } from "../../stream/testing/in-memory-log.ts";
import { topics } from "../../topics.ts";
import { pipeline } from "../../topology.ts";
import { clientId, hourMs, noon } from "../support/builders.ts";
import { losingMemory, type Order, writtenBy } from "../support/losing-memory.ts";
import { clickBefore, knowing, purchase, refund, type Shop, shop, type Written } from "../support/shop.ts";
import { Killed, type World, worker, world } from "../support/world.ts";

const partitionOfOrder = (key: string): number =>
  partitionOf(Buffer.from(`${clientId}:${key}`), topics.claims.partitions);
const orders = Array.from({ length: 40 }, (_, n) => `o${n}`);
const orderOn = (partition: number): string => orders.find((name) => partitionOfOrder(`o:${name}`) === partition)!;
/** Two orders on the first and on the last partition of `claims`. */
const [low, high] = [orderOn(0), orderOn(topics.claims.partitions - 1)];

const svc_click_id = clickBefore(hourMs);
const bought = (order_id: string, over: Written = {}): Written =>
  purchase({ event_id: "p1", did: `device of ${order_id}`, svc_click_id, ...over }, { order_id });
/** Another order on the partition of this one. */
const beside = (order_id: string): string =>
  orders.find((name) => name !== order_id && partitionOfOrder(`o:${name}`) === partitionOfOrder(`o:${order_id}`))!;
const refundOf = (order_id: string): Written =>
  refund({ event_id: "p1", did: `device of ${order_id}`, ts: noon + 1 }, { order_id, amount: "40.00" });
const install: Written = { t: "install", ts: noon, cid: clientId, event_id: "i1", svc_click_id };
const ends = [topics.eventsAttributed, topics.conversions, topics.ledgerEntries];

const codes = (made: Shop): readonly string[] =>
  made.messages("s2s.dlq").map(({ headers }) => String(headers[letterHeaders.code]));

/** A shop whose memory of money can be lost. */
const fragile = () => {
  const { settings, lose } = losingMemory();
  const made = shop({}, settings);
  return {
    ...made,
    lose,
    rebuilt: (order: Order) =>
      writtenBy(made, ends, () => {
        lose(order);
        return made.rewind("settle");
      }),
  };
};

describe.each<Order>(["forwards", "backwards"])("memory is lost, and partitions are read %s", (order) => {
  test.each([
    ["two orders", [bought(low), bought(high)]],
    ["two orders, the other way round", [bought(high), bought(low)]],
    ["a sale and a refund of another order", [bought(low), bought(high, { event_id: "p2" }), refundOf(high)]],
    ["a refund and a sale of another order", [bought(high, { event_id: "p2" }), refundOf(high), bought(low)]],
    ["two orders, and the second is sent again", [bought(low), bought(high), bought(high), bought(high)]],
    ["an order that is sent again behind another one", [bought(low), bought(high), bought(low)]],
    ["three orders", [bought(high), bought(low), bought(orderOn(1))]],
  ])("%s under one id: what had been written is written again, and nothing else", async (_, events) => {
    const made = fragile();
    for (const [n, event] of events.entries()) await made.post([event], { receivedAt: noon + n });
    expect(new Set(codes(made))).toEqual(new Set(["id_conflict"]));
    const { before, again } = await made.rebuilt(order);
    expect(again).toEqual(before);
    const further = await made.rebuilt(order === "forwards" ? "backwards" : "forwards");
    expect(further.again).toEqual(before);
  });

  test("the dead letter of the second order still names the first one", async () => {
    const made = fragile();
    await made.post([bought(low)]);
    await made.post([bought(high)]);
    await made.rebuilt(order);
    const [first, ...later] = made.messages("s2s.dlq");
    expect(String(first!.headers[letterHeaders.message])).toContain(`of a purchase of order ${low}, 100.00 MXN`);
    expect(later).not.toEqual([]);
    for (const { headers, value } of later) {
      expect(headers[letterHeaders.message]).toEqual(first!.headers[letterHeaders.message]);
      expect(value).toEqual(first!.value);
    }
  });

  test("an event that says the same under another key is no conflict, and comes second too", async () => {
    const made = fragile();
    for (const [n, did] of ["phone", "tablet", "laptop", "watch", "car"].entries())
      await made.post([{ ...install, did }], { receivedAt: noon + n });
    expect(codes(made)).toEqual([]);
    expect(made.messages(topics.claimsTaken.name)).not.toEqual([]);
    const { before, again } = await made.rebuilt(order);
    expect(again).toEqual(before);
  });

  test("a worker that goes on when its memory is gone reads the records again", async () => {
    const made = fragile();
    await made.post([bought(low)]);
    await made.post([bought(high)]);
    const { before, again } = await writtenBy(made, ends, async () => {
      made.lose(order);
      // The next claim of a partition shows that its memory is lost.
      await made.post([bought(high, { event_id: "p3" })]);
    });
    const further = again.filter((message) => !before.includes(message));
    expect(further.map((message) => message.split(" ")[0])).toEqual([
      "conversions",
      "events.attributed",
      "ledger.entries",
    ]);
  });
});

describe("memory is lost before the second order has come", () => {
  test("the second waits as a dead letter until the first one has been read again", async () => {
    const made = fragile();
    await made.post([bought(low)]);
    made.lose("forwards");
    made.restart();
    const { before, again } = await writtenBy(made, ends, () => made.post([bought(high)]));
    expect([again, codes(made)]).toEqual([[], ["id_conflict"]]);
    // The next claim of its partition brings the first order back.
    const back = await writtenBy(made, ends, () => made.post([bought(beside(low), { event_id: "p2" })]));
    expect(back.again).toEqual(expect.arrayContaining([...before]));
    await made.post([bought(high)]);
    const [waited, compared] = made.messages("s2s.dlq").map(({ headers }) => String(headers[letterHeaders.message]));
    expect(waited).toContain("another order was settled under this event id");
    expect(compared).toContain(`that of a purchase of order ${low}`);
    expect((await made.rebuilt("backwards")).again).not.toEqual([]);
    expect(made.conversions().filter(({ order_id }) => order_id === high)).toEqual([]);
  });

  test("the first one itself, sent again, is decided as before", async () => {
    const made = fragile();
    await made.post([bought(low)]);
    made.lose("forwards");
    made.restart();
    const { before, again } = await writtenBy(made, ends, () => made.post([bought(low)]));
    expect([again, codes(made)]).toEqual([before, []]);
  });

  test("an order of another id does not wait", async () => {
    const made = fragile();
    await made.post([bought(low)]);
    made.lose("forwards");
    made.restart();
    await made.post([bought(high, { event_id: "p2" })]);
    expect(codes(made)).toEqual([]);
    expect(made.conversions().map(({ order_id }) => order_id)).toEqual([low, high]);
  });
});

describe("what it costs", () => {
  test("ids that one order has leave no record, however often they are sent", async () => {
    const made = shop();
    for (const n of [0, 1, 2])
      await made.post([bought(low), bought(high, { event_id: "p2" })], { receivedAt: noon + n });
    expect(made.messages(topics.claimsTaken.name)).toEqual([]);
  });

  test("two orders on one partition leave none: they are always read in one order", async () => {
    const [first, second] = orders.filter((name) => partitionOfOrder(`o:${name}`) === 2);
    const made = fragile();
    await made.post([bought(first!)]);
    await made.post([bought(second!)]);
    expect(codes(made)).toEqual(["id_conflict"]);
    expect(made.messages(topics.claimsTaken.name)).toEqual([]);
    const { before, again } = await made.rebuilt("backwards");
    expect(again).toEqual(before);
  });
});

describe("the record is a durable effect of its batch", () => {
  const claimsOf = async (...events: readonly Written[]): Promise<World> => {
    const made = shop();
    for (const event of events) await made.post([event]);
    const within = world();
    const all = Object.values(topics);
    const log = inMemoryLog(Object.fromEntries(all.map(({ name, partitions }) => [name, partitions])));
    log.append(made.messages(topics.claims.name).map(({ topic, key, value }) => ({ topic, key, value })));
    return { ...within, log, wire: inMemoryWire(all) };
  };
  const settling = (within: World, around?: (effect: string, when: "before" | "after") => void) =>
    worker(within, {
      hosting: ["settle"],
      topology: pipeline,
      read: knowing({}),
      ports: { deadLetters: pipeline.deadLetters },
      ...(around && { around }),
    });

  test("it is produced with the dead letter, behind memory and before the commit", async () => {
    const within = await claimsOf(bought(low), bought(high));
    await settling(within).step(0, 10);
    within.effects.length = 0;
    await settling(within).step(3, 10);
    expect(within.effects).toEqual([
      "load settle",
      "remember settle",
      "produce s2s.dlq,claims.taken",
      "commit 1",
      "count",
    ]);
  });

  test("a worker that dies before it is produced reads the claim again, and records it then", async () => {
    const within = await claimsOf(bought(low), bought(high));
    await settling(within).step(0, 10);
    const dying = settling(within, (effect, when) => {
      if (effect.startsWith("produce") && when === "before") throw new Killed();
    });
    await expect(dying.step(3, 10)).rejects.toBeInstanceOf(Killed);
    expect(within.log.all(topics.claimsTaken.name)).toEqual([]);
    await settling(within).step(3, 10);
    expect(within.log.all(topics.claimsTaken.name)).toHaveLength(1);
  });
});
