// The edge under test with the processes that store an event, and the tenants that send to it.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { startStack } from "../../../infra/embedded/supervisor.ts";
import { openPool } from "../../../infra/postgres/sql.ts";
import { tell } from "../../../infra/runtime/output.ts";
import { until } from "../../../infra/runtime/timing/wait-until.ts";
import { createToken, revokeToken } from "../../../modules/access/tokens/tokens.ts";
import { apps } from "../../../modules/running/installation/product.ts";
import { steps } from "../../../modules/running/installation/steps.ts";
import { ownConfig } from "../config.ts";
import { openTarget, type Target } from "../target.ts";
import type { Sender } from "./senders.ts";

const needed = ["ingest", "ingest-standby", "worker-chain", "worker-money"];
const services = ["kafka", "postgres", "clickhouse", "redis", "registry"] as const;

interface StackChoice {
  /** All processes, in place of those that store an event. */
  readonly isWhole?: boolean;
  /** A new one, also if another runs in the folder. */
  readonly isNew?: boolean;
}

/** Opens the stack that runs in the folder, or starts one below it. */
export const openFuzzStack = async (
  home: string,
  { isWhole = false, isNew = false }: StackChoice = {},
): Promise<{ readonly target: Target; readonly close: () => Promise<void> }> => {
  if (!isNew && existsSync(join(home, "run.json"))) {
    const target = await openTarget(home);
    return { target, close: target.close };
  }
  tell("a stack of its own is started for this");
  const folder = join(home, "fuzz-stack");
  const stack = await startStack({
    home: folder,
    fresh: true,
    config: ownConfig(),
    services,
    steps,
    apps: apps.filter(({ name }) => isWhole || needed.includes(name)),
    onEvent: ({ text }) => tell(text),
  });
  const target = await openTarget(folder);
  return {
    target,
    close: async () => {
      await target.close();
      await stack.stop();
    },
  };
};

/** Spreads the tenants over the demo clients; each has its own token and address. */
export const openSenders = async (target: Target, count: number) => {
  const { clients } = target.run().demo as unknown as { readonly clients: readonly { readonly id: number }[] };
  const pool = openPool(target.env.POSTGRES_URL!, { name: "tributary-fuzz", max: 1 });
  const port = Number(new URL(target.run().apps.ingest!.url).port);
  const senders: Sender[] = [];
  const ids: number[] = [];
  try {
    for (let n = 1; n <= count; n += 1) {
      const clientId = clients[n % clients.length]!.id;
      const made = await createToken(pool, { kind: "ingest", label: `fuzz ${n}`, client_id: clientId });
      ids.push(made.token_id);
      senders.push({ n, clientId, token: made.token, address: { port, from: `127.0.1.${1 + (n % 250)}` } });
    }
  } finally {
    await pool.end();
  }
  const newest = senders.at(-1)!;
  const headers = { authorization: `Bearer ${newest.token}`, "content-type": "application/json" };
  const url = `http://127.0.0.1:${port}/ingest/batch`;
  await until("the edge knows the newest token", 20_000, async () => {
    const { status } = await fetch(url, { method: "POST", headers, body: "{}" });
    if (status !== 400) throw new Error(`the edge answers ${status}`);
  });
  return {
    senders,
    revoke: async () => {
      for (const id of ids) await revokeToken(target.pool, id);
    },
  };
};
