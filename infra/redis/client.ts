// Opens Redis with a client that does not take a loop that was blocked for a server that is silent.
import { type Command, Redis } from "ioredis";
import { timeLimit } from "../runtime/timing/time-limit.ts";

interface SentCommand {
  readonly isSettled: boolean;
  readonly reject: (error: Error) => void;
  _commandTimeoutTimer?: NodeJS.Timeout;
}
/** Commands of one pipeline have the same stream; others have none. */
interface QueuedCommand {
  readonly command: SentCommand;
  readonly stream?: unknown;
}
/** Commands that wait for a connection. */
interface OfflineQueue {
  readonly length: number;
  readonly peekAt: (index: number) => QueuedCommand | undefined;
  readonly removeOne: (index: number) => QueuedCommand | undefined;
}

class LimitedRedis extends Redis {
  override sendCommand(command: Command, stream?: any): unknown {
    const one = command as unknown as SentCommand;
    // The client sets no timer of its own then, and clears this one.
    one._commandTimeoutTimer ??= timeLimit(this.options.commandTimeout!, () => this.#giveUp(one, stream));
    return super.sendCommand(command, stream);
  }

  /**
   * What has not been sent, e.g. while the server loads its data, must not be sent later: its
   * caller has tried again since, or was followed by another owner. A pipeline leaves the queue
   * whole, because the client sends it when it has all of its commands. What was sent may still
   * take effect.
   */
  #giveUp(command: SentCommand, stream: unknown): void {
    if (command.isSettled) return;
    const late = (): Error => new Error("Command timed out");
    const { offlineQueue: queue } = this as unknown as { readonly offlineQueue: OfflineQueue };
    const isOfIt = (at: number): boolean => {
      const item = queue.peekAt(at);
      return item !== undefined && (item.command === command || (stream !== undefined && item.stream === stream));
    };
    let at = 0;
    while (at < queue.length && !isOfIt(at)) at++;
    while (isOfIt(at)) queue.removeOne(at)!.command.reject(late());
    command.reject(late());
  }
}

/** Connects when a command is first sent; `timeoutMs` bounds each of them. */
export const openRedis = (url: string, timeoutMs: number): Redis => {
  const redis = new LimitedRedis(url, { lazyConnect: true, maxRetriesPerRequest: 1, commandTimeout: timeoutMs });
  // A command on a broken connection fails and is tried again; without a listener the error would
  // also be printed.
  redis.on("error", () => undefined);
  return redis;
};
