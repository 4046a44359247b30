// A body that is read in parts equals JSON.parse of it. A body that would cost too much is refused
// before it is parsed, and the answer says what to change.
import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { expect, test } from "vitest";
import { acceptsBatch, admitBatch, findBatch, readBatch } from "../../processors/admit/batch.ts";
import { BadBody } from "../../stream/flow.ts";
import { noon } from "../support/builders.ts";
import { pageView, token } from "../support/shop.ts";

/** The result of the steps, and the number of places at which other work could run. */
const ran = <T>(steps: Iterator<void, T>): { readonly value: T; readonly turns: number } => {
  let turns = 0;
  for (let step = steps.next(); ; step = steps.next()) {
    if (step.done === true) return { value: step.value, turns };
    turns += 1;
  }
};
const found = (body: string) => ran(findBatch(Buffer.from(body))).value;

const outcome = (body: string): unknown => {
  try {
    return acceptsBatch(Buffer.from(body)).events;
  } catch (problem) {
    if (problem instanceof BadBody) return problem.code;
    throw problem;
  }
};
const expected = (body: string): unknown => {
  try {
    const events = JSON.parse(body)?.events;
    return Array.isArray(events) && events.length > 0 ? events : "bad_events";
  } catch {
    return "bad_json";
  }
};
/** Some items are longer than a part, so that there are several parts. */
const long = fc.integer({ min: 60_000, max: 140_000 }).map((length) => '\\",[{"'.repeat(length / 6));
const item = fc.oneof({ weight: 5, arbitrary: fc.jsonValue() }, { weight: 1, arbitrary: long });
const space = fc.constantFrom("", " ", "\n\t", "  \r\n");
const bodies = fc
  .record({
    events: fc.array(item, { maxLength: 8 }),
    before: fc.dictionary(fc.constantFrom("a", "events", "\u00e9", 'x"events'), fc.jsonValue(), { maxKeys: 2 }),
    after: fc.constantFrom(
      "",
      ',"v":1',
      ',"events":[7]',
      ',"\\u0065vents":[8]',
      ',"events":null',
      ',"x":{"events":[9]}',
    ),
    spaces: fc.tuple(space, space, space),
  })
  .map(({ events, before, after, spaces: [a, b, c] }) => {
    const first = JSON.stringify(before).slice(1, -1);
    const list = events.map((each) => `${b}${JSON.stringify(each)}${c}`).join(",");
    return `{${first}${first === "" ? "" : ","}${a}"events"${b}:${c}[${list}]${a}${after}}`;
  });

/** At most this much is read beside the list. */
const MAX_REST = 65_536;
/**
 * Two values named events, of which the last is no list for our reader: it is refused, never
 * guessed.
 */
const standsTwice = /vents.*vents/s;
const readsAs = (body: string): boolean => {
  const [found, wanted] = [outcome(body), expected(body)];
  if (isDeepStrictEqual(found, wanted)) return true;
  const isRefused = found === "bad_json" || found === "bad_events";
  return isRefused && (typeof wanted === "string" || body.length > MAX_REST || standsTwice.test(body));
};

test("any body with a list of events is read as JSON.parse reads it", () => {
  fc.assert(fc.property(bodies, readsAs), { numRuns: 300 });
});
test("large bodies are read too, in several parts", () => {
  const body = JSON.stringify({
    v: 1,
    events: Array.from({ length: 3_000 }, (_, n) => ({ n, x: ']},{["'.repeat(n % 40) })),
  });
  expect(found(body).layout.parts.length).toBeGreaterThan(3);
  expect(outcome(body)).toEqual(expected(body));
});

test("a part holds the keys of about ten milliseconds of parsing at most, however short they are", () => {
  const event = (n: number) =>
    `{${Array.from({ length: 100 }, (_, key) => `"k${(n * 100 + key).toString(36)}":1`).join(",")}}`;
  const body = `{"events":[${Array.from({ length: 600 }, (_, n) => event(n)).join(",")}]}`;
  const { parts } = found(body).layout;
  expect(Math.max(...parts.map(({ keys }) => keys))).toBeLessThanOrEqual(2_000 + 100);
  expect(parts.reduce((sum, { keys }) => sum + keys, 0)).toBe(60_000);
  expect(outcome(body)).toEqual(expected(body));
});

