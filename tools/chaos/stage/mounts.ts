// Small file systems under the folders of servers, so that a full disk is a real one. They need a
// mount space of our own.
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Size of each file system in MiB: a short run fits in, and one file can fill the rest. */
const SIZES = { kafka: 700, clickhouse: 500, objects: 100, spool: 60 } as const;
export type MountedFolder = keyof typeof SIZES;
const mountedFolders = Object.keys(SIZES) as readonly MountedFolder[];
const FILLER = "filler-of-the-disk";
const MIB = 1024 * 1024;

/**
 * The words before a command that run it in a separate mount namespace; null if the system does not
 * permit that, or has none.
 */
export const ownMountSpace = (): readonly string[] | null => {
  const words = ["unshare", "-m"];
  const { status } = spawnSync(words[0]!, [...words.slice(1), "sh", "-c", "mount -t tmpfs -o size=1m tmpfs /mnt"], {
    stdio: "ignore",
  });
  return status === 0 ? words : null;
};

/**
 * Must be called before the stack starts, in a mount space of our own. The mounts end with its last
 * process.
 */
export const mountFolders = (home: string): void => {
  for (const name of mountedFolders) {
    const folder = join(home, name);
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${SIZES[name]}m,mode=0755`, "tmpfs", folder]);
  }
};

/** Fills the file system until the system reports ENOSPC. Returns the MiB written. */
export const fill = (home: string, name: MountedFolder): { readonly mib: number; readonly error: string } => {
  const chunk = Buffer.alloc(MIB, 1);
  const file = join(home, name, FILLER);
  writeFileSync(file, "");
  let mib = 0;
  for (let size = MIB; size >= 4_096; ) {
    try {
      writeFileSync(file, chunk.subarray(0, size), { flag: "a" });
      if (size === MIB) mib += 1;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code !== "ENOSPC") throw error;
      size /= 16;
    }
  }
  const { bavail } = statfsSync(join(home, name));
  return { mib, error: bavail === 0 ? "ENOSPC, no block is left" : `ENOSPC, ${bavail} blocks are left` };
};
export const empty = (home: string, name: MountedFolder): void => rmSync(join(home, name, FILLER), { force: true });
