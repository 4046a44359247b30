// A memoised answer equals the computed one, and the number of answers is bounded.
import fc from "fast-check";
import { expect, test } from "vitest";
import { memo } from "../../domain/memo.ts";

test("answers are those of the function, in whatever order texts are asked for", () =>
  fc.assert(
    fc.property(fc.array(fc.string({ maxLength: 2 })), fc.integer({ min: 1, max: 10 }), (texts, size) => {
      const remembering = memo(size, (text) => (text === "" ? null : text.toUpperCase()));
      expect(texts.map(remembering)).toEqual(texts.map((text) => (text === "" ? null : text.toUpperCase())));
    }),
  ));

test("what is asked for again and again is computed once, also when the answer is null", () => {
  const asked: string[] = [];
  const remembering = memo(4, (text) => {
    asked.push(text);
    return null;
  });
  for (const text of ["a", "b", "a", "c", "a", "d", "a", "e", "a"]) remembering(text);
  expect(asked.filter((text) => text === "a")).toHaveLength(1);
});

test("no more than the size is kept", () => {
  let computed = 0;
  const remembering = memo(10, (text) => {
    computed += 1;
    return text;
  });
  for (let n = 0; n < 100; n += 1) remembering(String(n));
  for (let n = 99; n >= 0; n -= 1) remembering(String(n));
  expect(computed).toBeGreaterThanOrEqual(190);
});

test("a long text is computed each time, and none of it is kept", () => {
  let computed = 0;
  const remembering = memo(10, (text) => {
    computed += 1;
    return text.length;
  });
  for (const _ of [1, 2, 3]) expect(remembering("x".repeat(100_000))).toBe(100_000);
  expect(computed).toBe(3);
});
