// Opens Redis with a client that does not take a loop that was blocked for a server that is silent.
import { Command, Redis } from "ioredis";
import { timeLimit } from "../runtime/timing/time-limit.ts";

interface SentCommand {
  readonly isSettled: boolean;
  readonly reject: (error: Error) => void;
  _commandTimeoutTimer?: NodeJS.Timeout;
}

/** The client asks for this when `commandTimeout` is set, and clears the timer itself. */
const limitByTurns = (): void => {
  (Command.prototype as any).setTimeout = function (this: SentCommand, ms: number): void {
    this._commandTimeoutTimer ??= timeLimit(ms, () => {
      if (!this.isSettled) this.reject(new Error("Command timed out"));
    });
  };
};

/** Connects when a command is first sent; `timeoutMs` bounds each of them. */
export const openRedis = (url: string, timeoutMs: number): Redis => {
  limitByTurns();
  const redis = new Redis(url, { lazyConnect: true, maxRetriesPerRequest: 1, commandTimeout: timeoutMs });
  // A command on a broken connection fails and is tried again; without a listener the error would
  // also be printed.
  redis.on("error", () => undefined);
  return redis;
};
