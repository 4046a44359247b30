// Refunds that name an event, of a sale, a lead or an install, for every key and in both orders of
// arrival.
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { pageEventId, sentEventId, sharedEventId } from "../../domain/ids.ts";
import { toDecimal, toMinor } from "../../domain/money.ts";
import { refundedEventOf } from "../../domain/refunds.ts";
import { emptyOrder, type OrderState, rowOf } from "../../processors/settle/order.ts";
import { moveClaims, strayRefunds } from "../../processors/settle/refund-claim.ts";
import { settle } from "../../processors/settle/settle.ts";
import { waitingOf } from "../../processors/settle/waiting-items.ts";
import type { Claim, Conversion, EventAttributed } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { topics } from "../../topics.ts";
import { clientId, contract, hourMs, noon, recorded } from "../support/builders.ts";
import { pixelSale, refund, sale } from "../support/money-builders.ts";
import { admit, clickBefore, pageView, purchase, refund as refundEvent, shop } from "../support/shop.ts";

const idOf = (name: string): string => sentEventId(clientId, name);
const pageIdOf = (name: string): string => pageEventId(clientId, name);

/** Settle with the memory of all keys, and the keeper's look-up of stray refunds. */
const settling = () => {
  const states = new Map<string, OrderState>();
  const seen = new Set<string>();
  const rows: EventAttributed[] = [];
  const conversions: Conversion[] = [];
  const stateOf = (key: string): OrderState => states.get(key) ?? emptyOrder;
  const meet = (claim: Recorded<Claim>): void => {
    if (seen.has(claim.id)) return;
    seen.add(claim.id);
    const outcome = settle(claim, stateOf(claim.data.order_key), null);
    if (outcome.kind !== "emit") throw new Error(`settle emits, this was a ${outcome.kind}`);
    states.set(claim.data.order_key, outcome.state);
    for (const emit of outcome.events) {
      if (emit.output === "attributed") rows.push(emit.data);
      else conversions.push(emit.data);
    }
  };
  const lineOf = (eventId: string) =>
    [...states].flatMap(([order_key, { lines }]) =>
      lines
        .filter((line) => {
          const names = [line.event_id, sharedEventId(rowOf(line).event), ...line.copied];
          return names.includes(eventId);
        })
        .map((line) => ({
          order_key,
          event_id: line.event_id,
          order_id: rowOf(line).event.order_id,
        })),
    )[0];
  return {
    meet,
    rows,
    conversions,
    /** The process dies after `only` of the claims of each refund. */
    lookUp: (now = noon, only = 2): void => {
      for (const [order_key, state] of [...states])
        for (const stray of strayRefunds(state)) {
          const to = lineOf(stray.line_event_id!);
          const claims = to === undefined ? [] : moveClaims({ client_id: clientId, order_key }, stray, to, now);
          for (const data of claims.slice(0, only)) meet(recorded(topics.claims, data, { at: now }));
        }
    },
    waiting: (now = noon) =>
      [...states].flatMap(([key, state]) =>
        waitingOf(state, now).map(({ kind, reason }) => `${key.slice(0, 2)} ${kind} ${reason}`),
      ),
    left: (): string => {
      const left = new Map<string, bigint>();
      for (const { event_id, kind, value_minor } of conversions)
        left.set(event_id, (left.get(event_id) ?? 0n) + (kind === "credited" ? value_minor : -value_minor));
      return JSON.stringify([...left].sort().map(([id, minor]) => [id, minor.toString()]));
    },
    isReversed: (eventId: string): boolean =>
      [...states.values()].some(({ lines }) =>
        lines.some(({ event_id, status }) => event_id === eventId && status === "reversed"),
      ),
  };
};

const refundOf = (name: string, said: Parameters<typeof refund>[0] = {}) =>
  refund({
    ...{ order_id: null, order_key: `e:${idOf(name)}`, line_event_id: idOf(name) },
    props: JSON.stringify({ refunded_event_id: name }),
    ...said,
  });

const page = readFileSync(new URL("../../docs/design/money.md", import.meta.url), "utf8");
const examples = (page.split("| claims, as they come | what is left | what waits |\n")[1] ?? "")
  .split("\n")
  .slice(1)
  .filter((line) => line.startsWith("|"))
  .map((line) =>
    line
      .slice(1, -1)
      .split("|")
      .map((cell) => cell.trim()),
  );

