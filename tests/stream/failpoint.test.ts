// A crash test can kill a process at a named place and prove it; production cannot.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";

const folder = mkdtempSync(join(tmpdir(), "failpoint-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const program =
  'import { hit } from "#failpoint"; ' +
  'for (let n = 0; n < 5; n++) { hit("after-produce"); hit("before-commit"); } console.log("done");';

const ran = (name: string, conditions: string[], failpoints: string) => {
  const log = join(folder, name);
  const { signal, stdout } = spawnSync(process.execPath, [...conditions, "--input-type=module", "-e", program], {
    env: { ...process.env, FAILPOINTS: failpoints, FAILPOINT_LOG: log },
    encoding: "utf8",
  });
  let passings: string[] = [];
  try {
    passings = readFileSync(log, "utf8").trim().split("\n");
  } catch {
    // Without a passed failpoint there is no file.
  }
  return { signal, stdout: stdout.trim(), passings };
};

test("an armed process dies by SIGKILL at the n-th passing, and the file proves it", () => {
  const { signal, stdout, passings } = ran("armed", ["--conditions=faults"], "after-produce=3");
  expect({ signal, stdout }).toEqual({ signal: "SIGKILL", stdout: "" });
  expect(passings.length).toBe(5);
  expect(passings.at(-1)).toMatch(/^\d+ after-produce 3 killed$/);
});

test("an armed process that meets no failpoint of its own runs to its end", () => {
  const { signal, stdout, passings } = ran("unmet", ["--conditions=faults"], "elsewhere=1");
  expect({ signal, stdout, passings: passings.length }).toEqual({ signal: null, stdout: "done", passings: 10 });
});

test("without the condition no variable can arm it", () => {
  expect(ran("unarmed", [], "after-produce=1")).toEqual({ signal: null, stdout: "done", passings: [] });
});
