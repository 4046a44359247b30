// A connection to Postgres that gives up a server that does not answer.
import pg from "pg";
import { timeLimit } from "../runtime/timing/time-limit.ts";

type Callback = (error: Error | null, result?: unknown) => void;
type Given = pg.QueryConfig & { readonly query_timeout?: number; readonly submit?: unknown };

/**
 * Makes a class of connections whose statements are given up after `ms`. The client's own
 * `query_timeout` takes a loop that was blocked for a server that is silent. A statement may have a
 * limit of its own by that name.
 */
export const limitedClient = (ms: number): typeof pg.Client =>
  class extends pg.Client {
    override query(...[given, values, callback]: any[]): any {
      if (typeof given?.submit === "function") return super.query(given, values, callback);
      if (typeof values === "function") return this.#limited(given, undefined, values);
      if (callback !== undefined) return this.#limited(given, values, callback);
      return new Promise((resolve, reject) => {
        this.#limited(given, values, (error, result) => (error ? reject(error) : resolve(result)));
      }).catch((error: Error) => {
        // The trace leads to the caller then, as the client does it.
        Error.captureStackTrace(error);
        throw error;
      });
    }

    #limited(given: string | Given, values: unknown[] | undefined, callback: Callback): void {
      const { query_timeout: own = ms, ...config } = typeof given === "string" ? { text: given } : given;
      const unsent = (this as unknown as { readonly _queryQueue: unknown[] })._queryQueue;
      let isOver = false;
      const timer = timeLimit(own, () => {
        if (isOver) return;
        isOver = true;
        // What was given up must not be sent later.
        const at = unsent.indexOf(query);
        if (at >= 0) unsent.splice(at, 1);
        callback(new Error("Query read timeout"));
      });
      super.query(config as any, values as unknown[], (error: Error | null, result: unknown) => {
        clearTimeout(timer);
        if (isOver) return;
        isOver = true;
        callback(error, result);
      });
      const query = unsent.at(-1);
    }
  };
