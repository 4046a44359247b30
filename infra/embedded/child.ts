// One spawned process: its start time distinguishes it from a later process of the same number; it
// can be asked to end, and killed. Its log has two generations of bounded size, also while it is
// written.
import { execFileSync, spawn } from "node:child_process";
import {
  closeSync,
  ftruncateSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { type Identity, isAlive, startOf } from "../runtime/lock.ts";
import { until } from "../runtime/timing/wait-until.ts";
import type { Command } from "./service.ts";

export interface Child extends Identity {
  /** Where its own words begin in the log, in bytes; 0 once the log was cut since. */
  readonly logFrom: () => number;
  readonly exited: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>;
}

/** True for a process that SIGSTOP holds: it is alive, and reacts only to SIGCONT and SIGKILL. */
export function isPaused(pid: number): boolean {
  try {
    if (process.platform !== "linux")
      return execFileSync("ps", ["-o", "stat=", "-p", String(pid)], {
        encoding: "utf8",
        stdio: ["ignore", "pipe", "ignore"],
      }).startsWith("T");
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).startsWith("T");
  } catch {
    return false;
  }
}

/**
 * Spawns a process in a new session (a Ctrl-C in the terminal does not reach it), and appends its
 * output to `log`. @throws Error when the program cannot be started at all.
 */
export async function spawnChild(
  command: Command,
  log: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<Child> {
  const output = openSync(log, "a", 0o600);
  const from = statSync(log).size;
  try {
    const child = spawn(command.file, command.args, {
      cwd: command.cwd,
      env: { ...env, ...command.env },
      detached: true,
      stdio: ["ignore", output, output],
      ...(command.uid !== undefined && { uid: command.uid, gid: command.gid }),
    });
    const exited: Child["exited"] = new Promise((resolve) =>
      child.once("exit", (code, signal) => resolve({ code, signal })),
    );
    await new Promise<void>((resolve, reject) => {
      child.once("spawn", resolve);
      child.once("error", reject);
    });
    const bounds = boundLog(log);
    void exited.then(bounds.end);
    const logFrom = () => (bounds.cuts() === 0 ? from : 0);
    return { pid: child.pid!, started: startOf(child.pid!) ?? "", exited, logFrom };
  } finally {
    closeSync(output);
  }
}

/**
 * The processor time that a process has used so far, in seconds; null if the system does not say.
 */
export function processorSecondsOf(pid: number): number | null {
  try {
    if (process.platform !== "linux") {
      const text = execFileSync("ps", ["-o", "time=", "-p", String(pid)], { encoding: "utf8" }).trim();
      return text.split(":").reduce((sum, part) => sum * 60 + Number(part), 0);
    }
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // Fields 14 and 15, in ticks of a hundredth of a second; field 3 is the first behind the name.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return (Number(fields[11]) + Number(fields[12])) / 100;
  } catch {
    return null;
  }
}

/** Sends a signal unless that very process is gone; returns true when it was sent. */
export function signal(identity: Identity, name: NodeJS.Signals): boolean {
  if (!isAlive(identity)) return false;
  try {
    return process.kill(identity.pid, name);
  } catch {
    return false;
  }
}

/**
 * Ends a process: first with the signal `name`, and after the deadline with SIGKILL. A paused
 * process is resumed, so that it gets the signal. Resolves when the process has ended; true if it
 * ended before the deadline.
 */
export async function endProcess(identity: Identity, name: NodeJS.Signals, deadlineMs: number): Promise<boolean> {
  if (!signal(identity, name)) return true;
  signal(identity, "SIGCONT");
  const gone = () => {
    if (isAlive(identity)) throw new Error(`process ${identity.pid} is still running`);
  };
  try {
    await until("a process ends", deadlineMs, gone);
    return true;
  } catch {
    signal(identity, "SIGKILL");
    await until("a killed process ends", 10_000, gone);
    return false;
  }
}

/**
 * A larger log is kept once under `.1`, so that a stack that runs for weeks cannot fill the disk.
 */
const LIMIT_BYTES = 20 * 1024 * 1024;
const LOOK_MS = 5_000;
const PIECE_BYTES = 1024 * 1024;

interface BoundSettings {
  readonly limitBytes?: number;
  readonly lookMs?: number;
}

/** Looks after a log until `end` is called. The log exists, and its process appends to it. */
export const boundLog = (log: string, { limitBytes = LIMIT_BYTES, lookMs = LOOK_MS }: BoundSettings = {}) => {
  let cuts = 0;
  const look = (): void => {
    try {
      if (statSync(log).size <= limitBytes) return;
      cutLog(log);
      cuts += 1;
    } catch {
      // The log was removed, or the disk is full: the next look may find it better.
    }
  };
  look();
  const timer = setInterval(look, lookMs).unref();
  return { cuts: () => cuts, end: () => clearInterval(timer) };
};

/**
 * Copies the log to `.1` and empties it. Its process keeps the same open file, and goes on at the
 * new end, because it appends. Lines between the last read and the cut, a moment, are lost.
 */
const cutLog = (log: string): void => {
  const draft = `${log}.1.new`;
  const [from, to] = [openSync(log, "r+"), openSync(draft, "w", 0o600)];
  try {
    const piece = Buffer.allocUnsafe(PIECE_BYTES);
    for (let read = readSync(from, piece); read > 0; read = readSync(from, piece)) writeSync(to, piece, 0, read);
    renameSync(draft, `${log}.1`);
    ftruncateSync(from, 0);
  } finally {
    closeSync(from);
    closeSync(to);
    rmSync(draft, { force: true });
  }
};
