// What keeps a stack from starting is said before its first process is started, all of it at once;
// and it says ready only while everything runs.
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { App } from "../../infra/embedded/app.ts";
import { diskFaults } from "../../infra/embedded/faults/machine-faults.ts";
import { openHome, repositoryRoot } from "../../infra/embedded/home.ts";
import { serverUser } from "../../infra/embedded/services/server-user.ts";
import type { StackEvent } from "../../infra/embedded/supervisor.ts";
import { startOf } from "../../infra/runtime/lock.ts";
import { apps } from "../../modules/running/installation/product.ts";
import { closedPort } from "../support/closed-port.ts";
import { ownConfig, type Workshop, workshop } from "./home-for-test.ts";

let here: Workshop;
beforeEach(() => {
  here = workshop();
});
afterEach(() => here.clear());

const write = (path: string, text: string): void => {
  mkdirSync(join(here.home, path, ".."), { recursive: true });
  writeFileSync(join(here.home, path), text);
};
const configWith = (change: Readonly<Record<string, string>>) => {
  const config = ownConfig();
  return { ...config, PATH: change.PATH ?? config.PATH, inherited: { ...config.inherited, ...change } };
};
const step = { name: "topics", run: async () => undefined };
const refusalOf = (start: Promise<unknown>): Promise<string> =>
  start.then(
    () => "it started",
    (error: Error) => error.message,
  );
const noProcessStarted = (): void => {
  expect(here.lines.filter((line) => line.includes(" starts as process "))).toEqual([]);
  expect(JSON.parse(readFileSync(join(here.home, "children.json"), "utf8"))).toEqual([]);
  expect(existsSync(join(here.home, "run.json"))).toBe(false);
};

test("everything that is missing or wrong is named at once, with its cure, and no process is started", async () => {
  chmodSync(here.home, 0o755);
  write("secrets.json", '{"tributary": "short"}');
  write("kafka/data/half", "");
  write("postgres/PG_VERSION", "16\n");
  const closed = await closedPort();
  const said = await refusalOf(
    here.start({
      steps: [step],
      apps: [...apps, { name: "late", module: "../tests/stack/no-such-app.mjs" }],
      config: configWith({
        PATH: "/nowhere",
        PORTAL_URL: "https://portal.example/app",
        SMTP_URL: "smtp://mail.example",
        TRUSTED_PROXIES: "0.0.0.0/0",
        TLS_CERT_FILE: join(here.home, "no.pem"),
        TLS_KEY_FILE: join(here.home, "no.key"),
        CLICKHOUSE_URL: `http://app:secret@127.0.0.1:${closed}/tributary`,
        KAFKA_BROKERS: "",
      }),
    }),
  );
  const lines = said.split("\n");
  expect(lines[0]).toBe(`Nothing was started, for ${lines.length - 1} reasons:`);
  for (const fault of [
    "Java was not found: install a JDK 17 or newer",
    `${join(here.home, "kafka", "data")} holds no complete Kafka data; remove that folder`,
    `${join(here.home, "postgres")} was written by Postgres 16, and this is 18; move it away`,
    "no-such-app.mjs is missing; compile first: npm run build.",
    "PORTAL_URL: must be an origin without a path or query, e.g. https://go.example.com; api cannot start with it",
    "SMTP_URL: must be smtp(s)://user:password@host:port/?from=...&to=a@x,b@y; api, keeper cannot start with it",
    `correct it in ${join(here.home, "secrets.json")}.`,
    "TLS_CERT_FILE and TLS_KEY_FILE cannot be used (ENOENT",
    `CLICKHOUSE_URL names 127.0.0.1:${closed}, where nothing answers (ECONNREFUSED); start that server, or unset`,
  ])
    expect(
      lines.filter((line) => line.startsWith("- ") && line.includes(fault)),
      `${fault} in\n${said}`,
    ).toHaveLength(1);
  expect(said).not.toContain("secret@");
  noProcessStarted();
});

test("data of a newer server and of another log are not touched", async () => {
  const first = await here.start({ services: ["clickhouse"] });
  await first.stop();
  const versions = JSON.parse(readFileSync(join(here.home, "versions.json"), "utf8")) as Record<string, string>;
  expect(versions).toEqual({ clickhouse: expect.stringMatching(/^\d+\.\d+/) });
  here.lines.length = 0;
  write("versions.json", JSON.stringify({ clickhouse: "99.1.0", kafka: "99.0" }));
  write("kafka/data/meta.properties", "version=1\nnode.id=1\ncluster.id=another\n");
  const said = await refusalOf(here.start({ services: ["clickhouse", "kafka"] }));
  const data = (name: string) => `The data in ${join(here.home, name)} were written by ${name}`;
  expect(said).toContain(`${data("clickhouse")} 99.1.0, and this is ${versions.clickhouse}; go back to`);
  expect(said).toContain(`${data("kafka")} 99.0, and this is 4.`);
  expect(said).toContain(`${join(here.home, "kafka", "data")} is of another log (cluster another, broker 1); move it`);
  noProcessStarted();
  write("versions.json", JSON.stringify({ clickhouse: "1.0.0" }));
  expect((await here.start({ services: ["clickhouse"] })).pid("clickhouse")).toBeDefined();
});

