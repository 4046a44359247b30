// Access to Postgres: the pool and its types, the `sql` tag, and a transaction that names its
// tenants.
import type { Socket } from "node:net";
import pg from "pg";
import { timeLimit } from "../runtime/timing/time-limit.ts";

/** A query with its values, in the form of pg. */
export interface Sql {
  readonly text: string;
  readonly values: unknown[];
}
const isSql = (value: unknown): value is Sql =>
  typeof value === "object" && value !== null && "text" in value && "values" in value && Array.isArray(value.values);

/**
 * A tagged template: each `${value}` becomes a parameter, and a `${sql`...`}` inside is inserted
 * with its own parameters.
 */
export const sql = (strings: TemplateStringsArray, ...parts: readonly unknown[]): Sql => {
  const values: unknown[] = [];
  let text = "";
  const append = (value: unknown): void => {
    if (!isSql(value)) {
      text += `$${values.push(value)}`;
      return;
    }
    const before = values.length;
    text += value.text.replace(/\$(\d+)/g, (_, n: string) => `$${before + Number(n)}`);
    values.push(...value.values);
  };
  for (const [n, string] of strings.entries()) {
    text += string;
    if (n < parts.length) append(parts[n]);
  }
  return { text, values };
};

/** A quoted name of a table or column for a query, so that no name can be read as SQL. */
export const named = (name: string): Sql => ({ text: `"${name.replaceAll('"', '""')}"`, values: [] });

type Parse = (text: string) => unknown;
const parserOf = (oid: number): Parse => pg.types.getTypeParser(oid as never, "text") as Parse;
const each =
  (parse: Parse): Parse =>
  (text) =>
    (parserOf(1009)(text) as readonly (string | null)[]).map((item) => (item === null ? null : parse(item)));
const unixMs: Parse = (text) => (parserOf(1184)(text) as Date).getTime();
const asText: Parse = (text) => text;

/**
 * int4 is a number (ids), int8 a bigint (money), numeric a text, timestamptz milliseconds in UTC,
 * and date its own text, because pg would make it midnight in the machine's zone. pg reads every
 * other type.
 */
const parsers = new Map<number, Parse>([
  [20, BigInt],
  [1016, each(BigInt)],
  [1082, asText],
  [1182, each(asText)],
  [1114, asText],
  [1184, unixMs],
  [1185, each(unixMs)],
]);

type Callback = (error: Error | null | undefined, result?: unknown) => void;
type Statement = pg.QueryConfig & { readonly query_timeout?: number };

/** The trace of an error leads to the caller, as the client does it. */
const tracedToCaller = (work: (answer: Callback) => void): Promise<unknown> =>
  new Promise((resolve, reject) => {
    work((error, result) => (error ? reject(error) : resolve(result)));
  }).catch((error: Error) => {
    Error.captureStackTrace(error);
    throw error;
  });

/**
 * Makes a class of connections that are given up when they are not made within `connectMs`, or a
 * statement is not answered within `ms`. The client's own limits take a loop that was blocked for a
 * server that is silent. A statement may have a limit of its own, `query_timeout`.
 */
