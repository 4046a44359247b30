// What runs on the embedded stack: the processes of the product.
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { App } from "./app.ts";
import type { Home } from "./home.ts";

// A small heap bounds what a laptop gives away; performance.md T7 allows 700 MiB a process.
const HEAP = ["--max-old-space-size=640"];

/** In the order of starting: who writes before who reads, so that nothing waits for a topic's first record. */
export const apps: readonly App[] = [
  { name: "ingest", module: "apps/ingest/main.js", nodeArgs: HEAP },
  { name: "worker-chain", module: "apps/worker/main.js", args: ["enrich,score,attribute"], nodeArgs: HEAP },
  {
    name: "worker-money",
    module: "apps/worker/main.js",
    args: ["settle", "commission", "product-sales", "conversions", "ledger", "analytics"],
    nodeArgs: HEAP,
  },
];

/** The apps whose code is in this tree. */
export const appsPresent = (home: Home): readonly App[] => apps.filter(({ module }) => existsSync(join(home.root, "dist", module)));
