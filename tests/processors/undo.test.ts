// What the undo of an import makes of the orders of its rows (docs/design/money.md, rule 36).
import { describe, expect, test } from "vitest";
import { decisionOnLine } from "../../processors/settle/decision-claim.ts";
import { order } from "../../processors/settle/memory.ts";
import { emptyOrder, type OrderState, rowOf } from "../../processors/settle/order.ts";
import { settle } from "../../processors/settle/settle.ts";
import type { Claim } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { topics } from "../../topics.ts";
import { clientId, hourMs, noon, recorded } from "../support/builders.ts";
import { committed, decide, fileSale, pixelSale, refund, sale, settled, withdraw } from "../support/money-builders.ts";

const later = noon + 300 * hourMs;
const movesOf = (...claims: readonly Recorded<Claim>[]) =>
  settled(...claims).conversions.map(
    ({ data }) => `${data.kind} ${data.partner_id} ${data.value_minor} ${data.reason ?? "-"}`,
  );
/** The newest version of each row. */
const rowsOf = (...claims: readonly Recorded<Claim>[]) => {
  const newest = new Map<string, ReturnType<typeof settled>["rows"][number]>();
  for (const row of settled(...claims).rows) {
    const before = newest.get(row.event.event_id);
    expect(row.version, row.event.event_id).toBe((before?.version ?? 0) + 1);
    newest.set(row.event.event_id, row);
  }
  return newest;
};
const earnedIn = (...claims: readonly Recorded<Claim>[]): Record<number, bigint> => {
  const sums: Record<number, bigint> = {};
  for (const { partner_id, amount_minor } of committed(settled(...claims).conversions))
    sums[partner_id] = (sums[partner_id] ?? 0n) + amount_minor;
  return sums;
};
const stateAfter = (claims: readonly Recorded<Claim>[], from = emptyOrder): OrderState =>
  claims.reduce<OrderState>((state, claim) => {
    const outcome = settle(claim, state, null);
    if (outcome.kind !== "emit") throw new Error(outcome.kind);
    return order.decode(order.encode(outcome.state)) as OrderState;
  }, from);

describe("a line that a row of the file has made alone", () => {
  const row = fileSale();
  test("goes back, and its row is left out of what is current", () => {
    const undo = withdraw(row);
    expect(movesOf(row, undo)).toEqual(["credited 21 10000 -", "reversed 21 10000 import_undone"]);
    expect(rowsOf(row, undo).get(row.id)).toMatchObject({
      ...{ version: 2, merged_into: undo.data.decision!.decision_id },
      credit: { status: "unattributed", reason: "import_undone", partner_id: null },
    });
    expect(stateAfter([row, undo])).toEqual({ ...emptyOrder, withdrawn: [row.id] });
  });

  test("leaves its order to the real sale, which earns", () => {
    const real = sale({ receivedAt: later });
    expect(earnedIn(row, withdraw(row), real)).toEqual({ 21: 10_00n });
    expect(rowsOf(row, withdraw(row), real).get(real.id)).toMatchObject({ version: 1, merged_into: null });
  });

  test("leaves it to the corrected row, which earns once", () => {
    const corrected = fileSale({ import_id: "imp_2", value_minor: 120_00n, receivedAt: later });
    expect(earnedIn(row, withdraw(row), corrected)).toEqual({ 21: 12_00n });
  });

  test("is withdrawn once: the undo repeated, by the same job or by another one, changes nothing", () => {
    const undo = withdraw(row);
    // What is repeated is answered with what was recorded.
    const { conversions } = settled(row, undo, undo, withdraw(row));
    expect(new Set(conversions.map(({ id }) => id)).size).toBe(movesOf(row, undo).length);
  });

  test("leaves its refund waiting for the sale that comes later", () => {
    const back = refund({ value_minor: 30_00n });
    expect(stateAfter([row, back, withdraw(row)])).toMatchObject({ lines: [], refunds: [{ event_id: back.id }] });
    expect(earnedIn(row, back, withdraw(row), sale({ receivedAt: later }))).toEqual({ 21: 7_00n });
  });

  test("holds no other partner's line any more", () => {
    const held = sale({ partner: 22, product_id: "b" });
    expect(settled(row, held).conversions.at(-1)?.data.review).toBe("claimed_by_another_partner");
    const { conversions } = settled(row, held, withdraw(row));
    expect(conversions.at(-1)?.data).toMatchObject({ kind: "credited", partner_id: 22, review: null });
  });

  test("stands if a person has given it to another partner since", () => {
    const given = decide("reattribute", { partner_id: 22, line: "sku1" });
    expect(movesOf(row, given, withdraw(row))).toEqual(movesOf(row, given));
    expect(earnedIn(row, given, withdraw(row))).toEqual({ 21: 0n, 22: 10_00n });
  });

  test("goes if a person took it back, and the real sale stays with no partner", () => {
    const taken = decide("take_back");
    expect(movesOf(row, taken, withdraw(row), sale({ receivedAt: later }))).toEqual(movesOf(row, taken));
  });

  test("goes also in an order that settle remembered before it remembered claims", () => {
    const before = { ...stateAfter([row, refund({ product_id: "sku1", value_minor: 30_00n })]), words: null };
    const undo = withdraw(row);
    expect(stateAfter([undo], before)).toMatchObject({ lines: [], refunds: [{ product_key: "sku1" }] });
  });
});

