// The list of commands: help shows the texts of their files without loading them, and a server that
// is away or hangs is named within 5 s.
import { spawn } from "node:child_process";
import { createServer, type Server } from "node:net";
import { Command } from "commander";
import { afterAll, expect, test } from "vitest";
import { commandFiles } from "../../apps/cli/commands.ts";
import { closedPort } from "../support/closed-port.ts";
import { expectWithin } from "../support/quickest.ts";

const COMMAND = "dist/apps/cli/main.js";

const ran = async (args: readonly string[], env: Readonly<Record<string, string>> = {}) => {
  const began = performance.now();
  const child = spawn(process.execPath, [COMMAND, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { PATH: process.env.PATH, ...env },
  });
  let [stdout, stderr] = ["", ""];
  child.stdout.on("data", (text) => (stdout += text));
  child.stderr.on("data", (text) => (stderr += text));
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { code, stdout, stderr, ms: performance.now() - began };
};

test("every command of a file is listed with its description, and no other", async () => {
  for (const { load, commands } of commandFiles) {
    const program = new Command();
    (await load())(program);
    const found = program.commands.map((command) => [command.name(), command.description()]);
    expect(Object.fromEntries(found)).toEqual(
      Object.fromEntries(Object.entries(commands).map(([name, { description }]) => [name, description])),
    );
  }
});

test("help lists every command and needs nothing that runs; an unknown one is a usage error", async () => {
  const { code, stdout } = await ran(["--help"]);
  expect(code).toBe(0);
  for (const { commands } of commandFiles)
    for (const name of Object.keys(commands)) expect(stdout).toContain(`  ${name} `);
  expect((await ran(["help", "send"])).stdout).toContain("--map <field=column,...>");
  const unknown = await ran(["statsu"]);
  expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining("(Did you mean status?)")]);
});

test("a reader that has gone, as `head` goes, is no error and leaves no stack trace", async () => {
  const child = spawn(process.execPath, [COMMAND, "--help"], { stdio: ["ignore", "pipe", "pipe"] });
  // Closed long before the command has started, so that its first line meets a closed pipe.
  child.stdout.destroy();
  let stderr = "";
  child.stderr.on("data", (text) => (stderr += text));
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  expect([code, stderr]).toEqual([0, ""]);
});

const deaf: Server[] = [];
afterAll(() => {
  for (const server of deaf) server.close();
});
/** A server that accepts connections and never answers, like a stopped process. */
const hanging = async (): Promise<number> => {
  const server = createServer((socket) => socket.on("error", () => undefined));
  deaf.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as { port: number }).port;
};
const environment = (port: number) => ({
  KAFKA_BROKERS: `127.0.0.1:${port}`,
  SCHEMA_REGISTRY_URL: `http://127.0.0.1:${port}`,
  POSTGRES_URL: `postgres://tributary_app:hidden@127.0.0.1:${port}/tributary`,
  CLICKHOUSE_URL: `http://tributary_app:hidden@127.0.0.1:${port}/tributary`,
  REDIS_URL: `redis://127.0.0.1:${port}`,
});
const commands = [
  ["lag"],
  ["groups"],
  ["report", "--client", "1"],
  ["reference", "list", "rules"],
  ["explain", "e-1", "--client", "1"],
  ["peek", "events.raw"],
  ["topics", "plan"],
  ["schemas", "plan"],
  ["hash"],
  ["relearn", "enrich"],
];
const NAMES =
  /^(Postgres|ClickHouse|Redis|Kafka|the schema registry) \(127\.0\.0\.1:\d+\) does not answer: .* What to do: docs\//m;

test.each(["away", "hanging"])(
  "with servers that are %s every command says so within 5 s, with their pages",
  async (how) => {
    const port = how === "away" ? await closedPort() : await hanging();
    // All run at once on a loaded machine, where even the start takes long.
    await expectWithin(20_000, async () => {
      const all = await Promise.all(commands.map(async (args) => ({ args, ...(await ran(args, environment(port))) })));
      for (const { args, code, stdout, stderr } of all) {
        expect([args, code, stdout]).toEqual([args, 1, ""]);
        expect(stderr, args.join(" ")).toMatch(NAMES);
        expect(stderr).not.toMatch(/hidden|^\s+at /m);
      }
      return Math.max(...all.map(({ ms }) => ms));
    });
  },
  240_000,
);
