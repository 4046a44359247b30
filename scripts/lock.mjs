// Completes package-lock.json: one entry for every optional platform package, also those that the
// machine which wrote the lock could not resolve.
// npm leaves such packages out without a word, and `npm ci` then refuses the lock on every other
// platform. Usage: node scripts/lock.mjs [--check]
import { readFileSync, writeFileSync } from "node:fs";

const file = new URL("../package-lock.json", import.meta.url);
const lock = JSON.parse(readFileSync(file, "utf8"));
const at = (parent, name) => `${parent ? `${parent}/` : ""}node_modules/${name}`;

/**
 * Walks up from `from` as Node's resolution does, and says whether the lock holds `name` anywhere
 * on the way.
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
 * The platform that a package name ends in, e.g. `@x/cli-linux-arm64-musl`; npm installs the entry
 * on that platform alone.
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

if (process.argv.includes("--check")) {
  for (const { name, parent } of missing)
    console.error(`package-lock.json: ${name} (optional in ${parent}) has no entry; run: node scripts/lock.mjs`);
  const resolved = Object.entries(lock.packages).filter(([, entry]) => entry.resolved);
  for (const [path] of resolved) console.error(`package-lock.json: ${path} names a download address`);
  process.exit(missing.length + resolved.length > 0 ? 1 : 0);
}
for (const { name, version, dev } of missing)
  lock.packages[at("", name)] = { version, ...platformOf(name), ...(dev && { dev }), optional: true };
lock.packages = Object.fromEntries(Object.entries(lock.packages).sort(([a], [b]) => (a < b ? -1 : 1)));
if (missing.length > 0) writeFileSync(file, `${JSON.stringify(lock, null, 2)}\n`);
console.log(`package-lock.json: ${missing.length} entries added`);
