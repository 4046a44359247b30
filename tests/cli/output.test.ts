// The output of the command line: texts of events cannot control the terminal, and a reader may
// close the pipe early.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { expect, test, vi } from "vitest";
import { print, printJson, table, tell, visible, visibleLine } from "../../infra/runtime/output.ts";

test("a reader that leaves early gets no stack trace", async () => {
  const command = "dist/apps/cli/main.js";
  expect(existsSync(command), "compiled before tests").toBe(true);
  const child = spawn(process.execPath, [command, "dlq", "retry", "--help"], { stdio: ["ignore", "pipe", "pipe"] });
  child.stdout.destroy();
  let said = "";
  child.stderr.on("data", (chunk) => {
    said += chunk;
  });
  const code = await new Promise((resolve) => child.once("close", resolve));
  expect({ code, said }).toEqual({ code: 0, said: "" });
});

/** C0, DEL and C1, and characters that change the direction of text. */
const obeyed = [
  ...Array.from({ length: 0x20 }, (_, n) => n),
  ...Array.from({ length: 0x21 }, (_, n) => 0x7f + n),
  ...[0x200e, 0x200f, 0x202a, 0x202e, 0x2066, 0x2069],
].map((code) => String.fromCharCode(code));
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const ESCAPES = /[\0-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/;

test("what a terminal obeys is written out, in a text as in a cell, and all else stays", () => {
  for (const sign of obeyed) {
    expect(visible(`a${sign}b`)).not.toMatch(ESCAPES);
    expect(visibleLine(`a${sign}b`)).toBe(`a\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}b`);
  }
  expect(visible("two\nlines\tÑandú 🎧")).toBe("two\nlines\tÑandú 🎧");
  const rows = table(["order"], [["\u001b]0;owned\u0007"], ["\u009b2J\nsecond row"]]).split("\n");
  expect(rows.slice(2)).toEqual(["\\u001b]0;owned\\u0007", "\\u009b2J\\u000asecond row"]);
});

test("every way to print escapes it", () => {
  const written: string[] = [];
  const write = (text: unknown) => written.push(String(text)) > 0;
  const spies = [process.stdout, process.stderr].map((stream) => vi.spyOn(stream, "write").mockImplementation(write));
  try {
    print("\u001b[31mred");
    tell("\u009b31mred");
    printJson({ order_id: "\u007f\u0085" });
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
  expect(written).toHaveLength(3);
  for (const text of written) expect(text).not.toMatch(ESCAPES);
});
