// `npm run bench -- ingest`, or another of those that `--help` lists: one question a file; prints a
// table and keeps the result in bench/results/. bench/README.md says how to read one.
import { parseArgs } from "node:util";
import { noteLoad } from "./figures.ts";

const benches: Readonly<Record<string, string>> = {
  ingest:
    "how many events a second one ingest process takes, after the log's acknowledgement; a tutorial twin beside it",
  import: "how fast a stored file of sales becomes events in the log, and the memory that takes",
  peers: "the newest figures of ingest beside the tutorial twin, and beside peers that are installed here",
  links: "how many visitors of tracking links one process sends on a second, and how long they wait at half of that",
  pixel:
    "how many requests of one event one process of pixels answers a second, and how long they wait at half of that",
  postbacks: "how many payloads of a source one ingest process takes a second, and how long they wait at half of that",
  leads: "how many signed leads a second one process of the platform API stores, and how long their senders wait",
  rollups: "what it costs to compute one touched minute again, by the number of events in its client's hour",
  pure:
    "what every pure step costs an event, as a multiple of JSON.parse of it; no servers (npm test " +
    "holds it against bench/pure.ratios.json)",
  stage:
    "how fast the hosted chain works off what lies in the log: every event on one partition, and spread over twelve",
  replay:
    "how fast an hour of the log is written to the stores again beside the live rate, and what live " +
    "traffic pays for it",
  money:
    "what a claim costs as its order grows to 2,000 lines, and a conversion as its partner comes to have " +
    "a million; no servers",
  conversion: "what a conversion costs the worker and Postgres, from its claim to the ledger, at a steady rate",
  archive: "what archiving an event costs, and how fast a window comes back, restored or relearnt",
  rewind: "how fast the stores are built again from millions of events in the log, and whether memory stays flat",
  durable: "what it costs to survive a power cut: the log with a sync for each send, and the spool of an edge",
  api:
    "how fast every read of the platform API is over 24 months of history, alone and for 50 users at " +
    "once beside live traffic",
  commands: "how long twenty commands take that change nothing, and how soon they name a server that hangs",
  chain: "the whole pipeline at a steady rate: lag, freshness, CPU per process and event",
};
/** Of those that do not lie beside this file. */
const folders: Readonly<Record<string, string>> = {
  conversion: "money/",
  import: "edges/",
  leads: "edges/",
  links: "edges/",
  money: "money/",
  pixel: "edges/",
  postbacks: "edges/",
};
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seconds: { type: "string" },
    rate: { type: "string" },
    warm: { type: "string" },
    days: { type: "string" },
    events: { type: "string" },
    home: { type: "string" },
    runs: { type: "string" },
    brokers: { type: "string" },
    bodies: { type: "string" },
    processes: { type: "string" },
    peer: { type: "string", multiple: true },
    json: { type: "boolean" },
    help: { type: "boolean", short: "h", default: false },
  },
});
const [name] = positionals;
if (name === undefined || values.help || !(name in benches)) {
  process.stdout.write(
    "Examples:\n  $ npm run bench -- ingest\n  $ npm run bench -- chain --rate 10000 --seconds 60\n\n",
  );
  for (const [bench, question] of Object.entries(benches)) process.stdout.write(`${bench.padEnd(8)} ${question}\n`);
  process.stdout.write(
    "\n--seconds <n>  measured time of a run\n" +
      "--rate <n>     events a second (chain, replay, api, archive)\n" +
      "--days <n>     days of history (api)\n" +
      "--events <n>   events a day of history (api), rows of the file (import), events in the log (rewind)\n" +
      "--home <dir>   keeps the history for the next time (api)\n" +
      "--warm <n>     seconds before the measured time (chain)\n" +
      "--brokers <n>  of the log, 1 or 3 (chain)\n" +
      "--runs <n>     runs; the median is printed\n" +
      "--bodies <n,n>  events a body, of ours alone (ingest; 10000,1000,1)\n" +
      "--processes <n>  of ours, 1 or 2 side by side (ingest)\n" +
      "--peer <name=command>  a program that is measured beside ours, may be repeated (ingest)\n" +
      "--json         the ratios alone (pure)\n",
  );
  process.exitCode = values.help ? 0 : 2;
} else {
  const { run } = (await import(
    `./${folders[name] ?? ""}${name}${import.meta.url.endsWith(".js") ? ".js" : ".ts"}`
  )) as {
    run: (options: typeof values) => Promise<void>;
  };
  noteLoad();
  await run(values);
}
