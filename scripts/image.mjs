// Copies from dist/ only what the programs of the image import: no embedded servers, no faults, no
// tests. Usage: node scripts/image.mjs <compiled folder> <target folder>
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";

const PROGRAMS = ["ingest", "links", "pixel", "upload", "worker", "keeper", "api", "cli"].map(
  (app) => `apps/${app}/main.js`,
);
/** Folders whose files are found by listing them. */
const LISTED = { "apps/ingest/edges.js": "apps/ingest/edges", "apps/api/routes.js": "apps/api/routes" };
/** `imports` of package.json, without the condition that arms faults. */
const NAMED = { "#failpoint": "stream/failpoint.js" };
const IMPORT = /^\s*(?:import|export)\b[^"';]*?from\s*"([^"]+)"|^\s*import\s*"([^"]+)"|\bimport\("([^"]+)"\)/gm;

/**
 * @param {string} from a folder of compiled files
 * @returns {string[]} the files that the programs reach, relative to it
 */
export function reachedIn(from) {
  const reached = new Set();
  const visit = (file) => {
    if (reached.has(file)) return;
    reached.add(file);
    for (const [, ...targets] of readFileSync(join(from, file), "utf8").matchAll(IMPORT)) {
      const target = targets.find((one) => one !== undefined);
      if (NAMED[target]) visit(NAMED[target]);
      else if (target.startsWith(".")) visit(normalize(join(dirname(file), target)));
    }
    const folder = LISTED[file];
    const listed = folder ? readdirSync(join(from, folder), { recursive: true }) : [];
    for (const name of listed) if (name.endsWith(".js")) visit(join(folder, name));
  };
  for (const program of PROGRAMS) visit(program);
  return [...reached].sort();
}

const [from, to] = process.argv.slice(2);
if (from && to) {
  if (existsSync(to)) throw new Error(`${to} exists already`);
  for (const file of reachedIn(from)) {
    mkdirSync(dirname(join(to, file)), { recursive: true });
    cpSync(join(from, file), join(to, file));
  }
  // The files that browsers load from the pixel's host.
  cpSync(join(from, "pixel"), join(to, "pixel"), { recursive: true });
}
