// A pool of the application whose sessions the database ends before one statement after the other:
// shows what a transaction leaves behind if its process dies in it.
import type pg from "pg";
import { expect } from "vitest";
import type { FreshDatabase } from "./fresh-database.ts";

export interface MortalPool {
  readonly pool: pg.Pool;
  /**
   * Runs `work` again and again. The session is ended before its first statement, then before its
   * second, and so on, until `work` succeeds and returns true. Until then the result of `written`
   * must not change. Returns the statements before which the session was ended.
   */
  readonly killedBefore: (work: () => Promise<boolean>, written: () => Promise<unknown>) => Promise<readonly string[]>;
}

export const mortalPool = (database: FreshDatabase, max: number): MortalPool => {
  /** The number of the statement before which the server ends the session; 0 for none. */
  let fatal = 0;
  let statements: string[] = [];
  let killed = 0;
  const connect = async (target: pg.Pool): Promise<pg.PoolClient> => {
    const client = await target.connect();
    statements = [];
    const query = client.query.bind(client) as (...given: unknown[]) => Promise<unknown>;
    const own = async (...given: unknown[]) => {
      const [statement] = given as [string | { text: string }];
      statements.push(typeof statement === "string" ? statement : statement.text);
      if (statements.length === fatal) {
        const { processID } = client as unknown as { processID: number };
        const { rows } = await database.adminPool.query("select pg_terminate_backend($1, 5000) as ended", [processID]);
        if (rows[0].ended) killed += 1;
      }
      return query(...given);
    };
    // Released clients get their own methods back.
    const release = client.release.bind(client);
    client.query = own as never;
    client.release = (error) => {
      delete (client as Partial<pg.PoolClient>).query;
      client.release = release;
      release(error);
    };
    return client;
  };
  const pool = new Proxy(database.pool({ max }), {
    get: (target, name) => (name === "connect" ? () => connect(target) : Reflect.get(target, name, target)),
  });
  return {
    pool,
    killedBefore: async (work, written) => {
      const before = await written();
      const lost: string[] = [];
      for (fatal = 1; ; fatal += 1) {
        const at = killed;
        if (await work()) break;
        // Several times if a change of reference data took too long and was retried.
        expect(killed - at, `before statement ${fatal}`).toBeGreaterThan(0);
        expect(await written(), `before statement ${fatal}: ${statements.at(fatal - 1)}`).toEqual(before);
        lost.push(statements[fatal - 1] ?? "");
      }
      fatal = 0;
      return lost;
    },
  };
};
