// Rules between the events of one order: runs every example of docs/design/money.md.
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isPlaceholder } from "../../domain/ids.ts";
import { toDecimal, toMinor } from "../../domain/money.ts";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import { order } from "../../processors/settle/memory.ts";
import { emptyOrder, MOST_BESIDE_LINES, type OrderState } from "../../processors/settle/order.ts";
import { MOST_LINES, settle } from "../../processors/settle/settle.ts";
import { waitingOf } from "../../processors/settle/waiting-items.ts";
import type { Claim, Conversion } from "../../schemas/generated.ts";
import type { AnyStage, Recorded } from "../../stream/flow.ts";
import { fold } from "../../stream/fold.ts";
import { topics } from "../../topics.ts";
import { pipeline } from "../../topology.ts";
import { hourMs, noon } from "../support/builders.ts";
import { committed, decide, fileSale, pixelSale, refund, sale, settled, withdraw } from "../support/money-builders.ts";
import { stateFrom } from "../support/remembered.ts";

const page = readFileSync(new URL("../../docs/design/money.md", import.meta.url), "utf8");
const rowsUnder = (head: string): readonly (readonly string[])[] => {
  const lines = page.split(`${head}\n`)[1]?.split("\n").slice(1) ?? [];
  const end = lines.findIndex((line) => !line.startsWith("|"));
  return lines.slice(0, end).map((line) =>
    line
      .slice(1, -1)
      .split("|")
      .map((cell) => cell.trim()),
  );
};

const minorOf = (text: string, currency: string): bigint => {
  const amount = toMinor(text, currency);
  if (amount.kind === "bad_amount") throw new Error(`${text}: ${amount.why}`);
  return amount.minor;
};

const refundIdOf = (name: string): string =>
  `00000000-0000-8000-9000-${Buffer.from(name).toString("hex").padStart(12, "0")}`;
const aboutRefund = (kind: "release" | "reject" | "take_back" | "reattribute", name: string, receivedAt: number) => {
  const claim = decide(kind, { receivedAt, partner_id: 22, line: "any" });
  const { attributed } = claim.data;
  const event = { ...attributed.event, t: "refund", event_id: refundIdOf(name), product_id: null };
  return { ...claim, data: { ...claim.data, attributed: { ...attributed, event } } };
};

/** The claims of an example. An `undo` withdraws each row of a file that has come before it. */
const claimsOf = (example: string): readonly Recorded<Claim>[] => {
  const claims: Recorded<Claim>[] = [];
  for (const text of example.split("; ")) {
    const rows = claims.filter(({ data }) => data.attributed.event.import_id !== null && data.decision === null);
    if (text.startsWith("undo")) claims.push(...rows.map((row) => withdraw(row, noon + 200 * hourMs)));
    else claims.push(claimOf(text));
  }
  return claims;
};

/** `sale a 100 by 22 after 3 h`, `pixel - 100 USD rejected`, `refund a 30`, `release`. */
const claimOf = (text: string): Recorded<Claim> => {
  const after = /after (\d+) h/.exec(text);
  const dated = /dated (-?\d+) h/.exec(text);
  const at = noon + Number(dated?.[1] ?? 0) * hourMs;
  const when = { receivedAt: noon + Number(after?.[1] ?? 0) * hourMs, ...(dated !== null && { at }) };
  const named = /\b(MXN|USD|JPY)\b/.exec(text)?.[1];
  const currency = named === undefined ? {} : { currency: named };
  const given = { ...when, ...currency };
  const [what, product, amount] = text.split(" ").map((word) => word.replace("␠", " "));
  // As admission leaves it; `-` alone says that no product was sent.
  const isWeak = product !== undefined && product !== "-" && isPlaceholder(product);
  const product_id = product === "-" || isWeak ? null : (product ?? null);
  if (product === "refund") return aboutRefund(what as "release", amount!, when.receivedAt);
  if (what === "reattribute")
    return decide(what, { ...when, partner_id: Number(product), ...(amount !== undefined && { line: amount }) });
  if (what === "release" || what === "take_back" || what === "reject") {
    const isOfLine = product !== undefined && product !== "after" && product !== "keep";
    const keep = /keep (\w+)/.exec(text)?.[1];
    const line = product === "-" ? "" : product;
    return decide(what, { ...when, ...(isOfLine && { line }), ...(keep !== undefined && { keep }) });
  }
  if (what === "refund") {
    const value_minor = amount === "all" ? null : minorOf(amount!, named ?? "MXN");
    const id = /id (\w+)/.exec(text)?.[1];
    const props = JSON.stringify({ currency: named, refund_id: id });
    const source = /from (\w+)/.exec(text)?.[1];
    const name = /named (\w+)/.exec(text)?.[1];
    const own = { ...(source !== undefined && { source }), ...(name !== undefined && { event_id: refundIdOf(name) }) };
    return refund({ ...given, ...own, product_id, value_minor, props });
  }
  const partner = /uncredited/.test(text) ? null : Number(/by (\d+)/.exec(text)?.[1] ?? 21);
  const isRejected = text.includes("rejected");
  const name = /custom (\w+)/.exec(text)?.[1];
  const make = what === "pixel" ? pixelSale : what === "file" ? fileSale : sale;
  return make({
    ...given,
    product_id,
    warnings: isWeak ? ["weak_product_id"] : [],
    value_minor: minorOf(amount!, named ?? "MXN"),
    partner: isRejected ? null : partner,
    band: isRejected ? "reject" : text.includes("review") ? "review" : "ok",
    ...(name !== undefined && { t: "custom", custom_name: name }),
  });
};

