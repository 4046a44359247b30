// Says that a worker stops at a message, and calls an operator when it keeps stopping there
// (docs/design/laws.md L5).
import type { Position } from "./flow.ts";
import { ProcessorThrew } from "./fold.ts";
import type { LogPorts } from "./messages.ts";

/** One stop may be a bad machine and two a bad start. */
const STOPS_TO_ALERT = 3;

/**
 * To be called before the error is thrown on. Never throws: stops that cannot be counted are told
 * as if they were too many.
 */
export const reportStop = async (
  ports: Pick<LogPorts, "stops" | "log">,
  reader: string,
  at: Position,
  error: unknown,
): Promise<void> => {
  const stops = await ports.stops(reader, at).catch(() => STOPS_TO_ALERT);
  const fields = { stage: error instanceof ProcessorThrew ? error.stage : reader, ...at, stops, error };
  if (stops >= STOPS_TO_ALERT) ports.log.error("stage.stuck", { ...fields, alert: true });
  else ports.log.warn("stage.stopped", fields);
};