test("a body with one byte changed, cut or doubled is refused when JSON.parse refuses it, and only then", () => {
  const marks = fc.constantFrom('"', "\\", "{", "}", "[", "]", ",", ":", " ", "0", "\u0001");
  fc.assert(
    fc.property(bodies, fc.double({ min: 0, max: 0.999, noNaN: true }), fc.option(marks), (body, place, mark) => {
      const at = Math.floor(place * body.length);
      const damaged = mark === null ? body.slice(0, at) : body.slice(0, at) + mark + body.slice(at + 1);
      return readsAs(damaged);
    }),
    { numRuns: 500 },
  );
});

const padding = "x".repeat(70_000);
test.each([
  "1,,2",
  "1,",
  ",1",
  `"${padding}",,2`,
  `"${padding}",`,
  `,"${padding}"`,
  `"${padding}" 2`,
  `{"a":"${padding}"]`,
])("a list that is no JSON is refused, wherever its parts end: %#", (list) =>
  expect(outcome(`{"events":[${list}]}`)).toBe("bad_json"),
);

const arrival = { receivedAt: noon, sender: "7", address: null, header: () => undefined };
const codesOf = (events: readonly string[]): readonly string[] =>
  [...admitBatch(acceptsBatch(`{"events":[${events.join(",")}]}`), arrival, token())].map((one) =>
    one.kind === "accepted" ? "accepted" : one.refusal.code,
  );
const good = JSON.stringify(pageView());
const many = (count: number, of: (n: number) => string): string =>
  Array.from({ length: count }, (_, n) => of(n)).join();

test("an event that would cost too much to parse is refused alone, and its neighbours are taken", () => {
  const keys = `{"props":{${many(20_000, (n) => `"k${n}":1`)}}}`;
  const texts = `{"props":{"x":[${many(200_000, (n) => `"${n}"`)}]}}`;
  const size = `{"props":{"x":"${"\\u00e9".repeat(400_000)}"}}`;
  expect(codesOf([good, keys, good, texts, size, good])).toEqual([
    "accepted",
    "too_many_keys",
    "accepted",
    "event_too_large",
    "event_too_large",
    "accepted",
  ]);
});

test("ten thousand events of sixty keys are taken, in parts between which others have their turn", () => {
  const one = `{${many(60, (n) => `"key_number_${n}":${n}`)}}`;
  const { value, turns } = ran(readBatch(found(`{"events":[${new Array(10_000).fill(one).join()}]}`)));
  expect(value.events.length).toBe(10_000);
  expect(turns).toBeGreaterThan(100);
});

const MIB = 1_048_576;
test.each([
  ["values", "[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]\n"],
  ["one text", "x"],
  ["escapes", '\\"'],
  ["white space", " "],
])("others have their turn after each mebibyte that is looked through: %s", (kind, one) => {
  const filling = one.repeat((24 * MIB) / one.length);
  const list = kind === "values" ? filling.trim().replaceAll("\n", ",") : `"${filling}"`;
  const events = kind === "white space" ? `${filling}1` : kind === "values" ? `[${list}]` : list;
  const { value, turns } = ran(findBatch(Buffer.from(`{"events":[${events}]}`)));
  expect(value.layout.parts.length).toBeGreaterThan(0);
  expect(turns).toBeGreaterThanOrEqual(23);
});
test("a body of ordinary size takes no turn of its own", () => {
  expect(ran(findBatch(Buffer.from(`{"events":[${new Array(1_000).fill(good).join()}]}`))).turns).toBe(0);
});

test("a list that ends with a brace is no JSON", () => {
  expect(outcome('{"events":[{"t":"page_view"}}}')).toBe("bad_json");
  expect(outcome(`{"events":[1},"x":[2]}`)).toBe("bad_json");
});

test.each([
  ["1.7 million different keys", `{"events":[{${many(1_700_000, (n) => `"${n.toString(36)}":1`)}}]}`, "1000000 keys"],
  ["objects and lists alone", `{"events":[[${"[],".repeat(400_000)}1]]}`, "400000 objects and lists"],
  ["ten thousand events and one", `{"events":[${"1,".repeat(10_000)}1]}`, "send 1 to 10000"],
  ["texts beside the events", `{"events":[1],"x":[${many(20_000, (n) => `"${n}"`)}]}`, 'send {"events": [...]}'],
])("%s are refused before they are parsed, with a way out", (_, body, cure) => {
  expect(() => found(body)).toThrow(cure);
});