/** The rest for each partner, and why it is held. */
const leftOf = (claims: readonly Recorded<Claim>[]): string => {
  const left = new Map<string, { readonly minor: bigint; readonly last: Conversion }>();
  for (const { data } of settled(...claims).conversions) {
    const before = left.get(data.conversion_id)?.minor ?? 0n;
    const minor = data.kind === "reversed" ? before - data.value_minor : before + data.value_minor;
    left.set(data.conversion_id, { minor, last: data });
  }
  const texts = [...left.values()]
    .filter(({ minor }) => minor !== 0n)
    .map(({ minor, last }) => {
      const held = last.review === null ? "" : ` held ${last.review}`;
      return `${last.product_id ?? "-"} ${last.partner_id} ${toDecimal(minor, last.currency)} ${last.currency}${held}`;
    });
  return texts.length === 0 ? "nothing" : texts.sort().join("; ");
};

const examples = rowsUnder("| rule | claims of one order, as they come | what is left |");
describe("the examples of docs/design/money.md", () => {
  test("are read", () => expect(examples.length).toBeGreaterThan(20));
  test.each(examples)("rule %s: %s leaves %s", (_, claims, left) => expect(leftOf(claimsOf(claims!))).toBe(left));
});

const amounts = fc.bigInt({ min: 0n, max: 100_00n });
const netOf = (claims: readonly Recorded<Claim>[]): string => {
  const net = new Map<string, bigint>();
  for (const { data } of settled(...claims).conversions)
    net.set(
      data.product_id ?? "",
      (net.get(data.product_id ?? "") ?? 0n) + (data.kind === "credited" ? data.value_minor : -data.value_minor),
    );
  return JSON.stringify([...net].sort().map(([product, minor]) => [product, minor.toString()]));
};

