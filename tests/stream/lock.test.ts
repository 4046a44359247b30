// A folder has one holder, even when several processes start at the same time on the stale note of
// a dead one.
import { mkdtempSync, readdirSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test, vi } from "vitest";
import { holderIn, LockHeld, lockFile, startOf } from "../../infra/runtime/lock.ts";

/** The action of another process between the check of a stale note and its removal. */
let meanwhile: () => void = () => undefined;
vi.mock("node:fs", async (original) => {
  const fs = await original<typeof import("node:fs")>();
  return {
    ...fs,
    renameSync: (...paths: Parameters<typeof fs.renameSync>) => {
      meanwhile();
      fs.renameSync(...paths);
    },
  };
});

const folder = mkdtempSync(join(tmpdir(), "lock-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const file = join(folder, "lock.json");
const stale = () => symlinkSync(`${process.pid} long ago`, file);
const faster = `${process.ppid} ${startOf(process.ppid)}`;

test("a starter that takes away the note of a faster one gives it back", () => {
  stale();
  meanwhile = () => {
    rmSync(file);
    symlinkSync(faster, file);
  };
  expect(() => lockFile(file)).toThrow(LockHeld);
  expect(readlinkSync(file)).toBe(faster);
  expect(readdirSync(folder)).toEqual(["lock.json"]);
  rmSync(file);
});

test("a stale note that another starter has taken away holds no lock", () => {
  stale();
  meanwhile = () => rmSync(file);
  const unlock = lockFile(file);
  expect(holderIn(file)).toMatchObject({ pid: process.pid });
  unlock();
  expect(readdirSync(folder)).toEqual([]);
});

test("a note of the release before, which is a file, holds the folder while its process lives", () => {
  meanwhile = () => undefined;
  writeFileSync(file, JSON.stringify({ pid: process.ppid, started: startOf(process.ppid) }));
  expect(() => lockFile(file)).toThrow(LockHeld);
  writeFileSync(file, JSON.stringify({ pid: process.ppid, started: "long ago" }));
  lockFile(file)();
  writeFileSync(file, '{"pid":');
  lockFile(file)();
  expect(readdirSync(folder)).toEqual([]);
});
