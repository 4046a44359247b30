// Prints our newest figures of accepting events beside those of the tutorial twin and the peers of
// the same run, and lists the peers on this machine.
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { RESULTS } from "./figures.ts";
import { type Measured, tableOf } from "./load/measured.ts";

interface Result {
  readonly commit: string;
  readonly machine: string;
  readonly node: string;
  readonly load_before?: number | null;
  readonly load: number;
  readonly seconds: number;
  readonly runs: readonly Measured[];
}
/**
 * Programs that take events over HTTP and write them to Kafka, with the names of their commands.
 */
const known: Readonly<Record<string, readonly string[]>> = {
  vector: ["vector"],
  bento: ["bento", "benthos", "redpanda-connect"],
  "otel collector": ["otelcol", "otelcol-contrib"],
  "fluent bit": ["fluent-bit"],
};

export interface Installed {
  readonly name: string;
  readonly program: string;
  readonly version: string;
}
const installedHere = (): readonly Installed[] =>
  Object.entries(known).flatMap(([name, programs]) =>
    programs.flatMap((program): readonly Installed[] => {
      const { error, stdout } = spawnSync(program, ["--version"], { encoding: "utf8", timeout: 10_000 });
      return error === undefined ? [{ name, program, version: stdout.split("\n")[0]!.trim() }] : [];
    }),
  );

const isPeer = ({ who }: Measured): boolean => !who.startsWith("tributary");

/** The output of `npm run bench -- peers` for a folder of results. */
export const peersText = (folder: string, installed: readonly Installed[]): string => {
  const files = existsSync(folder) ? readdirSync(folder).filter((file) => file.endsWith("-ingest.json")) : [];
  const results = files
    .sort()
    .reverse()
    .map((file) => ({ file, result: JSON.parse(readFileSync(join(folder, file), "utf8")) as Result }));
  // A newer result without a peer is skipped.
  const found = results.find(({ result }) => result.runs.some(isPeer)) ?? results[0];
  if (found === undefined) return `${folder} has no result of taking events yet: npm run bench -- ingest`;
  const { file, result } = found;
  const measured = new Set(result.runs.filter(isPeer).map(({ who }) => who));
  const missing = installed.filter(({ name }) => !measured.has(name));
  const load = [result.load_before, result.load].flatMap((one) => one?.toFixed(1) ?? []).join(" before, then ");
  return [
    `${join(folder, file)}: commit ${result.commit}, ${result.machine}, Node ${result.node}, load ${load}, ` +
      `runs of ${result.seconds} s`,
    "",
    tableOf(result.runs),
    "",
    ...(measured.size === 0 ? ["Nothing stands beside ours in any result: npm run bench -- ingest"] : []),
    ...(installed.length === 0 ? [`None of ${Object.keys(known).join(", ")} is installed here.`] : []),
    ...missing.map(
      ({ name, program, version }) =>
        `${name} is installed (${version}) and not in this result; with a configuration of its own it joins the ` +
        `next: npm run bench -- ingest --peer '${name}=${program} ...' (bench/README.md)`,
    ),
    "Figures of one run may be compared with each other, those of two machines may not.",
  ].join("\n");
};

export const run = async (): Promise<void> => {
  process.stdout.write(`${peersText(RESULTS, installedHere())}\n`);
};
