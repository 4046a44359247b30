// What the command line does with its output when the reader has seen enough.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { expect, test } from "vitest";

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
