// One spawned process: its start time distinguishes it from a later process of the same number; it
// can be asked to end, and killed.
import { execFileSync, spawn } from "node:child_process";
import { closeSync, existsSync, openSync, readFileSync, renameSync, statSync } from "node:fs";
import { type Identity, isAlive, startOf } from "../runtime/lock.ts";
import { until } from "../runtime/timing/wait-until.ts";
import type { Command } from "./service.ts";

export interface Child extends Identity {
  readonly exited: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>;
}

// A larger log is kept once under `.1`, so that a stack that runs for weeks cannot fill the disk:
// there are two generations of about this size.
const LOG_LIMIT_BYTES = 20 * 1024 * 1024;

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
  if (existsSync(log) && statSync(log).size > LOG_LIMIT_BYTES) renameSync(log, `${log}.1`);
  const output = openSync(log, "a", 0o600);
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
    return { pid: child.pid!, started: startOf(child.pid!) ?? "", exited };
  } finally {
    closeSync(output);
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