describe("refunds of an order", () => {
  test("take the same of each line, whatever the order in which sales and refunds come", () => {
    const history = fc.record({
      values: fc.array(amounts, { minLength: 1, maxLength: 4 }),
      refunds: fc.array(fc.record({ product: fc.option(fc.nat(4)), value: fc.option(amounts) }), { maxLength: 4 }),
      places: fc.array(fc.nat(100), { minLength: 8, maxLength: 8 }),
      hours: fc.array(fc.nat(60), { minLength: 8, maxLength: 8 }),
    });
    fc.assert(
      fc.property(history, ({ values, refunds, places, hours }) => {
        const claims = [
          ...values.map((value_minor, n) =>
            sale({ product_id: `p${n}`, value_minor, receivedAt: noon + hours[n]! * hourMs }),
          ),
          ...refunds.map(({ product, value }, n) =>
            refund({
              product_id: product === null ? null : `p${product}`,
              value_minor: value,
              receivedAt: noon + hours[4 + n]! * hourMs,
            }),
          ),
        ];
        const shuffled = claims
          .map((claim, n) => ({ claim, place: places[n]! }))
          .sort((a, b) => a.place - b.place)
          .map(({ claim }) => claim);
        expect(netOf(shuffled)).toBe(netOf(claims));
      }),
      { numRuns: 500 },
    );
  });

  test("that are spread again give back what they took too much, and no partner earns less than nothing", () => {
    const claims = [sale({ product_id: "a" }), refund({ value_minor: 150_00n }), sale({ product_id: "b" })];
    const { conversions } = settled(...claims);
    expect(conversions.map(({ data }) => `${data.kind} ${data.product_id} ${data.value_minor} ${data.reason}`)).toEqual(
      [
        "credited a 10000 null",
        "reversed a 10000 other",
        "credited a 10000 null",
        "reversed a 7500 other",
        "credited b 10000 null",
        "reversed b 7500 other",
      ],
    );
    expect(committed(conversions).reduce((sum, { amount_minor }) => sum + amount_minor, 0n)).toBe(5_00n);
  });

  test("without a currency bear that of their sale on their rows, whichever comes first", () => {
    const five = refund({ value_minor: 5_00n });
    const yen = sale({ currency: "JPY", value_minor: 100n });
    const rowsOf = (...claims: readonly Recorded<Claim>[]) =>
      settled(...claims)
        .rows.filter(({ event }) => event.t === "refund")
        .map(({ version, event }) => `v${version} ${event.value_minor} ${event.currency}`);
    expect(rowsOf(yen, five)).toEqual(["v1 5 JPY"]);
    expect(rowsOf(five, yen)).toEqual(["v1 500 MXN", "v2 5 JPY"]);
  });

  test("under one refund_id are stored once, and the second is merged into the first", () => {
    const [processor, shop] = ["stripe", "shop"].map((source) =>
      refund({ source, value_minor: 30_00n, props: '{"refund_id":"R1"}' }),
    );
    const { rows } = settled(sale(), processor!, shop!);
    expect(rows.at(-1)).toMatchObject({ merged_into: processor!.id });
  });
});

describe("an order", () => {
  test("has no more lines than it can hold: one more is refused, a copy of one that is there is not", () => {
    const outcome = settle(sale(), emptyOrder, null);
    if (outcome.kind !== "emit") throw new Error("a sale is emitted");
    const [line] = outcome.state.lines;
    const full = {
      ...outcome.state,
      lines: Array.from({ length: MOST_LINES }, (_, n) => ({ ...line!, product_key: `p${n}`, event_id: `e${n}` })),
    };
    expect(settle(sale({ product_id: "more" }), full, null)).toEqual({ kind: "reject", reason: "order_too_large" });
    expect(settle(pixelSale({ product_id: "p7" }), full, null).kind).toBe("emit");
  });

  const taking = (state: OrderState, claims: readonly Recorded<Claim>[]): OrderState | string => {
    let now = state;
    for (const claim of claims) {
      const outcome = settle(claim, now, null);
      if (outcome.kind !== "emit") return outcome.kind === "reject" ? outcome.reason : outcome.kind;
      now = outcome.state;
    }
    return now;
  };
  const aboutOther = (): Recorded<Claim> => {
    const claim = decide("reattribute", { partner_id: 22, line: "sku1" });
    return { ...claim, data: { ...claim.data, decision: { ...claim.data.decision!, scope: "event" } } };
  };
  test.each([
    ["refunds", () => refund({ value_minor: 1n })],
    ["decisions that wait", () => decide("assign", { partner_id: 22 })],
    ["events that are no line and were decided about", aboutOther],
  ])("has one for each of its lines and 200 more: %s", (_, make) => {
    const full = taking(
      emptyOrder,
      Array.from({ length: MOST_BESIDE_LINES }, () => make()),
    );
    if (typeof full === "string") throw new Error(full);
    expect(taking(full, [make()])).toBe("order_too_large");
    // Claims that add no line are still taken, also one for the line that has come.
    const sold = taking(full, [sale(), pixelSale(), make()]);
    if (typeof sold === "string") throw new Error(sold);
    expect(taking(sold, [make()])).toBe("order_too_large");
    expect(taking(sold, [sale({ product_id: "more" }), make()])).toMatchObject({ parts: null });
  });

  test("that is full of refunds still takes a copy of one, and lets one go that is moved", () => {
    const some = Array.from({ length: MOST_BESIDE_LINES }, (_, n) =>
      refund({ value_minor: 1n, props: JSON.stringify({ refund_id: `R${n}` }) }),
    );
    const full = taking(emptyOrder, some);
    const moved = { move_id: some[7]!.id, at: noon, received_at: noon };
    const leaves = { ...some[7]!, data: { ...some[7]!.data, moved } };
    const copy = refund({ value_minor: 1n, props: '{"refund_id":"R3"}' });
    const left = taking(full as OrderState, [copy, leaves, refund({ value_minor: 1n })]);
    expect((left as OrderState).refunds).toHaveLength(MOST_BESIDE_LINES);
  });

  test("that was remembered in format 1 goes on: what it took stays taken, what it had left still takes", () => {
    const line = {
      ...{ product_key: "a", status: "credited", partner_id: 21, campaign_id: 31, event_id: "e1", at: noon },
      ...{ received_at: noon, value_minor: "10000", currency: "MXN", has_server_money: true, refunded_minor: "3000" },
      ...{ refund_reason: "other", is_returned: false, review: null, conversion_id: "cnv_1", conversion_version: 2 },
      copies: 0,
    };
    const left = { event_id: "r1", product_key: null, left_minor: "2000", currency: "MXN", reason: "other" };
    const bytes = Buffer.from(`${JSON.stringify({ format: 1, lines: [line], refunds: [left] })}\n{}`);
    const state = stateFrom(order, ["k"], [bytes]);
    expect(state.lines[0]).toMatchObject({ refunded_minor: 30_00n, settled_minor: 30_00n, name: null, lead_id: null });
    expect(state.refunds).toMatchObject([{ amount_minor: 20_00n, received_at: 0, refund_id: null, row: null }]);
    expect(state.claimed_by).toEqual([21]);
  });
});

