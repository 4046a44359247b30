// Object storage in a folder. An object is written under a temporary name, synced and then renamed,
// so that a crash leaves the whole object or none.
import { randomUUID } from "node:crypto";
import { link, mkdir, open, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { checkKey, ObjectMissing, type Objects, type StoredObject } from "./objects.ts";

/** No part of a key begins with a dot, so a draft is never listed. */
const DRAFTS = ".drafts";
/**
 * A draft lives while it is written, which takes seconds; an older one belongs to a process that
 * was killed. Drafts are checked this often.
 */
const DRAFT_MS = 3_600_000;

/** The objects are events and evidence, so no other account of the machine may read them. */
const FOLDER_MODE = 0o700;
const FILE_MODE = 0o600;

const codeOf = (error: unknown): string | undefined => (error as { code?: string }).code;

const unlessMissing = (error: unknown): undefined => {
  if (codeOf(error) !== "ENOENT") throw error;
};

/** Makes the entry in the folder durable, as the sync of the file made its content durable. */
const syncFolder = async (folder: string): Promise<void> => {
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
};

/**
 * Erased data must not live on in a draft. A failed removal does not stop storing: the next sweep
 * tries it again.
 */
const sweeping = (folder: string) => {
  let sweptAt = Number.NEGATIVE_INFINITY;
  return async (): Promise<void> => {
    const now = Date.now();
    if (now - sweptAt < DRAFT_MS) return;
    sweptAt = now;
    for (const name of await readdir(join(folder, DRAFTS)).catch(() => [])) {
      const path = join(folder, DRAFTS, name);
      const found = await stat(path).catch(() => undefined);
      if (found !== undefined && now - found.mtimeMs > DRAFT_MS) await rm(path, { force: true }).catch(() => undefined);
    }
  };
};

/** Returns the path of a synced draft of the object. */
const writeDraft = async (folder: string, body: Uint8Array): Promise<string> => {
  const path = join(folder, DRAFTS, randomUUID());
  await mkdir(dirname(path), { recursive: true, mode: FOLDER_MODE });
  const handle = await open(path, "wx", FILE_MODE);
  try {
    await handle.writeFile(body);
    await handle.sync();
  } catch (error) {
    await handle.close();
    await rm(path, { force: true });
    throw error;
  }
  await handle.close();
  return path;
};

/** Gives the draft its name, and removes it; false when the name is taken. */
const linkNew = async (draft: string, path: string): Promise<boolean> => {
  try {
    await link(draft, path);
    await syncFolder(dirname(path));
    return true;
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false;
    throw error;
  } finally {
    await rm(draft, { force: true });
  }
};

async function* walk(root: string, under: string, prefix: string, after: string): AsyncIterable<StoredObject> {
  const entries = (await readdir(join(root, under), { withFileTypes: true }).catch(unlessMissing)) ?? [];
  // A folder is sorted like its keys: `a/` sorts after `a-`, so names of folders are compared with
  // their slash.
  const named = entries
    .filter(({ name }) => under !== "" || name !== DRAFTS)
    .map((entry) => ({ entry, name: entry.isDirectory() ? `${entry.name}/` : entry.name }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const { entry, name } of named) {
    const key = under + name;
    if (entry.isDirectory()) {
      const isOnTheWay = key.startsWith(prefix) || prefix.startsWith(key);
      if (isOnTheWay && (after < key || after.startsWith(key))) yield* walk(root, key, prefix, after);
    } else if (key.startsWith(prefix) && key > after) {
      // An object that was deleted meanwhile is left out.
      const found = await stat(join(root, key)).catch(unlessMissing);
      if (found !== undefined) yield { key, bytes: found.size, storedAt: Math.floor(found.mtimeMs) };
    }
  }
}

/** `folder` is made if it is missing. */
export const fsObjects = (folder: string): Objects => {
  const pathOf = (key: string): string => join(folder, checkKey(key));
  const sweep = sweeping(folder);
  const draft = async (body: Uint8Array): Promise<string> => {
    await sweep();
    return writeDraft(folder, body);
  };

  return {
    put: async (key, body) => {
      const path = pathOf(key);
      await mkdir(dirname(path), { recursive: true, mode: FOLDER_MODE });
      const from = await draft(body);
      try {
        await rename(from, path);
      } catch (error) {
        await rm(from, { force: true });
        throw error;
      }
      await syncFolder(dirname(path));
    },
    putNew: async (key, body) => {
      const path = pathOf(key);
      // Outside of linkNew: an object that stands where a folder belongs is EEXIST too.
      await mkdir(dirname(path), { recursive: true, mode: FOLDER_MODE });
      return linkNew(await draft(body), path);
    },
    get: async (key) => {
      try {
        return await readFile(pathOf(key));
      } catch (error) {
        if (codeOf(error) === "ENOENT") throw new ObjectMissing(key);
        throw error;
      }
    },
    // Begins in the folder of the prefix, so that a store with years of hours is not read from its
    // top.
    list: (prefix, after = "") => walk(folder, prefix.slice(0, prefix.lastIndexOf("/") + 1), prefix, after),
    delete: async (key) => rm(pathOf(key), { force: true }),
    close: async () => undefined,
  };
};
