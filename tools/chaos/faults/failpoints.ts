// Workers that die at a named step of the runner, zombies that wake after their group went on
// without them, and workers that join and leave.

import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, existsSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { until } from "../../../infra/runtime/timing/wait-until.ts";
import { groupNamed } from "../../../modules/log/groups/hosting.ts";
import { searchPath } from "../config.ts";
import { sinkGroups, stageGroups } from "../hosting.ts";
import { freePort } from "../stage/free-port.ts";
import { between, type Fault, pause, pick, type Scene } from "./fault.ts";

const JOIN_MS = 60_000;
const stages = stageGroups.map(({ arg }) => arg);
const sinks = sinkGroups.map(({ arg }) => arg);
const steps = ["after-decode", "after-fold", "after-remember", "after-produce", "after-commit"];
const sinkSteps = ["before-write", "after-write", "after-commit"];

interface Member {
  readonly child: ChildProcess;
  readonly died: Promise<NodeJS.Signals | null>;
  readonly hits: string;
  readonly joined: () => Promise<void>;
}
/**
 * Starts one more worker beside those of the stack, because the stack would restart its own with
 * the same failpoint. The new one shares the partitions of its group.
 */
const member = async ({ target }: Scene, group: string, failpoint?: string): Promise<Member> => {
  const port = await freePort();
  const name = `member-${group.split(",")[0]}-${port}`;
  const hits = join(target.folder, `${name}.hits`);
  const output = openSync(join(target.home, "logs", `${name}.log`), "a");
  const env = {
    ...target.env,
    PATH: searchPath(),
    OPS_PORT: String(port),
    INSTANCE_NAME: name,
    LOG_LEVEL: "info",
    ...(failpoint === undefined ? {} : { FAILPOINTS: failpoint, FAILPOINT_LOG: hits }),
  };
  const child = spawn(process.execPath, ["--conditions=faults", "dist/apps/worker/main.js", group], {
    cwd: target.root,
    env,
    stdio: ["ignore", output, output],
  });
  closeSync(output);
  const died = new Promise<NodeJS.Signals | null>((resolve) => child.once("exit", (_code, signal) => resolve(signal)));
  // The worker must not outlive this process.
  const end = () => child.kill("SIGKILL");
  process.once("exit", end);
  void died.then(() => process.off("exit", end));
  const joined = () =>
    until(`${name} has joined`, JOIN_MS, async () => {
      const answer = await fetch(`http://127.0.0.1:${port}/readyz`, { signal: AbortSignal.timeout(2_000) });
      if (!answer.ok) throw new Error(await answer.text());
    });
  return { child, died, hits, joined };
};
const lastHit = (file: string): string =>
  existsSync(file) ? readFileSync(file, "utf8").trim().split("\n").at(-1)! : "never hit";

const dies = (name: string, of: readonly string[], at: readonly string[]): Fault => ({
  name,
  id: "F-02",
  weight: 3,
  run: async (scene) => {
    const group = pick(scene.random, of);
    const point = pick(scene.random, at);
    const passing = between(scene.random, 1, 4);
    const one = await member(scene, group, `${point}=${passing}`);
    const late = pause(JOIN_MS).then(() => "late" as const);
    const how = await Promise.race([one.died, late]);
    if (how === "late") one.child.kill("SIGKILL");
    const hit = lastHit(one.hits);
    return { took: how === "SIGKILL" && hit.endsWith("killed"), what: `${group} died: ${hit}` };
  },
});

const zombie: Fault = {
  name: "a zombie wakes",
  id: "F-12",
  run: async (scene) => {
    const group = pick(scene.random, stages);
    const one = await member(scene, group);
    try {
      await one.joined();
      one.child.kill("SIGSTOP");
      const generation = await sizeOf(scene, group);
      // Its session is 10 s. Another member takes over its partitions, which it does not know when
      // it wakes.
      const after = await until("the group has gone on without it", JOIN_MS, async () => {
        const now = await sizeOf(scene, group);
        if (now >= generation) throw new Error(`${now} members`);
        return now;
      });
      one.child.kill("SIGCONT");
      await pause(between(scene.random, 500, 2_000));
      return {
        took: true,
        what: `a member of ${group} slept while its group went from ${generation} to ${after} members`,
      };
    } finally {
      one.child.kill("SIGKILL");
    }
  },
};
const sizeOf = ({ target }: Scene, group: string): Promise<number> =>
  target.withAdmin(
    async (admin) => (await admin.describeGroups([groupNamed(group.split(",")[0]!)]))[0]?.members.length ?? 0,
  );

const storm: Fault = {
  name: "rebalance storm",
  id: "F-15",
  run: async (scene) => {
    const group = pick(scene.random, stages);
    const sizes: number[] = [];
    for (let n = 0; n < 2; n += 1) {
      const one = await member(scene, group);
      try {
        await one.joined();
        sizes.push(await sizeOf(scene, group));
        await pause(between(scene.random, 200, 1_500));
      } finally {
        // Usually it stops in order, so that the group knows at once; sometimes it is killed.
        one.child.kill(scene.random() < 0.3 ? "SIGKILL" : "SIGTERM");
      }
      await one.died;
    }
    return { took: sizes.some((size) => size > 1), what: `members of ${group} came and went: ${sizes.join(", ")}` };
  },
};

export const memberFaults: readonly Fault[] = [
  dies("a stage dies at a step", stages, steps),
  dies("a sink dies at a step", sinks, sinkSteps),
  zombie,
  storm,
];
