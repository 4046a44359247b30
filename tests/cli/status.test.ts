// `tributary status` reports processes, the keeper's probes, and the process that started them.
import { expect, test } from "vitest";
import { addressIn, type StatusParts, statusText } from "../../apps/cli/commands/running/status.ts";
import type { ProbeRow } from "../../modules/running/repair/probe-states.ts";

const NOW = Date.UTC(2026, 10, 22, 12);
const probe = (name: string, change: Partial<ProbeRow> = {}): ProbeRow => ({
  ...{ name, state: "healthy", failures: 0, since: NOW - 900_000, checked_at: NOW - 14_000, last_ok_at: NOW - 14_000 },
  ...{ last_error: null, failing_since: null, incident_id: null, restarted_at: [] },
  ...change,
});
const well: StatusParts = {
  run: {
    ready: true,
    apps: { keeper: { url: "http://127.0.0.1:8084", pid: process.pid } },
    services: { kafka: { brokers: "127.0.0.1:9092", pid: process.pid } } as never,
  },
  processes: [{ name: "kafka", pid: process.pid, state: "running" }],
  probes: ["analytics_store", "event_log"].map((name) => probe(name)),
  path: { state: "operational", since: NOW - 900_000, instances: [] } as never,
};
const lastOf = (known: StatusParts): string => statusText(known, NOW).split("\n").at(-1)!;

test("when all is well it says so in its last line, and how old the probes are", () => {
  expect(statusText(well, NOW)).toContain("keeper: all 2 probes are healthy, the oldest 14 s ago");
  expect(lastOf(well)).toBe("ready");
});

test("a log that hangs is said by its process, by the keeper and by the last line", () => {
  const since = NOW - 60_000;
  const known: StatusParts = {
    ...well,
    processes: [{ name: "kafka", pid: process.pid, state: "paused" }],
    probes: [probe("analytics_store"), probe("event_log", { state: "failing", since, last_error: "no answer" })],
  };
  const text = statusText(known, NOW);
  expect(text).toMatch(/^kafka .* paused$/m);
  expect(text).toContain("keeper: event_log failing since 2026-11-22T11:59:00.000Z: no answer");
  expect(lastOf(known)).toBe("not well: kafka (paused), event_log (failing)");
});

test("a starter that is gone, a keeper that is silent and a database that is away are named", () => {
  const gone = { ...well, processes: null };
  expect(statusText(gone, NOW)).toContain("starter: gone (npm start does not answer)");
  expect(lastOf(gone)).toBe("not well: the starter");
  const silent = { ...well, probes: [probe("event_log", { checked_at: NOW - 400_000 })] };
  expect(statusText(silent, NOW)).toContain("keeper: no probe for 400 s, so no keeper works");
  expect(lastOf(silent)).toBe("not well: the keeper");
  const away = { ...well, probes: null, path: null };
  expect(statusText(away, NOW)).toContain("keeper: what it knows is in Postgres, which does not answer");
  expect(lastOf(away)).toBe("not well: Postgres");
});

test("a process that died is not well either", () => {
  const known = { ...well, run: { ...well.run, apps: { api: { url: "http://127.0.0.1:1", pid: 2 ** 22 - 1 } } } };
  expect(lastOf(known)).toBe("not well: api (gone)");
});

test.each(["starting", "stopped"] as const)("a process that is %s is not well, though it has no number", (state) => {
  const known = {
    ...well,
    run: { ...well.run, services: { kafka: { brokers: "127.0.0.1:9092", pid: null } } as never },
    processes: [{ name: "kafka", pid: null, state }],
  };
  expect(lastOf(known)).toBe(`not well: kafka (${state})`);
});

test("an address is printed by itself, and a process without one is answered with those that have it", () => {
  const apps = {
    ingest: { url: "http://127.0.0.1:1", ops_url: "http://127.0.0.1:2", pid: 1 },
    keeper: { ops_url: "http://127.0.0.1:3", pid: 2 },
  };
  expect(addressIn({ apps }, "ingest", "url")).toBe("http://127.0.0.1:1");
  expect(addressIn({ apps }, "keeper", "ops_url")).toBe("http://127.0.0.1:3");
  for (const name of ["keeper", "nothing", "toString"])
    expect(() => addressIn({ apps }, name, "url")).toThrow(`${name} has no such address here; these have one: ingest`);
});
