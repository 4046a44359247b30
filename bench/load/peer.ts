// Runs a process that is compared with our edge: it takes the same bodies at the same path and
// writes to the same broker.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { openKafka } from "../../infra/kafka/kafka.ts";
import { UsageError } from "../../infra/runtime/command-errors.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";

export interface Target {
  readonly url: string;
  readonly pid: number;
}
export interface Peer {
  readonly name: string;
  /** A shell command, which may use $KAFKA_BROKERS, $REGISTRY_URL, $TOPIC and $PORT. */
  readonly command: string;
}
export interface Running extends Target {
  readonly name: string;
  readonly stop: () => void;
}

const twin = new URL("./twin.js", import.meta.url).pathname;
export const tutorialTwin: Peer = {
  name: "tutorial twin",
  command: `"${process.execPath}" "${twin}" "$KAFKA_BROKERS" "$REGISTRY_URL" "$TOPIC" "$PORT"`,
};

/** Parses `name=command`, the form of `--peer`. */
export const peerNamed = (text: string): Peer => {
  const [, name, command] = /^([\w .-]+)=(.+)$/s.exec(text) ?? [];
  if (name === undefined || command === undefined)
    throw new UsageError(`--peer: ${text} is not name=command, as 'vector=vector --config bench-vector.yaml'`);
  return { name, command };
};

const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  server.close();
  return port;
};
const answers = (port: number): Promise<void> =>
  new Promise((resolve, reject) => {
    const socket = connect({ port, host: "127.0.0.1" }, () => {
      socket.destroy();
      resolve();
    });
    socket.once("error", reject);
  });

const READY_MS = 60_000;

/** Makes a topic of 12 partitions for it and waits until it listens. Throws if it does not. */
export const startPeer = async ({ name, command }: Peer, env: Readonly<Record<string, string>>): Promise<Running> => {
  const topic = `bench.${name.replaceAll(" ", "-")}`;
  const admin = await openKafka({ brokers: env.KAFKA_BROKERS!, clientId: "bench" }).admin();
  await admin.apply([{ name: topic, partitions: 12, retentionMs: 3_600_000 }]).finally(() => admin.close());
  const port = await freePort();
  const given = {
    KAFKA_BROKERS: env.KAFKA_BROKERS!,
    REGISTRY_URL: env.SCHEMA_REGISTRY_URL!,
    TOPIC: topic,
    PORT: String(port),
  };
  // `exec` replaces the shell by the program, so that its CPU is measured.
  const child = spawn("sh", ["-c", `exec ${command}`], {
    env: { ...process.env, ...given },
    stdio: ["ignore", "ignore", "inherit"],
  });
  const died = new AbortController();
  child.once("exit", (code, signal) => died.abort(new Error(`${name} ended with ${signal ?? `code ${code}`}`)));
  await until(`${name} listens on 127.0.0.1:${port}`, READY_MS, () => answers(port), died.signal).catch((error) => {
    child.kill();
    throw error;
  });
  return { name, url: `http://127.0.0.1:${port}`, pid: child.pid!, stop: () => void child.kill() };
};
