// The host of tracking links as a separate process on the servers of the suite, which tests can
// kill.
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { asApp } from "./as-app.ts";
import { root, spawned } from "./e2e-product.ts";
import { freePort } from "./ingest.ts";
import type { SharedStack } from "./shared-stack.ts";

const START_MS = 30_000;

export interface LinkProcess {
  readonly url: string;
  readonly pid: number;
  /** The number of visits that wait on its disk. */
  readonly spooled: () => Promise<number>;
  /** Ends the process, by default with SIGTERM. */
  readonly end: (signal?: NodeJS.Signals) => Promise<void>;
}

/** Resolves when the host knows links and schemas. `name` is the name of its spool. */
export const startLinks = async ({ env }: SharedStack, name: string): Promise<LinkProcess> => {
  const [port, opsPort] = [await freePort(), await freePort()];
  const { child, done, stdout } = spawned([`${root}/dist/apps/links/main.js`], {
    PATH: process.env.PATH,
    ...asApp(env, "links"),
    PORT: String(port),
    OPS_PORT: String(opsPort),
    INSTANCE_NAME: name,
  });
  const ops = async (path: string): Promise<string> => {
    const answer = await fetch(`http://127.0.0.1:${opsPort}/${path}`);
    if (!answer.ok) throw new Error(`${await answer.text()}\n${stdout().slice(-500)}`);
    return answer.text();
  };
  await until("the host of links is ready", START_MS, () => ops("readyz"));
  return {
    url: `http://127.0.0.1:${port}`,
    pid: child.pid!,
    spooled: async () => Number(/^tributary_spool_events\{.*\} (\d+)/m.exec(await ops("metrics"))?.[1]),
    end: async (signal = "SIGTERM") => {
      child.kill(signal);
      await done;
    },
  };
};
