// Runs a process of the product with failpoints, outside of the supervisor, which would restart it
// with the same failpoints.
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { environmentOf, type Product, root } from "./e2e-product.ts";
import { freePort } from "./ingest.ts";

export interface ArmedApp {
  readonly url: string;
  /** Failpoints that the process passed so far, one a line. */
  readonly hits: () => string;
  readonly died: Promise<NodeJS.Signals | null>;
  /** Resolves when the process answers /readyz. */
  readonly ready: () => Promise<void>;
  readonly kill: () => Promise<void>;
}

let started = 0;

/** `failpoints` has the format of FAILPOINTS; "" arms none. The caller kills the process. */
export const armedApp = async (
  product: Product,
  app: "api" | "keeper",
  failpoints: string,
  more: Readonly<Record<string, string>> = {},
): Promise<ArmedApp> => {
  started += 1;
  const name = `${app}-armed-${started}`;
  const log = join(product.stack.home, `${name}.hits`);
  const output = openSync(join(product.stack.home, "logs", `${name}.log`), "a");
  const [port, opsPort] = [await freePort(), await freePort()];
  const env = {
    ...environmentOf(product.stack.home),
    ...product.stack.env,
    POSTGRES_ADMIN_URL: undefined,
    PORT: String(port),
    OPS_PORT: String(opsPort),
    INSTANCE_NAME: name,
    FAILPOINTS: failpoints,
    FAILPOINT_LOG: log,
    ...more,
  };
  const child: ChildProcess = spawn(process.execPath, ["--conditions=faults", `dist/apps/${app}/main.js`], {
    cwd: root,
    env,
    stdio: ["ignore", output, output],
  });
  closeSync(output);
  const died = new Promise<NodeJS.Signals | null>((resolve) => child.once("exit", (_code, signal) => resolve(signal)));
  return {
    url: `http://127.0.0.1:${port}`,
    hits: () => readFileSync(log, "utf8"),
    died,
    ready: () =>
      until(`${name} is ready`, 60_000, async () => {
        const answer = await fetch(`http://127.0.0.1:${opsPort}/readyz`);
        if (!answer.ok) throw new Error(await answer.text());
      }),
    kill: async () => {
      child.kill("SIGKILL");
      await died;
    },
  };
};
