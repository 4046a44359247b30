// The processes of the product, as they run on the embedded stack.
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { App } from "../../../infra/embedded/app.ts";
import type { Home } from "../../../infra/embedded/home.ts";
import type { AppLogin } from "../../../infra/postgres/logins.ts";
import { pipeline } from "../../../topology.ts";
import { groupsBeside } from "../../log/groups/hosting.ts";

// A small heap limits what the product takes from a laptop; a process may use 700 MiB. Events live
// as long as their batch: with V8's default young generation of 16 MiB they were copied out of it
// again and again, which took 30 % of a worker (docs/performance.md).
const SMALL = ["--max-old-space-size=512", "--max-semi-space-size=64"];
// Buffers of bodies and of the log count towards the heap: V8 then marked all of it every 150 ms,
// with a third of a process's CPU. A large initial heap that grows in larger steps reduces that to
// a few times in ten seconds. `--no-minor-gc-task` stops V8 from collecting the young generation
// between two turns of the event loop, while a batch is alive.
const HEAP = [...SMALL, "--initial-old-space-size=300", "--heap-growing-percent=300", "--no-minor-gc-task"];
// All events of an insert (60 MiB) stay alive until it is written. They fit into this young
// generation, so that almost none is promoted.
const WIDE = [...HEAP, "--max-semi-space-size=128", "--initial-old-space-size=200"];

/** The options that the image sets for every process (Dockerfile). */
export const imageOptions: readonly string[] = HEAP;

/** A process of the product, and its settings in a container (docker-compose.yml). */
export interface ProductApp extends App {
  readonly publicUrl?: "TRACKING_URL" | "PIXEL_URL" | "INGEST_URL" | "UPLOAD_URL";
  readonly login: AppLogin;
  readonly container?: {
    /** The port on the loopback, unless <NAME>_PORT sets another. */
    readonly port?: number;
    /** A volume of its own, in this folder of its home; <NAME>_VOLUME sets another. */
    readonly volume?: { readonly name: string; readonly folder: string };
    /**
     * Apps whose addresses it takes as arguments in a container; on the embedded stack it reads
     * run.json.
     */
    readonly asks?: readonly string[];
    /** Its profiles, when another service has its place in some; that one is written by hand. */
    readonly profiles?: readonly string[];
    readonly comment?: string;
  };
}

/** Stages that pass their events on in memory; the stages of money are hosted apart. */
const CHAIN = "enrich,score,attribute";
/** Hosts every stage and sink of topology.ts that is not named elsewhere. */
const MONEY = groupsBeside(pipeline, [CHAIN]);
/** Every group of the product, as the arguments of its workers. */
export const workerGroups: readonly string[] = [CHAIN, ...MONEY];

/** They start together and stop in reverse order: readers before writers. */
export const apps: readonly ProductApp[] = [
  {
    name: "ingest",
    module: "apps/ingest/main.js",
    login: "ingest",
    nodeArgs: HEAP,
    publicUrl: "INGEST_URL",
    container: { port: 8080 },
  },
  {
    // A second ingest edge with an address and a disk of its own, for failover. It stays small
    // while nothing is sent to it.
    name: "ingest-standby",
    module: "apps/ingest/main.js",
    login: "ingest",
    nodeArgs: SMALL,
    container: {
      port: 8083,
      volume: { name: "standby", folder: "spool" },
      comment:
        "Its spool has a volume of its own; put that on another disk (STANDBY_VOLUME), and the disk of the first " +
        "edge may fill up or break.",
    },
  },
  // Marking the whole heap pauses the process for up to 60 ms, and every visitor of that moment
  // waits.
  {
    name: "links",
    module: "apps/links/main.js",
    login: "links",
    nodeArgs: HEAP,
    publicUrl: "TRACKING_URL",
    container: { port: 8084 },
  },
  {
    name: "pixel",
    module: "apps/pixel/main.js",
    login: "pixel",
    nodeArgs: HEAP,
    publicUrl: "PIXEL_URL",
    container: {
      port: 8085,
      comment: "Its script and the requests of browsers; put your proxy in front, and name it in TRUSTED_PROXIES.",
    },
  },
  {
    name: "upload",
    module: "apps/upload/main.js",
    login: "upload",
    nodeArgs: SMALL,
    publicUrl: "UPLOAD_URL",
    container: {
      port: 8086,
      comment: "Takes files in parts, and makes events of the rows of every file; any number of them.",
    },
  },
  { name: "worker-chain", module: "apps/worker/main.js", login: "worker", args: [CHAIN], nodeArgs: HEAP },
  { name: "worker-money", module: "apps/worker/main.js", login: "worker", args: MONEY, nodeArgs: WIDE },
  {
    name: "api",
    module: "apps/api/main.js",
    login: "api",
    nodeArgs: SMALL,
    container: { port: 8082, profiles: ["app"] },
  },
  {
    // The keeper writes like the worker while it replays, and stays small otherwise.
    name: "keeper",
    module: "apps/keeper/main.js",
    login: "keeper",
    nodeArgs: WIDE,
    container: {
      asks: ["api", "ingest", "ingest-standby"],
      volume: { name: "restarts", folder: "restarts" },
      comment: "Its volume is where it asks the host to restart a store: docs/compose.md.",
    },
  },
];

/** The command lines of its workers. */
export const workerLines: readonly string[] = apps.flatMap(({ login, module, args = [] }) =>
  login === "worker" ? `node dist/${module} ${args.join(" ")}` : [],
);

/** The apps whose code is in this tree. */
export const appsPresent = (home: Home): readonly App[] =>
  apps.filter(({ module }) => existsSync(join(home.root, "dist", module)));
