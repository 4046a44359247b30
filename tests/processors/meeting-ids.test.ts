// Ids by which two messages meet have one spelling, and a placeholder meets nothing.
import { expect, test } from "vitest";
import { codeOf } from "../../domain/conditions/props.ts";
import { identifyFor } from "../../domain/device-id.ts";
import { isPlaceholder, meetingId, spelling } from "../../domain/ids.ts";
import { subjectsOf } from "../../domain/personal/suppression.ts";
import { orderKeyOf } from "../../processors/attribute/claims.ts";
import { orderMemory } from "../../processors/settle/memory.ts";
import { emptyOrder, type OrderState } from "../../processors/settle/order.ts";
import { settle } from "../../processors/settle/settle.ts";
import { received } from "../support/builders.ts";
import { refund, sale, settled } from "../support/money-builders.ts";

const spellings = [" A-1 ", "A-1\t", "A\u200b-1", "\ufeffA-1", "A\u00ad-1", "\u2060A-1"];
test.each(spellings)("%j is spelled A-1", (text) => expect(spelling(text)).toBe("A-1"));
test("two encodings of an accent are one id", () =>
  expect(spelling("a\u0301".normalize("NFD"))).toBe("a\u0301".normalize("NFC")));
test("a spelling stays as it is when it is spelled again", () => {
  for (const text of [...spellings, "\u2000a\u200d\u0301 ", "a b"])
    expect(spelling(spelling(text))).toBe(spelling(text));
});
const placeholders = ["null", "undefined", "None", "0", "n/a", "TEST", "000", "NaN", "-", "[object Object]", "false"];
test.each(placeholders)("%s is a placeholder, which meets nothing", (text) => {
  expect(isPlaceholder(text)).toBe(true);
  expect(meetingId(` ${text}`)).toBeNull();
});
test.each(["100", "0-1", "nulla", "A"])("%s is an id", (text) => expect(meetingId(text)).toBe(text));
test("codes compare without case and outer space", () => {
  expect(codeOf(" AÑO10\t")).toBe(codeOf("año10"));
  expect(codeOf("A B")).not.toBe(codeOf("AB"));
});
test("installs of guests do not meet", () => {
  const install = { ...received({ t: "install", event_id: "e1" }), order_id: null };
  expect(orderKeyOf(install)).toBe(`i:${install.did}`);
  expect(orderKeyOf({ ...install, warnings: ["weak_did"] })).toBe("e:e1");
});
test("an erasure names the device as it was sent before, and as it is spelled now", () => {
  const identify = identifyFor(Buffer.alloc(32, 7), 10);
  expect(subjectsOf("did", " phone ", identify)).toEqual([identify.plain(" phone "), identify.plain("phone")]);
});

/** The order as it was remembered before ids had one spelling. */
const asBefore = (state: OrderState): OrderState => ({
  ...state,
  lines: state.lines.map((line) => ({ ...line, product_key: ` ${line.product_key}` })),
});
const nextOf = (claim: Parameters<typeof settle>[0], state: OrderState) => {
  const outcome = settle(claim, state, null);
  if (outcome.kind !== "emit") throw new Error(outcome.kind);
  return { state: outcome.state as OrderState, outputs: outcome.events.map(({ output }) => output) };
};
test("a copy and a refund meet the line whose product was stored with a space", () => {
  const before = asBefore(nextOf(sale({ product_id: "a" }), emptyOrder).state);
  const copied = nextOf(sale({ product_id: "a" }), before);
  expect(copied.outputs).toEqual(["attributed"]);
  expect(copied.state.lines.map(({ product_key, copies }) => [product_key, copies])).toEqual([[" a", 1]]);
  const { lines } = nextOf(refund({ product_id: "a", value_minor: 30_00n }), before).state;
  expect(lines.map(({ refunded_minor }) => refunded_minor)).toEqual([30_00n]);
});

test("a large order remembers in which parts such lines lie, and looks in all of them once", () => {
  const memory = orderMemory(1);
  const key = "7:o:o1";
  const values = new Map<string, Uint8Array>();
  const step = (claim: Parameters<typeof settle>[0], change = (state: OrderState) => state): number => {
    const read = (one: string) => (values.has(one) ? memory.decode(values.get(one)!) : undefined);
    const further = memory.furtherKeysOf!({ ...claim, key }, [read(key)]);
    const keys = [key, ...further];
    const before = memory.stateOf(keys, keys.map(read)) as OrderState;
    const after = change(nextOf(claim, before).state);
    for (const one of memory.changes!(keys, before, after)) values.set(one.key, memory.encode(one.value));
    return further.length;
  };
  step(sale({ product_id: "a" }), asBefore);
  step(sale({ product_id: "b" }));
  const head = JSON.parse(Buffer.from(values.get(key)!).toString());
  expect(head.parts.spelled_otherwise).toHaveLength(1);
  // As a head of before, which says nothing of it.
  const { spelled_otherwise: _, ...parts } = head.parts;
  values.set(key, Buffer.from(JSON.stringify({ ...head, parts })));
  expect(step(sale({ product_id: "c" }))).toBe(256);
  expect(step(sale({ product_id: "a" }))).toBe(4);
  const known = [...values].flatMap(([one, bytes]) => (one === key ? [] : (memory.decode(bytes) as OrderState).lines));
  expect(known.map(({ product_key, copies }) => [product_key, copies]).sort()).toEqual([
    [" a", 1],
    ["b", 0],
    ["c", 0],
  ]);
});

test("two refunds whose refund_id is spelled otherwise are one, and a placeholder is none", () => {
  const of = (refund_id: string) => refund({ value_minor: 10_00n, props: JSON.stringify({ refund_id }) });
  const takenOf = (...ids: string[]) =>
    settled(sale(), ...ids.map(of))
      .conversions.filter(({ data }) => data.kind === "reversed")
      .map(({ data }) => data.value_minor);
  expect(takenOf("R1", " R1", "R\u200b1")).toEqual([10_00n]);
  expect(takenOf("null", "null")).toEqual([10_00n, 10_00n]);
});