const minorOf = (text: string | undefined): bigint | null => {
  const amount = text === undefined || text === "all" ? null : toMinor(text, "MXN");
  if (amount?.kind === "bad_amount") throw new Error(`${text}: ${amount.why}`);
  return amount === null ? null : amount.minor;
};
/** `lead l1 100`, `sale s1 100 copy of p1`, `refund of s1 30 in o2`. */
const claimIn = (text: string): Recorded<Claim> => {
  const order = / in (\w+)/.exec(text)?.[1];
  const [what, name, third, fourth] = text.split(" ") as [string, string, string, string?];
  if (what === "refund") {
    const where = order === undefined ? {} : { order_id: order, order_key: `o:${order}` };
    return refundOf(third, { value_minor: minorOf(fourth), ...where });
  }
  const [event_id, value_minor] = [idOf(name), minorOf(third)];
  const product_id = / copy of (\w+)/.exec(text)?.[1] ?? name;
  const given = { event_id, value_minor, product_id };
  if (what === "sale") return sale(given);
  if (what === "pixel") return pixelSale(given);
  const alone = { ...given, order_id: null, product_id: null };
  if (what === "page") {
    const ofPage = { event_id: pageIdOf(name), sender_event_id: name, order_key: `e:${event_id}` };
    return pixelSale({ ...alone, ...ofPage, t: "custom", custom_name: "trial" });
  }
  if (what === "trial") return sale({ ...alone, t: "custom", custom_name: what, order_key: `e:${event_id}` });
  return what === "lead"
    ? sale({ ...alone, t: "lead_submit", order_key: `l:${name}` })
    : sale({ ...alone, t: "install", order_key: `i:${name}` });
};

describe("the examples of docs/design/money.md", () => {
  test("are read", () => expect(examples.length).toBeGreaterThan(10));
  test.each(examples)("%s leaves %s", (claims, left, waits) => {
    const world = settling();
    const texts = claims!.split("; ");
    for (const text of texts)
      if (text === "look-up") world.lookUp();
      else world.meet(claimIn(text));
    const names = new Map(
      texts.flatMap((text) => {
        const name = text.split(" ")[1] ?? "";
        return [idOf(name), pageIdOf(name)].map((id) => [id, name] as const);
      }),
    );
    const sums = (JSON.parse(world.left()) as [string, string][])
      .filter(([, minor]) => minor !== "0")
      .map(([id, minor]) => `${names.get(id)} ${toDecimal(BigInt(minor), "MXN")}`);
    expect(sums.sort().join("; ") || "nothing").toBe(left);
    expect(
      world
        .waiting(noon + 49 * hourMs)
        .map((text) => text.slice(3))
        .join("; ") || "nothing",
    ).toBe(waits);
  });
});

const sold = {
  "a sale of an order": sale({ event_id: idOf("s"), order_key: "o:o1" }),
  "a lead": sale({ event_id: idOf("s"), t: "lead_submit", order_id: null, product_id: null, order_key: "l:k" }),
  "an install": sale({ event_id: idOf("s"), t: "install", order_id: null, value_minor: null, order_key: "i:d1" }),
  "a custom sale without an order": sale({
    ...{ event_id: idOf("s"), t: "custom", custom_name: "trial", order_id: null, order_key: `e:${idOf("s")}` },
  }),
  "a sale of a source with keys of its own": sale({ event_id: idOf("s"), order_id: null, order_key: "s:shop:77" }),
};

