// Work that one process of a clone does while the others wait for it.
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { Unprepared } from "./unprepared.mjs";

const WAIT_MS = 15 * 60_000;
const LOOK_MS = 250;
const pause = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

const isAlive = (pid) => {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return error.code === "EPERM";
  }
};

/** The number in the lock; 0 if it is gone. */
const holderOf = (lock) => {
  try {
    return Number(readFileSync(lock, "utf8"));
  } catch {
    return 0;
  }
};

/**
 * Takes the lock for this process. Otherwise returns the number of the process that has it, or 0
 * if it was let go in this moment.
 */
function takeLock(lock) {
  const draft = `${lock}.${process.pid}`;
  writeFileSync(draft, String(process.pid));
  try {
    // A link appears with its content or not at all, and never replaces another one.
    linkSync(draft, lock);
    return undefined;
  } catch (error) {
    if (error.code !== "EEXIST") throw error;
    const holder = holderOf(lock);
    if (holder === 0 || isAlive(holder)) return holder;
    // The lock of a dead process goes; the next look takes it.
    rmSync(lock, { force: true });
    return 0;
  } finally {
    rmSync(draft, { force: true });
  }
}

/**
 * Does the work unless it is done. Only one process of this clone does it at a time: two that
 * install or compile into one folder break each other. The others wait for it.
 * @throws {Unprepared} after 15 minutes of waiting
 */
export function once(lock, isDone, work, wait = WAIT_MS) {
  if (isDone()) return;
  mkdirSync(dirname(lock), { recursive: true });
  const end = Date.now() + wait;
  let shown = 0;
  for (let holder = takeLock(lock); holder !== undefined; holder = takeLock(lock)) {
    if (holder !== 0 && holder !== shown) console.error(`Process ${holder} prepares this clone; waiting for it ...`);
    shown = holder;
    if (Date.now() > end)
      throw new Unprepared(
        `Process ${holder} has prepared this clone for ${Math.round(wait / 60_000)} minutes; end it, or remove ` +
          `${lock} if it is another program.`,
      );
    pause(LOOK_MS);
  }
  try {
    if (!isDone()) work();
  } finally {
    rmSync(lock, { force: true });
  }
}