describe("a decision about the copy of a whole order", () => {
  const lines = [sale({ product_id: "a" }), sale({ product_id: "b" })];
  const total = pixelSale({ product_id: null, partner: 22, value_minor: 200_00n });
  const decideAbout = (about: Recorded<Claim>["data"]["attributed"]) => {
    const decision = decide("release", { line: "" });
    return { ...decision, data: { ...decision.data, attributed: about } };
  };

  test("concerns every line that it is a copy of", () => {
    const { conversions } = settled(...lines, total, decideAbout(total.data.attributed));
    const released = conversions.filter(({ data }) => data.kind === "released");
    expect(released.map(({ data }) => data.product_id)).toEqual(["a", "b"]);
  });

  test("does so when its event is no longer remembered among the copies", () => {
    const other = decide("release", { line: "" });
    const { conversions } = settled(...lines, total, other);
    expect(conversions.filter(({ data }) => data.kind === "released")).toHaveLength(2);
  });
});

describe("the row of a line", () => {
  test("names who contended and the newest 20 of the decisions about it, the last of them as the winner", () => {
    const decisions = Array.from({ length: 60 }, (_, n) => decide("reattribute", { partner_id: 21 + (n % 2) }));
    const { rows } = settled(sale({ partner: 23 }), ...decisions, decide("take_back"));
    const { candidates } = rows.at(-1)!.credit;
    expect(candidates).toHaveLength(21);
    expect(candidates[0]).toMatchObject({ method: "click", partner_id: 23, outcome: "overruled" });
    expect(candidates.at(-1)).toMatchObject({ method: "decision", outcome: "manual" });
    expect(candidates.at(-2)!.reference).toBe(decisions.at(-1)!.data.decision!.decision_id);
    expect(rows.at(-1)!.version).toBe(62);
  });
});

