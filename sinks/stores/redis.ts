// How a sink's rows get into Redis: one pipeline of commands a write, in one round trip. Losing
// them costs hints, never money.
import type { ChainableCommander, Redis } from "ioredis";
import type { Table, Write } from "../../stream/flow.ts";

/** A table with the commands that write its rows under keys that begin with `prefix`. */
export interface RedisTable<Row> extends Table<Row> {
  readonly add: (commands: ChainableCommander, rows: readonly Row[], prefix: string) => void;
}

export const redisTable = <Row extends { readonly client_id: number }>(
  declared: { readonly name: string; readonly key: readonly (keyof Row & string)[] },
  add: RedisTable<Row>["add"],
): RedisTable<Row> => {
  const table: RedisTable<Row> = {
    ...declared,
    store: "redis",
    add,
    tenantOf: (row) => row.client_id,
    write: (rows, write) => write(table, rows),
  };
  return table;
};

export interface RedisStore {
  /**
   * Runs `work`; each of its writes is one round trip. Members are idempotent, so neither tenants
   * nor `token` are of use here.
   */
  readonly within: (
    batch: { readonly tenants: readonly number[]; readonly token: string },
    work: (write: Write) => Promise<void>,
  ) => Promise<void>;
}

const isRedisTable = (table: { readonly name: string }): table is RedisTable<unknown> => "add" in table;

/** `prefix` keeps environments apart that share a server. Throws the first command that failed. */
export const redisStore = (redis: Redis, prefix = "tributary"): RedisStore => ({
  within: (_, work) =>
    work(async (table, rows) => {
      if (!isRedisTable(table)) throw new Error(`the table ${table.name} has no commands for Redis`);
      const commands = redis.pipeline();
      table.add(commands, rows, prefix);
      for (const [error] of (await commands.exec()) ?? []) if (error !== null) throw error;
    }),
});
