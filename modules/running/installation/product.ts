// What runs on the embedded stack: the processes of the product.
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { App } from "../../../infra/embedded/app.ts";
import type { Home } from "../../../infra/embedded/home.ts";
import type { AppLogin } from "../../../infra/postgres/logins.ts";
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

/** What the image gives every process (Dockerfile). */
export const imageOptions: readonly string[] = HEAP;

/** A process of the product, and what it needs in a container (docker-compose.yml). */
export interface ProductApp extends App {
  readonly login: AppLogin;
  readonly container?: {
    /** Where it is published on the loopback, unless <NAME>_PORT says otherwise. */
    readonly port?: number;
    /** The volume of its spool, where that is not the one of the others. */
    readonly spool?: string;
    /** Apps whose addresses are its arguments there; on the embedded stack it reads run.json. */
    readonly asks?: readonly string[];
    readonly comment?: string;
  };
}

/** Stages that hand their events on in memory, apart from those of money. */
const CHAIN = "enrich,score,attribute";
/** A stage or a sink of topology.ts that is not named here is hosted here. */
const MONEY = groupsBeside(pipeline, [CHAIN]);
/** Every group of the product, as the arguments of its workers. */
export const workerGroups: readonly string[] = [CHAIN, ...MONEY];

/** They start together, and stop in reverse order: who reads before who writes. */
export const apps: readonly ProductApp[] = [
  { name: "ingest", module: "apps/ingest/main.js", login: "ingest", nodeArgs: HEAP, container: { port: 8080 } },
  {
    // The same edge with an address and a disk of its own, for when the first one is gone; while
    // nothing sends to it it stays small.
    name: "ingest-standby",
    module: "apps/ingest/main.js",
    login: "ingest",
    nodeArgs: SMALL,
    container: {
      port: 8083,
      spool: "standby",
      comment:
        "Its spool has a volume of its own; put that on another disk, and the disk of the first edge " +
        "may fill up or break.",
    },
  },
  // Marking the whole heap is a pause of up to 60 ms, and every visitor of that moment waits.
  { name: "links", module: "apps/links/main.js", login: "ingest", nodeArgs: HEAP, container: { port: 8084 } },
  {
    name: "pixel",
    module: "apps/pixel/main.js",
    login: "ingest",
    nodeArgs: HEAP,
    container: {
      port: 8085,
      comment: "Its script and the requests of browsers; put your proxy in front, and name it in TRUSTED_PROXIES.",
    },
  },
  {
    name: "upload",
    module: "apps/upload/main.js",
    login: "ingest",
    nodeArgs: SMALL,
    container: {
      port: 8086,
      comment: "Takes files in parts, and makes events of the rows of every file; any number of them.",
    },
  },
  { name: "worker-chain", module: "apps/worker/main.js", login: "worker", args: [CHAIN], nodeArgs: HEAP },
  { name: "worker-money", module: "apps/worker/main.js", login: "worker", args: MONEY, nodeArgs: WIDE },
  { name: "api", module: "apps/api/main.js", login: "api", nodeArgs: SMALL, container: { port: 8082 } },
  {
    // It writes as that worker does while it replays, and stays small otherwise.
    name: "keeper",
    module: "apps/keeper/main.js",
    login: "keeper",
    nodeArgs: WIDE,
    container: { asks: ["api", "ingest", "ingest-standby"] },
  },
];

/** Its workers as commands. */
export const workerLines: readonly string[] = apps.flatMap(({ login, module, args = [] }) =>
  login === "worker" ? `node dist/${module} ${args.join(" ")}` : [],
);

/** The apps whose code is in this tree. */
export const appsPresent = (home: Home): readonly App[] =>
  apps.filter(({ module }) => existsSync(join(home.root, "dist", module)));