describe("leads of one person for one product", () => {
  const lead = (hours: number, id: string | null, said: Parameters<typeof sale>[0] = {}) =>
    sale({
      ...{ t: "lead_submit", order_key: "l:k", order_id: null, at: noon + hours * hourMs },
      ...(id !== null && { props: JSON.stringify({ client_lead_id: id }) }),
      ...said,
    });
  const countOf = (...leads: readonly Recorded<Claim>[]): number => settled(...leads).conversions.length;

  test("are one within 48 hours, also over midnight", () => {
    expect(countOf(lead(11.9, null), lead(12.1, null))).toBe(1);
    expect(countOf(lead(0, null), lead(48, null))).toBe(1);
  });
  test("are two when they lie further apart", () => expect(countOf(lead(0, null), lead(48.1, null))).toBe(2));
  test("stay two when their client gave them two ids", () =>
    expect(countOf(lead(0, "A"), lead(1, "B"), lead(2, "A"))).toBe(2));
  test("are one for ever under one id of their client", () => expect(countOf(lead(0, "A"), lead(500, "A"))).toBe(1));
  test("take the id that their copy brings", () => expect(countOf(lead(0, null), lead(1, "A"), lead(2, "B"))).toBe(2));
  test("are decided about by the event that made each", () => {
    const [first, second] = [lead(0, "A"), lead(1, "B")];
    const decision = decide("take_back", { line: "any" });
    const about = {
      ...decision,
      key: second!.key,
      data: { ...decision.data, order_key: "l:k", attributed: second!.data.attributed },
    };
    const { conversions } = settled(first!, second!, about);
    expect(conversions.map(({ data }) => [data.kind, data.event_id])).toEqual([
      ["credited", first!.id],
      ["credited", second!.id],
      ["reversed", second!.id],
    ]);
  });
  test("are decided about by a copy of each, however late the copy came and whatever came since", () => {
    const [first, late] = [lead(0, null), { ...lead(1, null), receivedAt: noon + 120 * hourMs }];
    const other = lead(169, null);
    const decision = decide("take_back", { line: "any", receivedAt: noon + 170 * hourMs });
    const about = {
      ...decision,
      key: late.key,
      data: { ...decision.data, order_key: "l:k", attributed: late.data.attributed },
    };
    const { conversions } = settled(first, late, other, about);
    expect(conversions.map(({ data }) => [data.kind, data.event_id])).toEqual([
      ["credited", first.id],
      ["credited", other.id],
      ["reversed", first.id],
    ]);
  });
});

describe("one event id for two things", () => {
  const settleStage = pipeline.nodes.find((node) => node.is === "stage" && node.name === "settle") as AnyStage;
  const loaded = { versions: new Map(), outcomes: new Map(), truncated: new Map(), mark: null };
  const foldedOf = (...claims: readonly Recorded<Claim>[]) =>
    fold(
      { stage: settleStage, feeds: null, isFirst: true },
      claims.map((event, offset) => ({
        event,
        source: { offset, key: Buffer.from(event.key), value: Buffer.from("bytes"), appendedAt: noon, headers: {} },
      })),
      () => null,
      loaded,
      inMemoryWire([topics.claims, topics.conversions, topics.eventsAttributed]),
    );
  const event_id = "00000000-0000-8000-8000-00000000beef";
  const first = sale({ event_id });

  test.each([
    ["a sale and its refund", refund({ event_id, value_minor: 100_00n })],
    ["two orders", sale({ event_id, order_id: "o2" })],
    ["two amounts", sale({ event_id, value_minor: 90_00n })],
    ["two currencies", sale({ event_id, currency: "USD" })],
  ])("%s: the second is a dead letter that names the first", (_, second) => {
    const { refused, counts, outputs } = foldedOf(first, second);
    expect(refused.map(({ reason }) => reason)).toEqual(["id_conflict"]);
    expect(refused[0]!.message).toMatch(/^event id \S+ is that of a purchase of order o1, 100.00 MXN; this is a /);
    expect(counts).toMatchObject({ emitting: 1, recalled: 0, rejected: new Map([["id_conflict", 1]]) });
    expect(outputs).toHaveLength(2);
  });

  test.each([
    ["a sale", sale({ event_id: "00000000-0000-8000-8000-00000000feed" })],
    ["a refund without a currency", refund({ value_minor: 5_00n })],
  ])("%s that comes again is the same, and answered with its record", (_, claim) => {
    const { refused, counts } = foldedOf(sale({ currency: "JPY", value_minor: 100n }), claim, claim);
    expect(refused).toEqual([]);
    expect(counts).toMatchObject({ emitting: 2, recalled: 1 });
  });

  test("two refunds of two amounts are two, though neither names a currency", () => {
    const [five, six] = [5_00n, 6_00n].map((value_minor) => refund({ event_id, value_minor }));
    for (const sold of [sale(), sale({ currency: "JPY", value_minor: 100n })])
      expect(foldedOf(sold, five!, six!).refused.map(({ reason }) => reason)).toEqual(["id_conflict"]);
  });

  test("two refunds of two events are two, though they are of one amount", () => {
    const [one, other] = ["p1", "p2"].map((name) =>
      refund({ event_id, order_id: null, order_key: `e:${name}`, props: JSON.stringify({ refunded_event_id: name }) }),
    );
    expect(foldedOf(one!, other!).refused.map(({ reason }) => reason)).toEqual(["id_conflict"]);
    expect(foldedOf(one!, one!).refused).toEqual([]);
  });

  test("a decision that comes again is the same", () => {
    const decision = decide("take_back");
    expect(foldedOf(first, decision, decision)).toMatchObject({ refused: [], counts: { recalled: 1 } });
  });
});

