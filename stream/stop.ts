// Logs that a worker stops at a message, and alerts an operator if it stops there repeatedly
// (docs/design/laws.md L5).
import type { Position } from "./flow.ts";
import { ProcessorThrew } from "./fold.ts";
import type { LogPorts } from "./ports.ts";

/** One stop may be a bad machine, and two a bad start. */
const STOPS_TO_ALERT = 3;

export interface Stop {
  readonly reader: string;
  readonly at: Position;
  readonly error: unknown;
  readonly stops: number;
  /** The worker has stopped here too often: an operator must look. */
  readonly isStuck: boolean;
}

/** Counts a stop. Never throws: if the count fails, the stop is treated as one too many. */
export const countStop = async (
  { stops: count }: Pick<LogPorts, "stops">,
  reader: string,
  at: Position,
  error: unknown,
): Promise<Stop> => {
  const stops = await count(reader, at).catch(() => STOPS_TO_ALERT);
  return { reader, at, error, stops, isStuck: stops >= STOPS_TO_ALERT };
};

export const logStop = (log: LogPorts["log"], { reader, at, error, stops, isStuck }: Stop): void => {
  const fields = { stage: error instanceof ProcessorThrew ? error.stage : reader, ...at, stops, error };
  if (isStuck) log.error("stage.stuck", { ...fields, alert: true });
  else log.warn("stage.stopped", fields);
};

/** Logs the stop. Call it before rethrowing the error. Never throws. */
export const reportStop = async (
  ports: Pick<LogPorts, "stops" | "log">,
  reader: string,
  at: Position,
  error: unknown,
): Promise<void> => logStop(ports.log, await countStop(ports, reader, at, error));
