// Completes package-lock.json with an entry for every optional platform package, also for those
// that the machine which wrote the lock could not resolve. npm leaves such packages out silently,
// and then `npm ci` refuses the lock on every other platform. Their digests come from the registry.
// Packages that no reachable registry has are listed in scripts/lock.unverified. Usage: node
// scripts/lock.mjs [--check]
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";

const file = new URL("../package-lock.json", import.meta.url);
const lock = JSON.parse(readFileSync(file, "utf8"));
const at = (parent, name) => `${parent ? `${parent}/` : ""}node_modules/${name}`;

/**
 * Walks up from `from` as Node's resolution does. Returns whether the lock has `name` on the way.
 */
const isLocked = (from, name) => {
  for (let parent = from; ; ) {
    if (lock.packages[at(parent, name)]) return true;
    if (!parent) return false;
    const cut = parent.lastIndexOf("node_modules/");
    parent = cut <= 0 ? "" : parent.slice(0, cut - 1);
  }
};

const PLATFORM = new RegExp(
  "(android|darwin|linux|win32|freebsd|openbsd|openharmony)-(arm64|x64|arm|ia32|ppc64|riscv64|s390x)" +
    "(?:-(gnu|musl|gnueabihf|musleabihf|eabi|msvc))?$",
);

/**
 * The platform at the end of a package's name, e.g. `@x/cli-linux-arm64-musl`. npm installs the
 * entry on that platform only.
 */
const platformOf = (name) => {
  const [, os, cpu, libc] = PLATFORM.exec(name) ?? [];
  if (!os)
    throw new Error(`package-lock.json: no entry for ${name}, and its name does not tell a platform; add it by hand`);
  const library = /^gnu/.test(libc) ? "glibc" : /^musl/.test(libc) ? "musl" : undefined;
  return { cpu: [cpu], ...(library && { libc: [library] }), os: [os] };
};

const missing = [];
for (const [path, entry] of Object.entries(lock.packages))
  for (const [name, version] of Object.entries(entry.optionalDependencies ?? {}))
    if (!isLocked(path, name))
      missing.push({ name, version: version.replace(/^[~^]/, ""), dev: entry.dev, parent: path });

const nameOf = (path) => path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length);
const locked = () => Object.entries(lock.packages).filter(([path, entry]) => path !== "" && !entry.link);
const unverified = () => locked().filter(([, { integrity }]) => !/^sha512-/.test(integrity ?? ""));
const unverifiedFile = new URL("lock.unverified", import.meta.url);
const listed = new Set(
  readFileSync(unverifiedFile, "utf8")
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#")),
);
const isOnPlatform = ({ os, optional }) => optional === true && os !== undefined;

/** Problems of the lock, one line each. */
function* problems() {
  for (const { name, parent } of missing)
    yield `${name} (optional in ${parent}) has no entry; run: node scripts/lock.mjs`;
  for (const [path, { resolved }] of locked()) if (resolved) yield `${path} names a download address`;
  const named = new Set(unverified().map(([path, { version }]) => `${nameOf(path)}@${version}`));
  for (const [path, entry] of unverified()) {
    const name = `${nameOf(path)}@${entry.version}`;
    if (!isOnPlatform(entry)) yield `${path} has no SHA-512, and is installed on every platform`;
    else if (!listed.has(name)) yield `${path} has no SHA-512 and is not in scripts/lock.unverified: ${name}`;
  }
  for (const name of listed)
    if (!named.has(name)) yield `scripts/lock.unverified names ${name}, which needs it no more`;
}

if (process.argv.includes("--check")) {
  const found = [...problems()];
  for (const problem of found) console.error(`package-lock.json: ${problem}`);
  process.exit(found.length > 0 ? 1 : 0);
}

/** The digest according to the registry, which may not have the packages of other platforms. */
const integrityOf = (name, version) => {
  const { status, stdout } = spawnSync("npm", ["view", `${name}@${version}`, "dist.integrity"], { encoding: "utf8" });
  return status === 0 && /^sha512-\S+$/.test(stdout.trim()) ? stdout.trim() : undefined;
};
for (const { name, version, dev } of missing)
  lock.packages[at("", name)] = { version, ...platformOf(name), ...(dev && { dev }), optional: true };
let filled = 0;
for (const [path, entry] of unverified()) {
  const integrity = integrityOf(nameOf(path), entry.version);
  if (integrity === undefined) continue;
  const { version, ...rest } = entry;
  lock.packages[path] = { version, integrity, ...rest };
  filled += 1;
}
lock.packages = Object.fromEntries(Object.entries(lock.packages).sort(([a], [b]) => (a < b ? -1 : 1)));
if (missing.length + filled > 0) writeFileSync(file, `${JSON.stringify(lock, null, 2)}\n`);
const left = unverified().map(([path, { version }]) => `${nameOf(path)}@${version}`);
const head = readFileSync(unverifiedFile, "utf8")
  .split("\n")
  .filter((line) => line.startsWith("#"));
writeFileSync(unverifiedFile, `${[...head, ...left.sort()].join("\n")}\n`);
console.log(
  `package-lock.json: ${missing.length} entries added, ${filled} digests filled in, ${left.length} not known`,
);