describe("what waits", () => {
  const stateOf = (...claims: readonly Recorded<Claim>[]): OrderState =>
    claims.reduce<OrderState>((state, claim) => {
      const outcome = settle(claim, state, null);
      return outcome.kind === "emit" ? outcome.state : state;
    }, emptyOrder);
  const later = noon + 49 * hourMs;
  const waiting = (...claims: readonly Recorded<Claim>[]): readonly string[] =>
    waitingOf(stateOf(...claims), later).map(({ kind, reason, amount_minor }) => `${kind} ${reason} ${amount_minor}`);

  test.each([
    ["a refund of an unknown order", [refund({ value_minor: 5_00n })], ["refund no_sale 500"]],
    [
      "a refund of an unknown event",
      [sale(), refund({ value_minor: 5_00n, line_event_id: "e9" })],
      ["refund no_such_event 500"],
    ],
    ["a refund of another product", [sale(), refund({ product_id: "b" })], ["refund no_such_line null"]],
    [
      "a refund in another currency",
      [sale(), refund({ value_minor: 5_00n, currency: "USD" })],
      ["refund other_currency 500"],
    ],
    ["a decision about an unknown order", [decide("take_back")], ["decision no_sale null"]],
    ["a decision about another product", [sale(), decide("take_back", { line: "b" })], ["decision no_such_line null"]],
    ["a held line", [sale({ band: "review" })], ["held fraud_review 10000"]],
    ["a refund that is too large", [sale(), refund({ value_minor: 150_00n })], ["void exceeds_its_lines 5000"]],
    ["nothing of a settled order", [sale(), refund({ value_minor: 30_00n }), decide("reject")], []],
  ] as const)("is %s", (_, claims, expected) => expect(waiting(...claims)).toEqual(expected));

  test("is a refund in another currency from the moment it comes, whichever of the two comes first", () => {
    const claims = [sale({ value_minor: 100_00n }), refund({ value_minor: 5_00n, currency: "USD" })];
    for (const both of [claims, claims.toReversed()])
      expect(waitingOf(stateOf(...both), noon)).toMatchObject([{ kind: "refund", reason: "other_currency" }]);
  });

  test("is a refund that another source reported alike, until a person says whether both are one", () => {
    const twice = ["refund - 30 from shop", "refund - 30 from stripe named s"].map(claimOf);
    expect(waiting(sale(), ...twice)).toEqual(["refund_twice refund_twice 3000"]);
    for (const kind of ["release", "reject", "take_back"] as const)
      expect(waiting(sale(), ...twice, aboutRefund(kind, "s", noon))).toEqual([]);
    expect(waiting(sale(), ...twice, aboutRefund("reattribute", "s", noon))).toHaveLength(1);
    const { rows } = settled(sale(), ...twice, aboutRefund("reject", "s", noon));
    const [first, second] = twice.map(({ id }) => rows.filter(({ event }) => event.event_id === id));
    expect(first!.map(({ event }) => event.warnings)).toEqual([[]]);
    expect(second!.map(({ version, merged_into, event }) => [version, merged_into, event.warnings])).toEqual([
      [1, null, ["refund_twice"]],
      [2, twice[0]!.id, ["refund_twice"]],
    ]);
  });

  test("is no refund that may still find its line: it is void once the lines are complete", () => {
    const state = stateOf(sale(), refund({ value_minor: 150_00n }));
    expect(waitingOf(state, noon + 48 * hourMs)).toEqual([]);
    expect(waitingOf(state, noon + 48 * hourMs + 1)).toHaveLength(1);
  });
});
