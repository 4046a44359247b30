// docs/security.md says of every key that is derived from the installation's secret what is lost
// without it. A label that the page lacks is one that a rotation forgets.
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const DERIVES = /(?:derive\([^,()]+(?:\([^()]*\))?, |keysFor\()["`]([^"`$]+)/g;

const labels = ["apps", "domain", "infra", "modules", "processors"].flatMap((folder) =>
  readdirSync(`${root}/${folder}`, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts"))
    .flatMap((file) => [...readFileSync(`${root}/${folder}/${file}`, "utf8").matchAll(DERIVES)])
    .map(([, label]) => label!),
);

test("every label of a derived key stands in docs/security.md", () => {
  const page = readFileSync(`${root}/docs/security.md`, "utf8");
  expect(labels.length).toBeGreaterThan(8);
  expect(labels.filter((label) => !page.includes(`\`${label}`))).toEqual([]);
});
