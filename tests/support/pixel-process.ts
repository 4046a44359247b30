// The host of pixels as a separate process on the servers of the suite, which can die at
// failpoints.
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { asApp } from "./as-app.ts";
import { root, spawned } from "./e2e-product.ts";
import { freePort } from "./ingest.ts";
import type { SharedStack } from "./shared-stack.ts";

export interface PixelProcess {
  readonly url: string;
  /** Failpoints that the process passed so far, one a line. */
  readonly hits: () => string;
  readonly died: Promise<NodeJS.Signals | null>;
  readonly end: () => Promise<unknown>;
}

/**
 * Resolves when the host knows clients and configurations. `failpoints` has the format of
 * FAILPOINTS.
 */
export const startPixel = async (
  { env }: SharedStack,
  name: string,
  failpoints: string = "",
): Promise<PixelProcess> => {
  const ports = { PORT: String(await freePort()), OPS_PORT: String(await freePort()) };
  const log = join(mkdtempSync(join(tmpdir(), "tributary-pixel-")), "hits");
  const faults = { FAILPOINTS: failpoints, FAILPOINT_LOG: log, INSTANCE_NAME: name };
  const args = ["--conditions=faults", `${root}/dist/apps/pixel/main.js`];
  const { child } = spawned(args, { PATH: process.env.PATH, ...asApp(env, "pixel"), ...ports, ...faults });
  const died = new Promise<NodeJS.Signals | null>((resolve) => child.once("exit", (_code, signal) => resolve(signal)));
  await until("the host of pixels is ready", 30_000, async () => {
    const answer = await fetch(`http://127.0.0.1:${ports.OPS_PORT}/readyz`);
    if (!answer.ok) throw new Error(await answer.text());
  });
  return {
    url: `http://127.0.0.1:${ports.PORT}`,
    hits: () => readFileSync(log, "utf8"),
    died,
    end: () => {
      child.kill("SIGTERM");
      return died;
    },
  };
};
