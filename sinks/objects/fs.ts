// sinks/objects/fs.ts - object storage in a folder: written under a temporary name, synced, then renamed, so that a crash leaves all of an object or none.
import { randomUUID } from "node:crypto";
import { link, mkdir, open, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { checkKey, ObjectMissing, type Objects, type StoredObject } from "./objects.ts";

/** No key begins with a dot in front of a part of its own, so a draft is never listed. */
const DRAFTS = ".drafts";

const codeOf = (error: unknown): string | undefined => (error as { code?: string }).code;

/** Makes the entry in the folder last, as the sync of the file made its content last. */
const syncFolder = async (folder: string): Promise<void> => {
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
};

/** `folder` is made when it is missing. */
export const fsObjects = (folder: string): Objects => {
  const pathOf = (key: string): string => join(folder, checkKey(key));

  const draft = async (body: Uint8Array): Promise<string> => {
    const path = join(folder, DRAFTS, randomUUID());
    await mkdir(dirname(path), { recursive: true });
    const handle = await open(path, "wx");
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

  const walk = async function* (under: string, prefix: string, after: string): AsyncIterable<StoredObject> {
    const entries = await readdir(join(folder, under), { withFileTypes: true }).catch((error) => {
      if (codeOf(error) === "ENOENT") return [];
      throw error;
    });
    // A folder stands where its keys stand: `a/` sorts after `a-`, so names of folders are compared with their slash.
    const named = entries
      .filter(({ name }) => under !== "" || name !== DRAFTS)
      .map((entry) => ({ entry, name: entry.isDirectory() ? `${entry.name}/` : entry.name }))
      .sort((a, b) => (a.name < b.name ? -1 : 1));
    for (const { entry, name } of named) {
      const key = under + name;
      if (entry.isDirectory()) {
        const isOnTheWay = key.startsWith(prefix) || prefix.startsWith(key);
        if (isOnTheWay && (after < key || after.startsWith(key))) yield* walk(key, prefix, after);
      } else if (key.startsWith(prefix) && key > after) {
        // Deleted meanwhile: then it is not there.
        const found = await stat(join(folder, key)).catch(() => undefined);
        if (found !== undefined) yield { key, bytes: found.size };
      }
    }
  };

  return {
    put: async (key, body) => {
      const path = pathOf(key);
      const from = await draft(body);
      await mkdir(dirname(path), { recursive: true });
      await rename(from, path);
      await syncFolder(dirname(path));
    },
    putNew: async (key, body) => {
      const path = pathOf(key);
      const from = await draft(body);
      try {
        await mkdir(dirname(path), { recursive: true });
        await link(from, path);
        await syncFolder(dirname(path));
        return true;
      } catch (error) {
        if (codeOf(error) === "EEXIST") return false;
        throw error;
      } finally {
        await rm(from, { force: true });
      }
    },
    get: async (key) => {
      try {
        return await readFile(pathOf(key));
      } catch (error) {
        if (codeOf(error) === "ENOENT") throw new ObjectMissing(key);
        throw error;
      }
    },
    // Begins in the folder that the prefix names: a store with years of hours is not read from its top.
    list: (prefix, after = "") => walk(prefix.slice(0, prefix.lastIndexOf("/") + 1), prefix, after),
    delete: async (key) => rm(pathOf(key), { force: true }),
    close: async () => undefined,
  };
};
