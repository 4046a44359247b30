// The host of uploads as a separate process on the servers of the suite, which can die at
// failpoints.
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { asApp } from "./as-app.ts";
import { root, spawned } from "./e2e-product.ts";
import { freePort } from "./ingest.ts";
import type { SharedStack } from "./shared-stack.ts";

/**
 * `failpoints` has the format of FAILPOINTS. `ready` resolves when the host turns files into
 * events.
 */
export const startUpload = async ({ env }: SharedStack, name: string, failpoints = "") => {
  const ports = { PORT: String(await freePort()), OPS_PORT: String(await freePort()) };
  const log = join(mkdtempSync(join(tmpdir(), "tributary-upload-")), "hits");
  const faults = { FAILPOINTS: failpoints, FAILPOINT_LOG: log, INSTANCE_NAME: name };
  const args = ["--conditions=faults", `${root}/dist/apps/upload/main.js`];
  const { child } = spawned(args, { PATH: process.env.PATH, ...asApp(env, "upload"), ...ports, ...faults });
  const died = new Promise<NodeJS.Signals | null>((resolve) => child.once("exit", (_code, signal) => resolve(signal)));
  return {
    url: `http://127.0.0.1:${ports.PORT}`,
    ready: () =>
      until("the host of uploads is ready", 30_000, async () => {
        const answer = await fetch(`http://127.0.0.1:${ports.OPS_PORT}/readyz`);
        if (!answer.ok) throw new Error(await answer.text());
      }),
    hits: () => readFileSync(log, "utf8"),
    died,
    end: () => {
      child.kill("SIGTERM");
      return died;
    },
  };
};
