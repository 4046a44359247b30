// The measures of a bench: CPU and memory of processes from /proc, quantiles, and the file of
// results.
import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus, loadavg } from "node:os";

/**
 * Linux counts CPU time in ticks of 10 ms: getconf CLK_TCK is 100 on every platform that we use.
 */
const TICK_US = 10_000;

export const quantile = (values: readonly number[], q: number): number => {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? Number.NaN;
};
/** The mean of the two in the middle, because the upper one would flatter rates. */
export const median = (values: readonly number[]): number => {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  return (sorted[Math.floor(middle)]! + sorted[Math.ceil(middle)]!) / 2;
};

const statOf = (pid: number): { readonly parent: number; readonly ticks: number } | undefined => {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return { parent: Number(fields[1]), ticks: [11, 12, 13, 14].reduce((sum, n) => sum + Number(fields[n]), 0) };
  } catch {
    return undefined;
  }
};
const all = (): readonly number[] =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number);

/**
 * CPU microseconds of a process, of its children (Postgres has one for each connection), and of
 * children that have ended.
 */
export const cpuUsOf = (pid: number): number => {
  const children = all().filter((other) => statOf(other)?.parent === pid);
  return [pid, ...children].reduce((sum, one) => sum + (statOf(one)?.ticks ?? 0), 0) * TICK_US;
};
/** Resident memory of the process alone, in MiB. */
export const rssMiBOf = (pid: number): number => {
  try {
    return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) / 1_024;
  } catch {
    return 0;
  }
};

/** Load of the last minute before the bench adds its own. */
let loadBefore = Number.NaN;
export const noteLoad = (): void => {
  loadBefore = loadavg()[0]!;
};

/** The conditions of a run, stored with its figures. */
const circumstances = () => ({
  // Ends with -dirty if the code was not committed.
  commit: execFileSync("git", ["describe", "--always", "--dirty", "--exclude", "*"], { encoding: "utf8" }).trim(),
  machine: `${cpus().length} x ${cpus()[0]?.model ?? "unknown"}`,
  node: process.version,
  load_before: loadBefore,
  load: loadavg()[0],
});

export const RESULTS = "bench/results";

/** Stores a result with its conditions; returns its file. */
export const save = (name: string, result: object): string => {
  mkdirSync(RESULTS, { recursive: true });
  const file = `${RESULTS}/${new Date().toISOString().slice(0, 19).replaceAll(":", "")}-${name}.json`;
  writeFileSync(file, `${JSON.stringify({ ...circumstances(), ...result }, null, 2)}\n`);
  return file;
};