const limitedClient = (connectMs: number, ms: number): typeof pg.Client =>
  class extends pg.Client {
    override connect(callback?: any): any {
      if (callback === undefined)
        return new Promise<void>((resolve, reject) => {
          this.connect((error: Error | null) => (error ? reject(error) : resolve()));
        });
      const { connection } = this as unknown as { readonly connection: { readonly stream: Socket } };
      let isOver = false;
      const timer = timeLimit(connectMs, () => {
        if (!isOver) connection.stream.destroy();
      });
      super.connect((...answer: any[]) => {
        isOver = true;
        clearTimeout(timer);
        callback(...answer);
      });
    }

    override query(...[given, values, callback]: any[]): any {
      if (typeof given?.submit === "function") return super.query(given, values, callback);
      if (typeof values === "function") return this.#limited(given, undefined, values);
      if (callback !== undefined) return this.#limited(given, values, callback);
      return tracedToCaller((answer) => this.#limited(given, values, answer));
    }

    #limited(given: string | Statement, values: unknown[] | undefined, callback: Callback): void {
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

/** A caller that waits for a connection. One that has timed out is passed over by the pool. */
interface Waiter {
  readonly callback: unknown;
  timedOut?: boolean;
}

/**
 * Makes a class of pools in which a caller waits for a connection at most `ms`, by turns of the
 * loop. The pool's own timer goes by the clock, and until the connection is made.
 */
const limitedPool = (ms: number): typeof pg.Pool =>
  class extends pg.Pool {
    override connect(callback?: any): any {
      if (callback === undefined) return tracedToCaller((answer) => this.connect(answer));
      let timer: NodeJS.Timeout | undefined;
      let isOver = false;
      const answer = (...given: any[]): void => {
        isOver = true;
        clearTimeout(timer);
        callback(...given);
      };
      super.connect(answer);
      const queue = (this as unknown as { readonly _pendingQueue: Waiter[] })._pendingQueue;
      const waiting = queue.at(-1);
      // Otherwise a connection is made for it, which has a limit of its own.
      if (waiting?.callback !== answer) return;
      timer = timeLimit(ms, () => {
        if (isOver) return;
        const at = queue.indexOf(waiting);
        if (at >= 0) queue.splice(at, 1);
        // If its connection is just being made, the next caller gets it.
        waiting.timedOut = true;
        callback(new Error("timeout exceeded when trying to connect"));
      }).unref();
    }
  };

/**
 * Opens at most `max` connections, when they are needed. TLS comes from the URL
 * (`?sslmode=verify-full`). A statement ends after 5 s on the server; one second later the client
 * gives up a server that does not answer at all, so that no caller waits longer than a consumer's
 * session allows.
 */
export const openPool = (
  url: string,
  options: {
    readonly name?: string;
    readonly max?: number;
    readonly timeoutMs?: number;
    readonly onError?: (error: Error) => void;
  } = {},
): pg.Pool => {
  const timeoutMs = options.timeoutMs ?? 5_000;
  const Pool = limitedPool(timeoutMs);
  const pool = new Pool({
    connectionString: url,
    max: options.max ?? 4,
    application_name: options.name ?? "tributary",
    connectionTimeoutMillis: 0,
    statement_timeout: timeoutMs,
    Client: limitedClient(timeoutMs, timeoutMs + 1_000),
    keepAlive: true,
    types: {
      getTypeParser: ((oid: number, format?: "text" | "binary") =>
        (format === "binary" ? undefined : parsers.get(oid)) ??
        pg.types.getTypeParser(oid as never, format as never)) as typeof pg.types.getTypeParser,
    },
  });
  // An idle connection that breaks has left the pool already, and the next query opens another;
  // without a listener it would end the process.
  pool.on("error", options.onError ?? (() => undefined));
  return pool;
};

/**
 * The statement that lets the transaction see the rows of these clients and of no other tenant.
 */
export const settingTenants = (clients: readonly number[]): string =>
  `select set_config('app.clients', '${clients.map(Number).join(",")}', true)`;

/**
 * Runs `work` in one transaction that sees the rows of `clients` and of no other tenant (null: of
 * none). `role` is taken on for the transaction, e.g. tributary_reference. Throws the error of
 * `work`, after the rollback; a connection whose state is unknown is closed.
 */
export const transaction = async <T>(
  pool: pg.Pool,
  clients: readonly number[] | null,
  work: (tx: pg.PoolClient) => Promise<T>,
  options: { readonly role?: string; readonly isReadOnly?: boolean } = {},
): Promise<T> => {
  const tx = await pool.connect();
  let broken: Error | undefined;
  // The pool listens on idle connections only.
  const onBreak = (error: Error): void => {
    broken ??= error;
  };
  tx.on("error", onBreak);
  try {
    // These statements go as one message with one answer, because every request begins here.
    const begin = options.isReadOnly ? "begin isolation level repeatable read read only" : "begin";
    const role = options.role === undefined ? "" : `; set local role ${named(options.role).text}`;
    await tx.query(begin + role + (clients === null ? "" : `; ${settingTenants(clients)}`));
    const result = await work(tx);
    await tx.query("commit");
    return result;
  } catch (error) {
    // After a statement that timed out, its answer is still to come. A rollback that is not
    // answered within 1 s shows that.
    if (broken === undefined)
      await tx.query({ text: "rollback", query_timeout: 1_000 } as pg.QueryConfig).catch(onBreak);
    // A session that the server ended gives the reason once; later errors only say that it is
    // closed.
    throw broken instanceof pg.DatabaseError ? broken : error;
  } finally {
    tx.off("error", onBreak);
    tx.release(broken);
  }
};
