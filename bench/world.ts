// The embedded stack in a new folder for each bench, with the apps that the bench needs.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openHome, secretsOf } from "../infra/embedded/home.ts";
import type { ServiceName } from "../infra/embedded/service.ts";
import type { Brokers } from "../infra/embedded/services/kafka.ts";
import { type App, type Stack, startStack } from "../infra/embedded/supervisor.ts";
import { openPool } from "../infra/postgres/sql.ts";
import { createToken, REQUESTS_A_MINUTE } from "../modules/access/tokens/tokens.ts";
import { steps } from "../modules/running/installation/steps.ts";
import type { LoadOrder, LoadResult } from "./load/generator.ts";

export interface World {
  readonly stack: Stack;
  readonly home: string;
  readonly clientId: number;
  /** One token may send 100 requests a minute, unless the bench sets more. */
  readonly tokens: readonly string[];
  /** The secret of the embedded identity provider, which issues tokens of users. */
  readonly loginSecret: string;
  readonly stop: () => Promise<void>;
}
/**
 * Enough for batches at any rate. For single events a bench needs one token for every 100 a minute.
 */
const TOKENS = 60;

export const openWorld = async (
  apps: readonly App[],
  more: {
    readonly tokens?: number;
    /** The limit of each token; by default the normal one. */
    readonly requestsAMinute?: number;
    readonly services?: readonly ServiceName[];
    /** A folder that is kept with its data; by default the folder is temporary. */
    readonly home?: string | undefined;
    /** Brokers of the log; 1 by default. */
    readonly brokers?: Brokers;
  } = {},
): Promise<World> => {
  const home = more.home ?? mkdtempSync(join(tmpdir(), "tributary-bench-"));
  const stack = await startStack({
    home,
    brokers: more.brokers ?? 1,
    services: ["kafka", "postgres", "clickhouse", "redis", "registry", ...(more.services ?? [])],
    steps,
    apps,
    onEvent: ({ text }) => process.stderr.write(`${text}\n`),
  });
  const demo = stack.run.demo as { clients: readonly { id: number }[] };
  const clientId = demo.clients[1]!.id;
  const pool = openPool(stack.env.POSTGRES_URL!, { name: "tributary-bench" });
  const tokens: string[] = [];
  const requests = more.requestsAMinute ?? REQUESTS_A_MINUTE;
  const wanted = { kind: "ingest", client_id: clientId, client_side: true, requests_a_minute: requests } as const;
  for (let n = 0; n < (more.tokens ?? TOKENS); n += 1)
    tokens.push((await createToken(pool, { ...wanted, label: `bench ${n}` })).token);
  await pool.end();
  const stop = async (): Promise<void> => {
    await stack.stop();
    if (more.home === undefined) rmSync(home, { recursive: true, force: true });
  };
  // A signal that ends the bench ends its servers too, and removes their data.
  for (const signal of ["SIGINT", "SIGTERM"] as const)
    process.once(signal, () => void stop().finally(() => process.exit(1)));
  return { stack, home, clientId, tokens, loginSecret: secretsOf(openHome(home)).login, stop };
};

/** Runs the generator in a separate process, so that its CPU is measured apart. */
export const generate = (order: LoadOrder): Promise<LoadResult> =>
  new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [new URL("./load/generator.js", import.meta.url).pathname], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    child.stdin.end(JSON.stringify(order));
    let text = "";
    child.stdout.on("data", (part) => {
      text += part;
    });
    child.once("exit", (code) =>
      code === 0 ? resolve(JSON.parse(text) as LoadResult) : reject(new Error(`the generator ended with ${code}`)),
    );
  });
