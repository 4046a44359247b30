// Bundles the browser's script (browser/) into dist/pixel. Fails if a file is larger than a page
// should load. Usage: node scripts/pixel.mjs
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
/**
 * The files that a page loads at once, and those that the script loads later, with their largest
 * size in bytes after gzip -9.
 */
const FILES = [
  { entry: "main.ts", file: "r.js", most: 12 * 1_024 },
  { entry: "vitals/vitals.ts", file: "vitals.js", most: 5 * 1_024 },
  { entry: "recorder/recorder.ts", file: "replay.js", most: 25 * 1_024 },
  // No page loads this file. It plays a recording for an operator (tributary replay-view).
  { entry: "recorder/player.ts", file: "player.js", most: 80 * 1_024 },
];
const RRWEB = "/*! contains rrweb, (c) its contributors, MIT */";
const NOTICE = {
  "vitals.js": "/*! contains web-vitals, (c) Google LLC, Apache-2.0 */",
  "replay.js": RRWEB,
  "player.js": RRWEB,
};

/** Bundles one file and replaces it in one step, so that no server reads half of it. */
async function bundle({ entry, file }) {
  const { build } = await import("esbuild");
  const { outputFiles } = await build({
    absWorkingDir: root,
    entryPoints: [`browser/${entry}`],
    tsconfig: "browser/tsconfig.json",
    bundle: true,
    minify: true,
    format: "iife",
    target: "es2019",
    charset: "utf8",
    legalComments: "none",
    banner: { js: NOTICE[file] ?? "" },
    logLevel: "warning",
    write: false,
  });
  const contents = Buffer.from(outputFiles[0].contents);
  const target = join(root, "dist", "pixel", file);
  if (!existsSync(target) || !readFileSync(target).equals(contents)) {
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(`${target}.${process.pid}`, contents);
    renameSync(`${target}.${process.pid}`, target);
  }
  return gzipSync(contents, { level: 9 }).length;
}

/**
 * Bundles the browser's files.
 * @returns {Promise<string[]>} a line for each that is larger than it may be
 */
export async function bundleAll(say = () => undefined) {
  const tooLarge = [];
  for (const one of FILES) {
    const bytes = await bundle(one);
    say(`dist/pixel/${one.file}: ${bytes} bytes after gzip -9, at most ${one.most}`);
    if (bytes > one.most) tooLarge.push(`dist/pixel/${one.file} is ${bytes - one.most} bytes too large`);
  }
  return tooLarge;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const tooLarge = await bundleAll(console.log);
  for (const line of tooLarge) console.error(line);
  if (tooLarge.length > 0) process.exit(1);
}