describe("a refund that names an event", () => {
  test.each(Object.entries(sold))("takes back %s, whichever comes first", (_, sale) => {
    for (const claims of [
      [sale, refundOf("s")],
      [refundOf("s"), sale],
    ]) {
      const world = settling();
      for (const claim of claims) world.meet(claim);
      world.lookUp();
      expect(world.isReversed(idOf("s"))).toBe(true);
      expect(world.waiting()).toEqual([]);
    }
  });

  test("of a copy takes from the line that the first copy made", () => {
    const world = settling();
    world.meet(pixelSale({ event_id: idOf("p"), order_key: "o:o1" }));
    world.meet(sale({ event_id: idOf("s"), order_key: "o:o1" }));
    world.meet(sale({ product_id: "sku2", order_key: "o:o1" }));
    world.meet(refundOf("s", { order_id: "o1", order_key: "o:o1", value_minor: 30_00n }));
    expect(
      JSON.parse(world.left())
        .map(([, minor]: [string, string]) => minor)
        .sort(),
    ).toEqual(["10000", "7000"]);
    expect(JSON.parse(world.left())).toContainEqual([idOf("p"), "7000"]);
  });

  const inOrder = { order_id: "o1", order_key: "o:o1" };

  test("of a copy keeps what it took, however many copies come behind it", () => {
    const world = settling();
    world.meet(sale({ event_id: idOf("s"), ...inOrder }));
    world.meet(pixelSale({ event_id: idOf("p"), ...inOrder }));
    world.meet(refundOf("p", { ...inOrder, value_minor: 30_00n }));
    for (let n = 0; n < 25; n++) world.meet(pixelSale(inOrder));
    expect(world.left()).toBe(JSON.stringify([[idOf("s"), "7000"]]));
    expect(world.waiting()).toEqual([]);
  });

  test("finds the line of a copy that comes after it, and more than 48 h after the sale", () => {
    const world = settling();
    world.meet(refundOf("p", { ...inOrder, value_minor: 30_00n }));
    world.meet(sale({ event_id: idOf("s"), ...inOrder }));
    world.meet(pixelSale({ event_id: idOf("p"), ...inOrder, receivedAt: noon + 49 * hourMs }));
    expect(world.left()).toBe(JSON.stringify([[idOf("s"), "7000"]]));
    expect(world.rows.at(-1)).toMatchObject({ event: { event_id: idOf("s") }, refunded_minor: 30_00n });
  });

  test("of a copy of the whole order takes from all its lines, also from one that it came too late for", () => {
    const world = settling();
    world.meet(sale({ event_id: idOf("a"), product_id: "a", ...inOrder }));
    world.meet(sale({ event_id: idOf("b"), product_id: "b", ...inOrder, receivedAt: noon + 40 * hourMs }));
    const late = noon + 60 * hourMs;
    world.meet(pixelSale({ event_id: idOf("p"), product_id: null, ...inOrder, receivedAt: late }));
    world.meet(refundOf("p", { ...inOrder, value_minor: 30_00n, receivedAt: late }));
    expect(JSON.parse(world.left()).map(([, minor]: [string, string]) => minor)).toEqual(["8500", "8500"]);
  });

  test("and one that names the product are one refund under one refund_id, whatever comes first", () => {
    const said = { ...inOrder, value_minor: 30_00n };
    const byEvent = (name: string, refund_id = "R1") =>
      refundOf(name, { ...said, props: JSON.stringify({ refunded_event_id: name, refund_id }) });
    const byProduct = (product_id: string) => refund({ ...said, product_id, props: '{"refund_id":"R1"}' });
    const props = JSON.stringify({ refunded_event_id: "s", refund_id: "R1" });
    const alone = refundOf("s", { value_minor: 30_00n, props });
    const first = sale({ event_id: idOf("s"), ...inOrder });
    const copy = pixelSale({ event_id: idOf("p"), ...inOrder });
    const leftOf = (claims: readonly Recorded<Claim>[]) => {
      const world = settling();
      for (const claim of [...claims, sale({ event_id: idOf("s2"), product_id: "sku2", ...inOrder })])
        world.meet(claim);
      world.lookUp();
      expect(world.waiting()).toEqual([]);
      return JSON.parse(world.left()).find(([id]: [string]) => id === idOf("s"))[1];
    };
    for (const refunds of [
      [byEvent("s"), byProduct("sku1")],
      [byEvent("s"), byEvent("p")],
      [byEvent("p"), byProduct("sku1"), byEvent("s")],
      [byProduct("sku1"), alone],
    ])
      for (const claims of [
        [first, copy, ...refunds],
        [first, copy, ...[...refunds].reverse()],
        [...refunds, first, copy],
        [refunds[0]!, first, copy, ...refunds.slice(1)],
      ])
        expect(leftOf(claims)).toBe("7000");
    // Another id is another refund, and one refund may cover several lines.
    expect(leftOf([first, byEvent("s"), byEvent("s", "R2")])).toBe("4000");
    expect(leftOf([first, byProduct("sku2"), byEvent("s")])).toBe("7000");
  });

  test("waits, and says so, until the event is known", () => {
    const world = settling();
    world.meet(refundOf("s"));
    world.lookUp();
    expect(world.waiting()).toEqual(["e: refund no_such_event"]);
    world.meet(sold["a lead"]);
    expect(world.waiting()).toEqual(["e: refund no_such_event"]);
    world.lookUp();
    expect(world.waiting()).toEqual([]);
  });

  test("and an order that is not the event's waits: which of the two is meant no look-up can say", () => {
    const world = settling();
    world.meet(sold["a sale of an order"]);
    world.meet(refundOf("s", { order_id: "o2", order_key: "o:o2" }));
    world.lookUp();
    expect(world.waiting()).toEqual(["o: refund no_such_event"]);
  });

  test("and its order finds a custom sale that was settled by itself before its order counted", () => {
    const old = sale({ event_id: idOf("s"), t: "custom", custom_name: "trial", order_key: `e:${idOf("s")}` });
    for (const named of [{}, { order_id: "o1", order_key: "o:o1" }]) {
      const world = settling();
      world.meet(old);
      world.meet(refundOf("s", { ...named, value_minor: 30_00n }));
      world.lookUp();
      expect(world.left()).toBe(JSON.stringify([[idOf("s"), "7000"]]));
      expect(world.waiting()).toEqual([]);
    }
    // The order does not know the refund: a refund of the order waits, and a copy counts again.
    const world = settling();
    world.meet(old);
    world.meet(refund({ order_key: "o:o1" }));
    expect(world.waiting()).toEqual(["o: refund no_sale"]);
    const after = settling();
    for (const claim of [old, sale({ event_id: idOf("c"), t: "custom", custom_name: "trial", order_key: "o:o1" })])
      after.meet(claim);
    expect(JSON.parse(after.left())).toHaveLength(2);
  });

  test("is moved once, wherever the process that moves it dies", () => {
    for (const only of [0, 1, 2]) {
      const world = settling();
      world.meet(sold["a lead"]);
      world.meet(refundOf("s", { value_minor: 30_00n }));
      world.lookUp(noon, only);
      world.lookUp(noon + hourMs);
      world.lookUp(noon + 2 * hourMs);
      expect(world.left()).toBe(JSON.stringify([[idOf("s"), "7000"]]));
      expect(world.waiting()).toEqual([]);
    }
  });

  test("has the order, the goods and the currency of its sale on its row, in versions without a gap", () => {
    const world = settling();
    world.meet(sale({ ...sold["a sale of an order"].data.attributed.event, order_key: "o:o1", currency: "JPY" }));
    const asked = refundOf("s", { value_minor: 5_00n });
    world.meet(asked);
    world.lookUp();
    const rows = world.rows.filter(({ event }) => event.event_id === asked.id);
    expect(rows.map(({ version, event }) => [version, event.order_id, event.product_id, event.value_minor])).toEqual([
      [1, null, null, 500n],
      [2, "o1", "sku1", 5n],
    ]);
  });

  test("is one refund under one refund_id, though it is moved", () => {
    const world = settling();
    world.meet(sold["a lead"]);
    const props = JSON.stringify({ refunded_event_id: "s", refund_id: "R1" });
    world.meet(refundOf("s", { value_minor: 30_00n, props }));
    world.lookUp();
    world.meet(refundOf("s", { value_minor: 30_00n, props }));
    world.lookUp();
    expect(world.left()).toBe(JSON.stringify([[idOf("s"), "7000"]]));
    expect(world.rows.at(-1)).toMatchObject({ version: 2, merged_into: expect.any(String) });
  });

  test("of a copy of the whole order takes from each of its lines, with its order and without", () => {
    for (const where of [inOrder, {}]) {
      const world = settling();
      world.meet(sale({ event_id: idOf("s"), product_id: "a", ...inOrder }));
      world.meet(sale({ event_id: idOf("s2"), product_id: "b", ...inOrder }));
      world.meet(pixelSale({ event_id: idOf("p"), product_id: null, value_minor: 200_00n, ...inOrder }));
      world.meet(refundOf("p", { value_minor: 50_00n, ...where }));
      world.lookUp();
      expect(JSON.parse(world.left()).map(([, minor]: [string, string]) => minor)).toEqual(["7500", "7500"]);
    }
  });

  test("is merged into its first copy when both have waited for their line, by product and by event", () => {
    for (const isByEvent of [false, true]) {
      const world = settling();
      const props = JSON.stringify({ refunded_event_id: "s", refund_id: "R1", currency: "MXN" });
      const ofProduct = refund({ ...inOrder, product_id: "sku1", value_minor: 30_00n, props });
      const ofEvent = refundOf("s", { ...inOrder, value_minor: 40_00n, props });
      const [first, second] = isByEvent ? [ofEvent, ofProduct] : [ofProduct, ofEvent];
      world.meet(first);
      world.meet({ ...second, receivedAt: noon + 1 });
      expect(world.waiting()).toHaveLength(2);
      world.meet(sale({ event_id: idOf("s"), ...inOrder }));
      expect(world.left()).toBe(JSON.stringify([[idOf("s"), isByEvent ? "6000" : "7000"]]));
      const last = (id: string) => world.rows.findLast(({ event }) => event.event_id === id);
      expect(last(second.id)).toMatchObject({ version: 2, merged_into: first.id });
      expect(last(first.id)).toMatchObject({ merged_into: null });
      expect(world.waiting()).toEqual([]);
    }
  });

  test("leaves the same of each sale, whatever comes first and whenever it is looked up", () => {
    const kinds = Object.values(sold);
    const amounts = fc.option(fc.bigInt({ min: 1n, max: 60_00n }));
    const history = fc.record({
      kind: fc.constantFrom(...kinds),
      refunds: fc.array(amounts, { minLength: 1, maxLength: 4 }),
      places: fc.array(fc.nat(100), { minLength: 5, maxLength: 5 }),
      looks: fc.array(fc.boolean(), { minLength: 5, maxLength: 5 }),
      copies: fc.array(fc.boolean(), { minLength: 5, maxLength: 5 }),
    });
    fc.assert(
      fc.property(history, ({ kind, refunds, places, looks, copies }) => {
        const claims = [kind, ...refunds.map((value_minor) => refundOf("s", { value_minor }))];
        const order = claims.map((claim, n) => ({ claim, n })).sort((a, b) => places[a.n]! - places[b.n]!);
        const [plain, mixed] = [settling(), settling()];
        for (const claim of claims) plain.meet(claim);
        plain.lookUp();
        for (const { claim, n } of order) {
          mixed.meet(claim);
          if (looks[n]) mixed.lookUp();
          if (copies[n]) mixed.meet(claim);
        }
        mixed.lookUp();
        mixed.lookUp();
        expect(mixed.left()).toBe(plain.left());
        expect(mixed.waiting()).toEqual(plain.waiting());
      }),
      { numRuns: 500 },
    );
  });
});

