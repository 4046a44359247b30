// Two rules of scripts/lints.mjs: names that are left from before the rule, and subjects of
// commits.
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

const folder = mkdtempSync(join(tmpdir(), "tributary-lints-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const git = (...args: string[]): string =>
  execFileSync("git", ["-c", "user.name=t", "-c", "user.email=t@example.com", ...args], {
    cwd: folder,
    encoding: "utf8",
  });
const write = (file: string, text: string): void => writeFileSync(join(folder, file), text);
const lints = (...args: string[]) => {
  const { status, stderr } = spawnSync(process.execPath, ["scripts/lints.mjs", ...args], {
    cwd: folder,
    encoding: "utf8",
  });
  return { status, lines: stderr.trim().split("\n") };
};
const names = (): string => readFileSync(join(folder, "scripts/lints.names"), "utf8");
/** Passes and prints nothing. */
const fine = { status: 0, lines: [""] };

beforeAll(() => {
  mkdirSync(join(folder, "scripts"));
  mkdirSync(join(folder, "domain"));
  cpSync("scripts/house", join(folder, "scripts/house"), { recursive: true });
  cpSync("scripts/lints.mjs", join(folder, "scripts/lints.mjs"));
  write("scripts/lints.allowed", "");
  symlinkSync(resolve("node_modules"), join(folder, "node_modules"));
  // The scripts do the check and are not checked themselves.
  write(".gitignore", "node_modules\nscripts\n");
  git("init", "-q");
  write("domain/way.ts", "export interface Asked {}\nexport type Known = 1;\n");
  write("scripts/lints.names", "file way 1\ntype Asked 1\ntype Known 1\n");
});

describe("names of before the rule", () => {
  test("may be as many as the list says", () => expect(lints()).toEqual(fine));

  test("one more is refused with its place", () => {
    write("domain/order.ts", "export interface Asked {}\nexport interface Given {}\n");
    expect(lints()).toMatchObject({
      status: 1,
      lines: [
        "names: type Asked 2 of 1: domain/order.ts, domain/way.ts; name it by a noun, e.g. Request, Match",
        "names: type Given 1 of 0: domain/order.ts; name it by a noun, e.g. Request, Match",
        expect.stringContaining("2 places"),
      ],
    });
    lints("--lower");
    expect(names(), "the list is never raised").toBe("file way 1\ntype Asked 1\ntype Known 1\n");
    write("domain/order.ts", "export interface Order {}\n");
  });

  test("one fewer must leave the list, and one command does it", () => {
    write("domain/way.ts", "export interface Request {}\nexport type Known = 1;\n");
    expect(lints().lines[0]).toBe(
      "names: scripts/lints.names allows type Asked 1: there are 0; lower it: node scripts/lints.mjs --lower",
    );
    expect(lints("--lower")).toEqual(fine);
    expect(names()).toBe("file way 1\ntype Known 1\n");
  });

  test("the same command ends a conflict of two branches", () => {
    write("scripts/lints.names", "<<<<<<< a\nfile way 2\n=======\nfile way 1\n>>>>>>> b\ntype Known 1\n");
    expect(lints("--lower")).toEqual(fine);
    expect(names()).toBe("file way 1\ntype Known 1\n");
  });
});

describe("subjects of commits", () => {
  const long = `Say ${"more ".repeat(16)}`.trim();

  test("are not looked at where the first commit of the rule is not there", () => {
    git("add", ".");
    git("commit", "-q", "-m", long);
    expect(lints()).toEqual(fine);
  });

  test("are at most 72 columns after it, unless the list of exceptions names the commit", () => {
    const first = git("rev-parse", "--short=8", "HEAD").trim();
    const subjects = readFileSync(join(folder, "scripts/house/subjects.mjs"), "utf8");
    write("scripts/house/subjects.mjs", subjects.replace(/FIRST = "\w+"/, `FIRST = "${first}"`));
    expect(lints(), "the first one is of before the rule").toEqual(fine);
    git("commit", "-q", "--allow-empty", "-m", `${"x".repeat(72)}\n\n${long}`);
    expect(lints()).toEqual(fine);
    git("commit", "-q", "--allow-empty", "-m", long);
    const hash = git("log", "-1", "--format=%h").trim();
    expect(lints().lines[0]).toBe(`subject: ${hash} ${long.length} of 72 columns: ${long}`);
    write("scripts/lints.allowed", `subject ${hash}  # landed\n`);
    expect(lints()).toEqual(fine);
  });
});
