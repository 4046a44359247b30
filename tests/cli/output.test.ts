// What a terminal would obey is written out: texts of events come from anybody.
import { expect, test } from "vitest";
import { table, visible, visibleLine } from "../../infra/runtime/output.ts";

test("control characters and turns of direction are written as JSON escapes them", () => {
  expect(visible("a\x1b]0;title\x07b\x7f\x9b2J\u202ec\0")).toBe(
    "a\\u001b]0;title\\u0007b\\u007f\\u009b2J\\u202ec\\u0000",
  );
});

test("lines and tabs of our own stay, those of a cell do not make another row", () => {
  expect(visible("a\n\tb")).toBe("a\n\tb");
  expect(visibleLine("a\n\tb\r")).toBe("a\\u000a\\u0009b\\u000d");
  expect(table(["order"], [["A-1\n9 | paid\x1b[2K"]]).split("\n")).toHaveLength(3);
});

test("JSON stays JSON of the same value", () => {
  const value = { name: "\x7f\x9b\u202e" };
  expect(JSON.parse(visible(JSON.stringify(value)))).toEqual(value);
});

test("ordinary text is left as it is", () => {
  const text = "Año 2026: 1 234,50 € – José 🚀";
  expect(visible(text)).toBe(text);
});