describe("a sale that others have reported too", () => {
  const server = sale({ value_minor: 100_00n });
  test("is as without the row that came later: its credit is that of the first", () => {
    const row = fileSale({ partner: 22, value_minor: 90_00n });
    const claims = [server, row, withdraw(row)];
    expect(earnedIn(...claims)).toEqual({ 21: 10_00n });
    expect(rowOf(stateAfter(claims).lines[0]!).event.value_minor).toBe(100_00n);
    expect(rowsOf(...claims).get(row.id)).toMatchObject({ version: 2, merged_into: server.id });
  });

  test("moves no money if the row had added nothing", () => {
    const row = fileSale({ value_minor: 100_00n });
    expect(movesOf(server, row, withdraw(row))).toEqual(["credited 21 10000 -"]);
  });

  test("stays gone if refunds have left nothing of it, whatever amount is withdrawn", () => {
    const page = pixelSale({ value_minor: 33_00n });
    const row = fileSale({ value_minor: 100_00n, receivedAt: later });
    const said = [page, refund({ value_minor: null }), row, withdraw(row)];
    expect(movesOf(...said)).toEqual(["credited 21 3300 -", "reversed 21 3300 other"]);
    expect(rowsOf(...said).get(page.id)?.event.value_minor).toBe(33_00n);
  });

  test("loses the credit that only the row gave it", () => {
    const open = sale({ partner: null });
    const row = fileSale({ partner: 22 });
    expect(movesOf(open, row, withdraw(row))).toEqual(["credited 22 10000 -", "reversed 22 10000 import_undone"]);
    expect(rowsOf(open, row, withdraw(row)).get(open.id)).toMatchObject({ credit: { partner_id: null }, version: 3 });
  });

  test("is the server's if the row came first, under the server's own event", () => {
    const row = fileSale({ partner: 22, value_minor: 90_00n });
    const claims = [row, server, withdraw(row)];
    expect(earnedIn(...claims)).toEqual({ 21: 10_00n, 22: 0n });
    const rows = rowsOf(...claims);
    expect(rows.get(server.id)).toMatchObject({ version: 2, merged_into: null, credit: { partner_id: 21 } });
    expect(rows.get(row.id)).toMatchObject({ merged_into: server.id, credit: { reason: "import_undone" } });
  });

  test("keeps what a person has decided before the server's copy came", () => {
    const row = fileSale();
    const given = decide("reattribute", { partner_id: 22 });
    expect(earnedIn(row, given, server, withdraw(row))).toEqual({ 21: 0n, 22: 10_00n });
  });

  test("keeps a decision about a lead of the file, by the lead's next copy", () => {
    const of = { t: "lead_submit", order_id: null, product_id: null, lead_key: "k", order_key: "l:k" };
    const row = fileSale({ ...of, event_id: "00000000-0000-8000-8001-000000000001" });
    const copy = pixelSale(of);
    const said = {
      kind: "reattribute",
      ...{ decision_id: "00000000-0000-8000-8001-000000000002", actor: "user:ana" },
      ...{
        partner_id: 22,
        campaign_id: null,
        reason: "agreed",
        at: noon,
        flags: [],
        review_from: 101,
        reject_from: 101,
      },
    } as const;
    const given = recorded(
      topics.claims,
      { ...decisionOnLine(clientId, row.data.attributed.event, said), order_key: "l:k" },
      { at: noon },
    );
    const { conversions } = settled(row, copy, given, withdraw(row));
    expect(conversions.at(-1)?.data).toMatchObject({ kind: "credited", partner_id: 22, event_id: copy.id });
  });

  test("of two files stays with the one that was not undone", () => {
    const one = fileSale({ partner: 22 });
    const other = fileSale({ import_id: "imp_2" });
    expect(earnedIn(one, other, withdraw(one))).toEqual({ 21: 10_00n, 22: 0n });
    expect(earnedIn(one, other, withdraw(one), withdraw(other))).toEqual({ 21: 0n, 22: 0n });
    expect(earnedIn(one, other, withdraw(other), withdraw(one))).toEqual({ 22: 0n });
  });

  test("is not withdrawn under the id of a row that was never its own", () => {
    const row = fileSale({ event_id: server.id });
    expect(movesOf(server, withdraw(row))).toEqual(movesOf(server));
  });
});

describe("the claims that are remembered for it", () => {
  test("cost an order without a file nothing", () => {
    expect(stateAfter([sale(), pixelSale(), refund({ value_minor: 1n })]).words).toBeNull();
    expect(stateAfter([fileSale()]).words).toBeNull();
  });

  test("are the newest twenty claims, and older ones count as the order before them", () => {
    const row = fileSale();
    const many = [row, ...Array.from({ length: 30 }, (_, n) => fileSale({ product_id: `p${n % 5}` }))];
    const state = stateAfter(many);
    expect(state.words!.claims).toHaveLength(20);
    expect(state.words!.written.length).toBeLessThan(40);
    const last = many.at(-1)!;
    expect(stateAfter([...many, withdraw(last)]).lines).toHaveLength(6);
  });

  test("are none in an order of many lines, of which those of the file alone go all the same", () => {
    const rows = Array.from({ length: 40 }, (_, n) => fileSale({ product_id: `p${n}` }));
    expect(stateAfter(rows).words).toBeNull();
    expect(earnedIn(...rows, ...rows.map((row) => withdraw(row)))).toEqual({ 21: 0n });
    expect(stateAfter([...rows, ...rows.map((row) => withdraw(row))]).lines).toEqual([]);
  });

  test("end with the last row of a file", () => {
    const row = fileSale();
    expect(stateAfter([row, sale()]).words).not.toBeNull();
    expect(stateAfter([row, sale(), withdraw(row)]).words).toBeNull();
  });
});
