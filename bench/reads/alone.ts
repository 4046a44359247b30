// Measures the cost of each read by itself: one user, no other reads, and the CPU of each server.
import { table } from "../../infra/runtime/output.ts";
import { cpuUsOf, median } from "../figures.ts";
import type { PortalWorld } from "./portal-world.ts";
import { ask, type ByName, type Read, trial } from "./reads.ts";

const TIMES = 10;
/** Slow reads are repeated less often. */
const MOST_MS = 3_000;
const SERVERS = ["api", "postgres", "clickhouse"] as const;

/**
 * Runs each read, and a rule over thirty days, several times one after the other. Prints the
 * slowest first and returns all.
 */
export const measureAlone = async (portal: PortalWorld, reads: readonly Read[]) => {
  const { world, users } = portal;
  const url = world.stack.run.apps.api!.url;
  const cpu = (): readonly number[] => SERVERS.map((name) => cpuUsOf(world.stack.pid(name)!) / 1_000);
  const all = reads.map(({ route, name, path }) => {
    const { token } = users.find(({ role }) => route.roles.includes(role))!;
    return { name, path, init: { headers: { authorization: `Bearer ${token}` } } };
  });
  const lines = [];
  for (const { name, path, init } of [...all, trial(portal)]) {
    await ask(new Map(), name, `${url}${path}`, init);
    const measured: ByName = new Map();
    const [before, began] = [cpu(), performance.now()];
    for (let n = 0; n < TIMES && performance.now() - began < MOST_MS; n += 1)
      await ask(measured, name, `${url}${path}`, init);
    const { ms, others } = measured.get(name)!;
    const spent = cpu().map((after, n) => (after - before[n]!) / ms.length);
    lines.push({ name, ms: median(ms), most: Math.max(...ms), others, cpuMs: spent.reduce((a, b) => a + b, 0), spent });
  }
  lines.sort((a, b) => b.cpuMs - a.cpuMs);
  const cells = lines.map(({ name, ms, most, cpuMs, spent, others }) => [
    ...[name, ms.toFixed(0), most.toFixed(0), cpuMs.toFixed(0), ...spent.map((one) => one.toFixed(0))],
    Object.keys(others).join(" "),
  ]);
  const heads = ["read alone", "p50 ms", "most ms", "CPU ms", ...SERVERS, "not 200"];
  process.stdout.write(`${table(heads, cells)}\n\n`);
  return lines;
};
