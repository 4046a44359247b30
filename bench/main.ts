// `npm run bench -- <name>`: runs one bench, which prints a table and keeps its result in
// bench/results/. bench/README.md says how to read one.
import { parseArgs } from "node:util";
import { noteLoad } from "./figures.ts";

const benches: Readonly<Record<string, string>> = {
  ingest: "events a second that one ingest process takes, with a tutorial pipeline beside it",
  peers: "the newest result of ingest beside the peers that this machine has; starts no servers",
  links: "visitors of tracking links a second, and how long they wait at half of that",
  pixel: "single page views a second, and how long they wait at half of that",
  postbacks: "payloads of an external source a second, and how long they wait at half of that",
  leads: "signed leads a second, and how long their senders wait",
  import: "how fast an uploaded file of sales becomes events, and the memory that takes",
  chain: "the whole pipeline at a steady rate: lag, freshness, CPU and memory of each process",
  stage: "how fast the hosted chain reads a full log, on one partition and on twelve",
  conversion: "what a conversion costs the worker and Postgres, from its claim to the ledger",
  money: "what a claim and a conversion cost as orders and partners grow; no servers",
  rollups: "what it costs to compute one touched minute again, by the size of its hour",
  replay: "how fast an hour of the log is replayed beside live traffic, and what that traffic pays",
  archive: "what archiving an event costs, and how fast archived hours come back",
  rewind: "how fast the stores are built again from millions of events, and whether memory stays flat",
  durable: "what it costs to sync each write to the disk, in the log and in the spool of an edge",
  api: "how fast every read of the platform API is over 24 months of history",
  commands: "how long twenty read-only commands take, and how soon they name a server that hangs",
  pure: "what each pure step costs, as a multiple of JSON.parse; no servers, held by npm test",
};
const usage = `npm run bench -- <name> [options]

A bench answers one question. It starts servers of its own, loads them, prints a table and keeps the
result in bench/results/. bench/README.md says how to read a table.

Benches:
${Object.entries(benches)
  .map(([bench, question]) => `  ${bench.padEnd(11)} ${question}`)
  .join("\n")}

Options, each with the benches that take it:
  --seconds N        measured time of a run (all that send at a rate, or for a time)
  --rate N           events a second (chain, replay, api, archive), conversions a second (conversion)
  --warm N           seconds of load before the measured time (chain)
  --runs N           number of runs, of which the median is printed (ingest, import, leads, rollups, commands)
  --events N         events a day of history (api), rows of the file (import), events in the log (rewind)
  --days N           days of history (api)
  --home folder      keeps the history there for the next run (api)
  --brokers N        1 or 3 brokers (chain)
  --bodies N,N       events a body, without the tutorial pipeline; 10000,1000,1 by default (ingest)
  --processes N      1 or 2 processes of ours side by side (ingest)
  --peer name=cmd    another program to measure beside ours; may be repeated (ingest)
  --json             prints the ratios alone, as JSON (pure)

Examples:
  $ npm run bench -- pure                                   the quickest: no servers, 1 minute
  $ npm run bench -- ingest                                 one edge beside a tutorial pipeline
  $ npm run bench -- ingest --bodies 1 --runs 2             single events only
  $ npm run bench -- chain --rate 10000 --seconds 60        the whole pipeline for a minute
`;
/** Folders of the benches that are not beside this file. */
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
if (values.help) process.stdout.write(usage);
else if (name === undefined || !(name in benches)) {
  process.stderr.write(name === undefined ? usage : `There is no bench ${name}; see: npm run bench -- --help\n`);
  process.exitCode = 2;
} else {
  const { run } = (await import(
    `./${folders[name] ?? ""}${name}${import.meta.url.endsWith(".js") ? ".js" : ".ts"}`
  )) as {
    run: (options: typeof values) => Promise<void>;
  };
  noteLoad();
  await run(values);
}
