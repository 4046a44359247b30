// Prometheus's own judge of alert rules. It comes from Debian's package, whose version and digest
// are in ops/prometheus/promtool.lock, and is kept in .tributary; no root is needed.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";

const LOCK = "ops/prometheus/promtool.lock";
const FOLDER = resolve(".tributary", "promtool");
const MINUTES_5 = 300_000;

/** The locked version, and the digest of its package for each architecture. */
const locked = (): ReadonlyMap<string, string> =>
  new Map(
    readFileSync(LOCK, "utf8")
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("#"))
      .map((line) => line.split(" ") as [string, string]),
  );

const run = (cwd: string, file: string, args: readonly string[]) =>
  spawnSync(file, args, { cwd, encoding: "utf8", timeout: MINUTES_5, maxBuffer: 256 * 1024 * 1024 });

/** As Debian names what this process runs on. */
const architecture = { x64: "amd64", arm64: "arm64" }[process.arch as string];

const install = (): string => {
  const lock = locked();
  const version = lock.get("version")!;
  const place = join(FOLDER, version);
  const tool = join(place, "promtool");
  if (existsSync(tool)) return tool;
  const onPath = run(".", "promtool", ["--version"]);
  const digest = lock.get(architecture ?? "");
  const cure = `install Prometheus, so that promtool is on the PATH (brew install prometheus), or renew ${LOCK}`;
  if (digest === undefined || run(".", "apt-get", ["--version"]).status !== 0) {
    if (onPath.status === 0) return "promtool";
    throw new Error(`promtool is locked for Debian on ${[...lock.keys()].slice(1).join(", ")} alone: ${cure}`);
  }
  const fresh = `${place}.${process.pid}.new`;
  mkdirSync(fresh, { recursive: true });
  try {
    const isLocked = download(fresh, version, cure);
    const [file] = readdirSync(fresh).filter((name) => name.endsWith(".deb"));
    const found = createHash("sha512")
      .update(readFileSync(join(fresh, file!)))
      .digest("hex");
    if (isLocked && found !== digest) throw new Error(`${file} is not the package of ${LOCK}: its SHA-512 is ${found}`);
    const unpacked = run(fresh, "dpkg", ["-x", file!, "unpacked"]);
    if (unpacked.status !== 0) throw new Error(`${file} cannot be unpacked: ${unpacked.stderr}`);
    renameSync(join(fresh, "unpacked", "usr", "bin", "promtool"), join(fresh, "promtool"));
    chmodSync(join(fresh, "promtool"), 0o755);
    for (const rest of [file!, "unpacked"]) rmSync(join(fresh, rest), { recursive: true, force: true });
    renameSync(fresh, place);
  } catch (error) {
    // Another process may have been quicker.
    if (!existsSync(tool)) throw error;
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
  return tool;
};

/**
 * Returns false when Debian has replaced the locked version: what it has now is taken, as its
 * signed list vouches for it. A fresh machine has no list of packages yet.
 */
const download = (folder: string, version: string, cure: string): boolean => {
  const ask = (name: string) => run(folder, "apt-get", ["-q", "download", name]);
  const wanted = `prometheus=${version}`;
  if (ask(wanted).status === 0) return true;
  run(folder, "apt-get", ["-q", "update"]);
  if (ask(wanted).status === 0) return true;
  const now = ask("prometheus");
  if (now.status === 0) console.warn(`Debian no longer has ${wanted}, and its present one is used: renew ${LOCK}`);
  else throw new Error(`Debian's ${wanted} could not be fetched: ${now.stderr.trim()}. Otherwise ${cure}.`);
  return false;
};

/** Runs promtool. Returns its output, and whether it was content. */
export const promtool = (...args: readonly string[]): { readonly isGood: boolean; readonly text: string } => {
  const { status, stdout, stderr, error } = run(".", install(), args);
  if (error !== undefined) throw error;
  return { isGood: status === 0, text: `${stdout}${stderr}` };
};