test("a disk with little room is refused before anything is written", () => {
  const home = openHome(here.home);
  expect(diskFaults(home, { bavail: 600, bsize: 1024 ** 2 })).toEqual([]);
  expect(diskFaults(home, { bavail: 511, bsize: 1024 ** 2 })).toEqual([
    `Only 511 MiB are free at ${here.home}, and a start needs 512; ` +
      "free some space, or set TRIBUTARY_HOME to a folder on a larger disk.",
  ]);
});

/** Runs the compiled check as another user, who need not reach this checkout, or as this one. */
const homeFaultsOf = (home: string, user: { readonly uid: number; readonly gid: number } | undefined): string => {
  const compiled = readFileSync(join(repositoryRoot(), "dist/infra/embedded/faults/machine-faults.js"), "utf8");
  const asked = `{ folder: ${JSON.stringify(home)}, path: (name) => \`${home}/\${name}\` }`;
  const script = `${compiled}\nconsole.log(homeFaults(${asked}).join("\\n"));`;
  return spawnSync(process.execPath, ["--input-type=module", "-e", script], { cwd: "/", encoding: "utf8", ...user })
    .stdout;
};

test("a folder that may not be written is named with its cure, and nothing in it is touched", () => {
  const user = serverUser();
  write("logs/kafka.log", "");
  chmodSync(here.home, user === undefined ? 0o555 : 0o755);
  const said = homeFaultsOf(here.home, user);
  chmodSync(here.home, 0o755);
  expect(said).toMatch(/^\S+ cannot be written: EACCES.*; start as the user who made it, or set TRIBUTARY_HOME/);
  expect(homeFaultsOf(here.home, undefined).trim()).toBe("");
});

describe("the command", () => {
  const root = repositoryRoot();
  const npmStart = (env: Readonly<Record<string, string>>, as = {}) =>
    spawnSync(process.execPath, [join(root, "dist/tools/stack/main.js"), "--once"], {
      env: { PATH: process.env.PATH, HOME: here.home, TRIBUTARY_HOME: here.home, ...env },
      encoding: "utf8",
      timeout: 60_000,
      ...as,
    });

  test("ends with 1, and says nothing but the fault and its cure", () => {
    const { status, stdout, stderr } = npmStart({ PORTAL_URL: "portal.example" });
    expect([status, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(/^Nothing was started: PORTAL_URL: must be an origin .*; api cannot start with it: .*\.\n$/);
  });

  test("names a place where no folder can be made", () => {
    write("file", "");
    const { status, stderr } = npmStart({ TRIBUTARY_HOME: join(here.home, "file", "home") });
    expect(status).toBe(2);
    expect(stderr).toMatch(/file\/home cannot be made \(ENOTDIR\); set TRIBUTARY_HOME to a folder/);
  });
});

describe("while the rest is started", () => {
  const early: App = { name: "early", module: "../tests/stack/app-for-test.mjs" };
  const late = (when: string): App => ({ name: "late", module: "../tests/stack/late-app-for-test.mjs", args: [when] });
  /** Kills `early` when `late` is ready, which is last, and then each time that it comes back. */
  const killer = (times: number) => {
    let pid: number | undefined;
    let left = times;
    let isLate = false;
    return (event: StackEvent): void => {
      here.lines.push(event.text);
      if (event.kind !== "child.ready") return;
      if (event.name === "early") pid = event.pid;
      isLate ||= event.name === "late";
      if (!isLate || left === 0) return;
      left -= 1;
      process.kill(pid!, "SIGKILL");
      while (startOf(pid!) !== undefined);
    };
  };

  test("ready is said when a process that ended meanwhile runs again", async () => {
    let state: unknown;
    const kill = killer(1);
    const stack = await here.start({
      services: [],
      apps: [early, late("1500")],
      onEvent: (event) => {
        if (event.kind === "stack.ready") state = here.lines.filter((line) => line.startsWith("early is ready")).length;
        kill(event);
      },
    });
    expect(state).toBe(2);
    expect(startOf(stack.pid("early")!)).toBeDefined();
    expect(here.lines.at(-1)).toBe("The stack is ready.");
  });

  test("a process that ends again and again ends the start", async () => {
    const said = await refusalOf(here.start({ services: [], apps: [early, late("1500")], onEvent: killer(9) }));
    expect(said).toBe("early ended again and again while the rest was started.");
    expect(here.lines).not.toContain("The stack is ready.");
  });

  test("a failure is reported at once, though another still starts", async () => {
    const failing: App = { name: "failing", module: "../tests/stack/app-for-test.mjs", nodeArgs: ["--no-such-option"] };
    const began = performance.now();
    const said = await refusalOf(here.start({ services: [], apps: [late("never"), failing] }));
    expect(said).toContain("failing ended with code 9");
    // Alone it would be waited for for 90 s.
    expect(performance.now() - began).toBeLessThan(45_000);
  });
});
