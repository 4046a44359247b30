// Kills, orderly stops and pauses of every process. The proof is a new process number, the exit, or
// state T in /proc.
import { readFileSync } from "node:fs";
import { until } from "../../../infra/runtime/timing/wait-until.ts";
import { kept, unless } from "../laws/law.ts";
import { between, type Fault, type Proof, pause, type Scene } from "./fault.ts";

/** A worker killed during a rebalance waits twice for a session of 30 s. */
const BACK_MS = 90_000;
/** Processes of the product, and servers of the stack. */
const edges = ["ingest"];
const workers = ["worker-chain", "worker-money", "keeper"];
const stores = ["kafka", "clickhouse", "postgres", "redis", "registry"];

export const pidOf = ({ target }: Scene, name: string): Promise<number> =>
  until(`${name} runs`, BACK_MS, () => {
    const pid = target.pid(name);
    if (pid === undefined) throw new Error("it does not");
    return pid;
  });
export const another = ({ target }: Scene, name: string, was: number): Promise<number> =>
  until(`a new ${name} runs`, BACK_MS, () => {
    const pid = target.pid(name);
    if (pid === undefined || pid === was) throw new Error(`its process is ${pid}`);
    return pid;
  });
const killed = async (scene: Scene, name: string): Promise<string> => {
  const was = await pidOf(scene, name);
  process.kill(was, "SIGKILL");
  return `${name} ${was} -> ${await another(scene, name, was)}`;
};

export const kill = (name: string, id: string): Fault => ({
  name: `kill ${name}`,
  id,
  run: async (scene) => ({ took: true, what: await killed(scene, name) }),
});

const killAfterAnswer: Fault = {
  name: "kill the edge after its answer",
  id: "F-01",
  weight: 2,
  run: async (scene) => {
    const was = await pidOf(scene, "ingest");
    let ids: readonly string[] = [];
    const died = new Promise<void>((resolve) => {
      scene.load.afterNextOk((sent) => {
        ids = sent;
        setTimeout(
          () => {
            process.kill(was, "SIGKILL");
            resolve();
          },
          between(scene.random, 0, 50),
        );
      });
    });
    await Promise.race([died, pause(20_000)]);
    if (ids.length === 0) return { took: false, what: "no request was answered within 20 s" };
    const is = await another(scene, "ingest", was);
    scene.find("C10", kept(ids.join(" ")));
    return { took: true, what: `ingest ${was} -> ${is}, killed after the answer for ${ids.length} events` };
  },
};

const killStores: Fault = {
  name: "kill every store at once",
  id: "F-08",
  run: async (scene) => {
    const was = new Map<string, number>();
    for (const name of stores) was.set(name, await pidOf(scene, name));
    for (const pid of was.values()) process.kill(pid, "SIGKILL");
    const changes: string[] = [];
    for (const [name, pid] of was) changes.push(`${name} ${pid} -> ${await another(scene, name, pid)}`);
    return { took: true, what: changes.join(", ") };
  },
};

export const stateOf = (pid: number): string => {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  return stat.slice(stat.lastIndexOf(")") + 2, stat.lastIndexOf(")") + 3);
};
const stop = (name: string, low: number, high: number): Fault => ({
  name: `pause ${name}`,
  id: "F-09",
  run: async (scene): Promise<Proof> => {
    const pid = await pidOf(scene, name);
    const ms = between(scene.random, low, high);
    process.kill(pid, "SIGSTOP");
    try {
      const state = await until(`${name} stands still`, 5_000, () => {
        const now = stateOf(pid);
        if (now !== "T") throw new Error(`its state is ${now}`);
        return now;
      });
      await pause(ms);
      return { took: true, what: `${name} ${pid} in state ${state} for ${(ms / 1_000).toFixed(1)} s` };
    } finally {
      // The stack may have killed the paused process because it hangs; then there is nothing to
      // wake.
      try {
        process.kill(pid, "SIGCONT");
      } catch {}
    }
  },
});

/** docs/design/laws.md L4: a process has 20 s to stop. */
const ORDERLY_MS = 20_000;
const orderly = (name: string): Fault => ({
  name: `stop ${name} in order`,
  id: "L4",
  run: async (scene) => {
    const pid = await pidOf(scene, name);
    const said = scene.target.logSince(name);
    const began = performance.now();
    process.kill(pid, "SIGTERM");
    const is = await another(scene, name, pid);
    const ms = performance.now() - began;
    const wasKilled = /"level":"error"/.test(
      said()
        .split("\n")
        .filter((line) => line.includes(`"pid":${pid}`))
        .join("\n"),
    );
    scene.find(
      "L4",
      unless(
        ms > ORDERLY_MS + 2_000 ? [`${name} took ${Math.round(ms / 1_000)} s`] : [],
        `${name} ended and came back within ${Math.round(ms)} ms`,
      ),
    );
    return {
      took: true,
      what: `${name} ${pid} -> ${is} after SIGTERM${wasKilled ? ", with an error in its log" : ""}`,
    };
  },
});

export const processFaults: readonly Fault[] = [
  killAfterAnswer,
  ...edges.map((name) => kill(name, "F-01")),
  ...workers.map((name) => kill(name, "F-02")),
  kill("kafka", "F-03"),
  kill("clickhouse", "F-04"),
  kill("postgres", "F-05"),
  kill("redis", "F-06"),
  kill("registry", "F-07"),
  killStores,
  // Longer than the session of stages (10 s), so that the group continues without the paused
  // member.
  stop("worker-chain", 3_000, 14_000),
  stop("worker-money", 3_000, 12_000),
  stop("ingest", 2_000, 8_000),
  ...["kafka", "clickhouse", "postgres", "redis"].map((name) => stop(name, 2_000, 8_000)),
  orderly("worker-chain"),
  orderly("ingest"),
];
