// The ingest host in this process, on the servers of the suite. Edge suites send to it and read the
// log.
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { readConfig } from "../../apps/ingest/config.ts";
import { ingest } from "../../apps/ingest/ingest.ts";
import { openRegistry } from "../../infra/avro/registry.ts";
import { openWire } from "../../infra/avro/wire.ts";
import { openKafka } from "../../infra/kafka/kafka.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { openLog } from "../../infra/runtime/log.ts";
import { openScope } from "../../infra/runtime/scope.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { createToken } from "../../modules/access/tokens/tokens.ts";
import type { EventReceived } from "../../schemas/generated.ts";
import { topics } from "../../topics.ts";
import { asApp } from "./as-app.ts";
import type { SharedStack } from "./shared-stack.ts";

let started = 0;

export interface RunningIngest {
  /** Hosts that run at the same time need different names, because each has its own spool. */
  readonly name: string;
  readonly url: string;
  readonly opsUrl: string;
  /** Resolves when the host knows tokens, clients and schemas. */
  readonly ready: () => Promise<void>;
  readonly close: () => Promise<void>;
}

export const freePort = (): Promise<number> =>
  new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });

export const startIngest = async (env: Readonly<Record<string, string>>): Promise<RunningIngest> => {
  const [port, opsPort] = [await freePort(), await freePort()];
  const log = openLog({ app: "ingest", level: "silent" });
  const scope = openScope(log, (error) => {
    throw error;
  });
  started += 1;
  const name = `ingest-test-${started}`;
  const config = readConfig({
    ...asApp(env, "ingest"),
    PORT: String(port),
    OPS_PORT: String(opsPort),
    INSTANCE_NAME: name,
    LOG_LEVEL: "silent",
  });
  await ingest(config, log)(scope);
  return {
    name,
    url: `http://127.0.0.1:${port}`,
    opsUrl: `http://127.0.0.1:${opsPort}`,
    ready: () =>
      until("ingest is ready", 30_000, async () => {
        const answer = await fetch(`http://127.0.0.1:${opsPort}/readyz`);
        if (!answer.ok) throw new Error(await answer.text());
      }),
    close: async () => {
      const problems = await scope.close();
      if (problems.length > 0) throw new Error(`not closed: ${JSON.stringify(problems)}`);
    },
  };
};

/** The process id of a server of the stack, to freeze it. */
export const pidOf = (stack: SharedStack, service: string): number =>
  JSON.parse(readFileSync(`${stack.env.TRIBUTARY_HOME}/run.json`, "utf8")).services[service].pid;

/**
 * Runs `work` while that server is frozen: its connections stay open without answers, which is
 * worse than a dead server.
 */
export const whileFrozen = async (pid: number, work: () => Promise<void>): Promise<void> => {
  process.kill(pid, "SIGSTOP");
  try {
    await until(`process ${pid} is frozen`, 30_000, () => {
      if (readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]![0] !== "T") throw new Error("it still runs");
    });
    await work();
  } finally {
    process.kill(pid, "SIGCONT");
  }
};

/** Makes ingest tokens of a client; every process knows them within a second. */
export const newTokens = async (
  stack: SharedStack,
  clientId: number,
  count: number,
): Promise<{ tokenId: number; token: string }[]> => {
  const pool = openPool(stack.env.POSTGRES_URL!, { max: 1 });
  try {
    const made: { tokenId: number; token: string }[] = [];
    for (let n = 0; n < count; n += 1) {
      const { token_id: tokenId, token } = await createToken(pool, {
        kind: "ingest",
        label: "test",
        client_id: clientId,
      });
      made.push({ tokenId, token });
    }
    return made;
  } finally {
    await pool.end();
  }
};

/** The events that `work` adds to events.raw. */
export const addedToLog = async (stack: SharedStack, work: () => Promise<void>): Promise<readonly EventReceived[]> => {
  const kafka = openKafka({ brokers: stack.env.KAFKA_BROKERS!, clientId: "test" });
  const wire = await openWire([topics.eventsRaw], openRegistry({ url: stack.env.SCHEMA_REGISTRY_URL! }));
  const admin = await kafka.admin();
  try {
    const before = new Map((await admin.watermarks("events.raw")).map(({ partition, high }) => [partition, high]));
    await work();
    // A broker that has just started, or was frozen, does not lead all of its partitions at once,
    // and first loads its groups.
    return await until("the log can be read", 60_000, async () => {
      const found: EventReceived[] = [];
      await kafka.replay({
        topics: ["events.raw"],
        from: new Map([["events.raw", before]]),
        onBatch: ({ topic, partition, messages }) => {
          for (const { offset, value } of messages)
            found.push(wire.decode(topics.eventsRaw, value, { topic, partition, offset }).data);
        },
      });
      return found;
    });
  } finally {
    await admin.close();
  }
};
