// Events that wait in files can only be read by the account of the process, whatever its umask.
import { lstatSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { fsObjects } from "../../infra/objects/fs.ts";
import { openSpool } from "../../infra/spool/spool.ts";

const root = mkdtempSync(join(tmpdir(), "private-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** Permissions of a folder and of everything in it. */
const modesIn = (folder: string) => {
  const modes = { folders: new Set<string>(), files: new Set<string>() };
  for (const name of [".", ...readdirSync(folder, { recursive: true, encoding: "utf8" })]) {
    const found = lstatSync(join(folder, name));
    // The note of the holder leads nowhere, and a link has no mode of its own.
    if (found.isSymbolicLink()) continue;
    modes[found.isDirectory() ? "folders" : "files"].add((found.mode & 0o777).toString(8));
  }
  return { folders: [...modes.folders], files: [...modes.files] };
};

test("objects in a folder, their drafts and the folders around them", async () => {
  const folder = join(root, "objects");
  const objects = fsObjects(folder);
  await objects.put("archive/events.raw/one", Buffer.from("a"));
  await objects.putNew("last-resort/two", Buffer.from("b"));
  expect(modesIn(folder)).toEqual({ folders: ["700"], files: ["600"] });
});

test("the spool of an edge", async () => {
  const folder = join(root, "spool", "ingest");
  const spool = await openSpool({ folder, schemas: {} });
  await spool.append([{ topic: "notes", key: null, value: Buffer.from("a") }], "s2s");
  const modes = modesIn(folder);
  await spool.close();
  expect(modes).toEqual({ folders: ["700"], files: ["600"] });
});
