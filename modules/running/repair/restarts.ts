// Chooses what restarts a store: the configured command, else the stack that this process runs on.
import { execFile } from "node:child_process";
import type { Log } from "../../../infra/runtime/log.ts";
import type { ProbeName } from "./incident.ts";

/**
 * The names that supervisors use for the servers that may be restarted. Object storage and Postgres
 * are not among them (docs/design/contracts.md, "Probes").
 */
const services: Readonly<Partial<Record<ProbeName, "clickhouse" | "redis" | "kafka">>> = {
  analytics_store: "clickhouse",
  cache_store: "redis",
  event_log: "kafka",
};

/** Resolves when the restart was carried out, whether the store is healthy afterwards or not. */
export type Restart = () => Promise<void>;

// ClickHouse may load its parts for minutes; the next probe shows whether it is healthy.
const COMMAND_MS = 120_000;
const OUTPUT_LOGGED = 2_000;

export interface RestartSettings {
  /**
   * RESTART_COMMAND: words, with quotes around those that contain spaces; `{service}` stands for
   * clickhouse, redis or kafka. Runs without a shell.
   */
  readonly command?: string | undefined;
  /**
   * Restarts a service through the stack that this process runs on; undefined when the stack
   * cannot.
   */
  readonly stack?: ((service: string) => Restart | undefined) | undefined;
  readonly log: Pick<Log, "info" | "warn">;
}

/**
 * Called before each step, because a stack may come and go. Undefined: nothing can restart this
 * store, so its failure is only reported.
 */
export const restartOf = (name: ProbeName, { command, stack, log }: RestartSettings): Restart | undefined => {
  const service = services[name];
  if (service === undefined) return undefined;
  if (command !== undefined) return () => runCommand(wordsOf(command, service), service, log);
  return stack?.(service);
};

/**
 * Splits a command as a shell would, but runs none; quotes keep several words together. Throws on
 * an unclosed quote.
 */
export const wordsOf = (command: string, service: string): readonly string[] => {
  const words: string[] = [];
  const word = /\s*((?:[^\s"']|"[^"]*"|'[^']*')+)\s*/y;
  while (word.lastIndex < command.length) {
    const [, found] = word.exec(command) ?? [];
    if (found === undefined) throw new Error("RESTART_COMMAND: a quote is not closed");
    words.push(
      found.replace(/"([^"]*)"|'([^']*)'/g, (_, double, single) => double ?? single).replaceAll("{service}", service),
    );
  }
  return words;
};

const runCommand = ([file, ...args]: readonly string[], service: string, log: RestartSettings["log"]): Promise<void> =>
  new Promise((resolve, reject) => {
    execFile(
      file!,
      args,
      { timeout: COMMAND_MS, killSignal: "SIGKILL", windowsHide: true },
      (error, stdout, stderr) => {
        const output = `${stdout}${stderr}`.trim().slice(-OUTPUT_LOGGED);
        if (error === null) {
          log.info("restart.done", { service, output });
          return resolve();
        }
        log.warn("restart.failed", { service, output, error });
        reject(
          new Error(`the restart command ${error.killed ? `did not end within ${COMMAND_MS / 1_000} s` : "failed"}`),
        );
      },
    );
  });
