// What runs on the embedded stack: the processes of the product.
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { App } from "../../../infra/embedded/app.ts";
import type { Home } from "../../../infra/embedded/home.ts";
import { pipeline } from "../../../topology.ts";
import { groupsBeside } from "../../log/groups/hosting.ts";

// A small heap bounds what a laptop gives away; a process may take 700 MiB. The events of a batch
// live for as long as the batch: with V8's own 16 MiB of young generation they are copied out of it
// again and again, which was 30 % of a worker (docs/performance.md).
const SMALL = ["--max-old-space-size=512", "--max-semi-space-size=64"];
// Buffers of bodies and of the log count as memory of the heap: V8 then marks all of it every 150
// ms, with a third of a process's CPU. Started large, and grown before it looks, it does so a few
// times in ten seconds. Nor does it collect the young generation between two turns of the loop,
// where a batch is alive.
const HEAP = [...SMALL, "--initial-old-space-size=300", "--heap-growing-percent=300", "--no-minor-gc-task"];
// All events of an insert are alive until it has been written, 60 MiB of them: they fit into what
// is young, and nearly none of them grows old.
const WIDE = [...HEAP, "--max-semi-space-size=128", "--initial-old-space-size=200"];

/** Stages that hand their events on in memory, apart from those of money. */
const CHAIN = "enrich,score,attribute";
/** A stage or a sink of topology.ts that is not named here is hosted here. */
const MONEY = groupsBeside(pipeline, [CHAIN]);
/** Every group of the product, as the arguments of its workers. */
export const workerGroups: readonly string[] = [CHAIN, ...MONEY];

/** They start together, and stop in reverse order: who reads before who writes. */
export const apps: readonly App[] = [
  { name: "ingest", module: "apps/ingest/main.js", login: "ingest", nodeArgs: HEAP },
  // The same edge with an address and a disk of its own, for when the first one is gone; while
  // nothing sends to it it stays small.
  { name: "ingest-standby", module: "apps/ingest/main.js", login: "ingest", nodeArgs: SMALL },
  // Marking the whole heap is a pause of up to 60 ms, and every visitor of that moment waits.
  { name: "links", module: "apps/links/main.js", login: "ingest", nodeArgs: HEAP },
  { name: "pixel", module: "apps/pixel/main.js", login: "ingest", nodeArgs: HEAP },
  { name: "upload", module: "apps/upload/main.js", login: "ingest", nodeArgs: SMALL },
  {
    name: "worker-chain",
    module: "apps/worker/main.js",
    login: "worker",
    args: [CHAIN],
    nodeArgs: HEAP,
  },
  {
    name: "worker-money",
    module: "apps/worker/main.js",
    login: "worker",
    args: MONEY,
    nodeArgs: WIDE,
  },
  { name: "api", module: "apps/api/main.js", login: "api", nodeArgs: SMALL },
  // It writes as that worker does while it replays, and stays small otherwise.
  { name: "keeper", module: "apps/keeper/main.js", login: "keeper", nodeArgs: WIDE },
];

/** The apps whose code is in this tree. */
export const appsPresent = (home: Home): readonly App[] =>
  apps.filter(({ module }) => existsSync(join(home.root, "dist", module)));