describe("at the edge", () => {
  const refused = (props: object) => {
    const [answer] = admit([refundEvent({}, { order_id: undefined, ...props })]);
    return answer?.kind === "refused" ? `${answer.refusal.code} ${answer.refusal.field}` : answer?.kind;
  };
  test("a refund names an order or an event", () => {
    expect(refused({ order_id: "o1" })).toBe("accepted");
    expect(refused({ refunded_event_id: "lead-7" })).toBe("accepted");
    expect(refused({})).toBe("missing_prop props.order_id");
    expect(refused({ refunded_event_id: "lead 7" })).toBe("bad_prop props.refunded_event_id");
    expect(refused({ order_id: "o1", refunded_event_id: 7 })).toBe("bad_prop props.refunded_event_id");
  });
  test("no other event names one", () =>
    expect(refundedEventOf({ client_id: clientId, t: "purchase", props: '{"refunded_event_id":"x"}' })).toBeNull());

  test("a custom sale without an order is refunded in part by its event, as far as the ledger", async () => {
    const { post, entries, rows } = shop({ contracts: [contract({ event_type: "trial" })] });
    const svc_click_id = clickBefore(hourMs);
    await post([pageView({ t: "trial", event_id: "t1", svc_click_id, props: { value: 100 } })]);
    await post([refundEvent({ event_id: "r1" }, { order_id: undefined, refunded_event_id: "t1", amount: "30.00" })]);
    expect(entries().map(({ amount_minor }) => amount_minor)).toEqual([10_00n, -3_00n]);
    expect(rows("product-sales")).toMatchObject([{ t: "refund", order_id: idOf("t1"), value_minor: "3000" }]);
  });

  test("a refund that names an order and an event takes from the line of that event", async () => {
    const { post, entries } = shop();
    await post([
      purchase({ event_id: "p1", svc_click_id: clickBefore(hourMs) }),
      purchase({ event_id: "p2" }, { product_id: "sku2" }),
      refundEvent({ event_id: "r1" }, { refunded_event_id: "p1", amount: "30.00" }),
    ]);
    expect(entries().map(({ amount_minor }) => amount_minor)).toEqual([10_00n, -3_00n]);
  });
});
