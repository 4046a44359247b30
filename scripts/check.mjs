// Runs all checks that need no service: lock, generated files, types, lint and format, imports,
// diagram, licences. At the end it lists files that are over a size budget.
import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";

const node = (...args) => [process.execPath, args];
const bin = (name, ...args) => [process.execPath, [`node_modules/${name}`, ...args]];
const steps = {
  "the lock names every platform": node("scripts/lock.mjs", "--check"),
  "generated types match topics.yaml and schemas": node("scripts/generate.mjs", "--check"),
  types: bin("typescript/bin/tsc", "-p", "tsconfig.json"),
  "types of the browser's script": bin("typescript/bin/tsc", "-p", "browser/tsconfig.json"),
  "size of the browser's script": node("scripts/pixel.mjs"),
  "lint and format": bin("@biomejs/biome/bin/biome", "check", "--error-on-warnings", "."),
  "columns, words, names, folders, cited paths, subjects": node("scripts/lints.mjs"),
  "dead exports and unused packages": bin("knip/bin/knip.js", "--no-progress"),
  "imports and topology": bin("vitest/vitest.mjs", "run", "--project", "fast", "tests/topology", "--reporter", "dot"),
  "diagram, hosting and compose match topology.ts": node("dist/apps/cli/generate/describe.js", "--check"),
  "docs/permissions.md": node("dist/apps/api/generate/permissions.js", "--check"),
  ".env.example": node("dist/apps/cli/generate/env-example.js", "--check"),
};

let failed = 0;
for (const [name, [command, args]] of Object.entries(steps)) {
  const started = performance.now();
  const { status, stdout, stderr } = spawnSync(command, args, {
    encoding: "utf8",
    env: { ...process.env, FORCE_COLOR: "0" },
  });
  console.log(`${status === 0 ? "ok    " : "FAILED"} ${name} (${((performance.now() - started) / 1000).toFixed(1)} s)`);
  if (status === 0) continue;
  failed += 1;
  console.log(`${stdout}${stderr}`.trimEnd().replace(/^/gm, "       "));
}

const licences = new Set([
  ..."MIT ISC Apache-2.0 BSD-2-Clause BSD-3-Clause 0BSD Unlicense MIT-0 CC0-1.0 CC-BY-4.0".split(" "),
  ..."BlueOak-1.0.0 MPL-2.0 Python-2.0 PDDL-1.0 PostgreSQL".split(" "),
]);
/** Packages without a licence in their manifest that contain the MIT text. */
const carryMitText = new Set(["@kafkajs/confluent-schema-registry"]);
const lock = JSON.parse(readFileSync("package-lock.json", "utf8"));
const unlicensed = Object.entries(lock.packages)
  .filter(
    ([path, entry]) =>
      path !== "" &&
      entry.license !== undefined &&
      !String(entry.license)
        .replace(/[()]/g, "")
        .split(/ OR | AND /)
        .some((name) => licences.has(name)),
  )
  .filter(([path]) => !carryMitText.has(path.replace(/^.*node_modules\//, "")))
  .map(([path, entry]) => `${path.replace(/^.*node_modules\//, "")}: ${entry.license}`);
console.log(`${unlicensed.length === 0 ? "ok    " : "FAILED"} licences`);
for (const line of unlicensed) console.log(`       ${line}`);
failed += unlicensed.length > 0 ? 1 : 0;

/** A note, not a rule: a good reason is worth more than a budget. */
const tooLong = execFileSync("git", ["ls-files", "*.ts", "*.mjs"], { encoding: "utf8" })
  .split("\n")
  .filter((file) => file !== "" && !file.includes("generated"))
  .map((file) => [file, readFileSync(file, "utf8").split("\n").length])
  .filter(([, lines]) => lines > 300);
if (tooLong.length > 0)
  console.log(`note   over 300 lines: ${tooLong.map(([file, lines]) => `${file} (${lines})`).join(", ")}`);
process.exit(failed > 0 ? 1 : 0);
