// Runs the command line as a person does, with its input on stdin.
import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";
import { root } from "./e2e-product.ts";

/** Resolves when the command has ended. */
export const command = async (env: Readonly<Record<string, string>>, args: readonly string[], input = "") => {
  const child = spawn(process.execPath, ["dist/apps/cli/main.js", ...args], {
    cwd: root,
    env: { ...process.env, ...env },
  });
  child.stdin.end(input);
  const done = new Promise<number | null>((resolve) => child.once("close", resolve));
  const [stdout, stderr, code] = await Promise.all([text(child.stdout), text(child.stderr), done]);
  return { code, stdout, stderr };
};
