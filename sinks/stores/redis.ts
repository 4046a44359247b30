// How a sink's rows get into Redis: one pipeline of commands a write, in one round trip. Losing
// them costs hints, never money.
import type { ChainableCommander, Redis } from "ioredis";
import { type HintRoom, isFull, roomWithoutBound } from "../../infra/redis/room.ts";
import type { Table, Write } from "../../stream/flow.ts";

/** A table with the commands that write its rows under keys that begin with `prefix`. */
export interface RedisTable<Row> extends Table<Row> {
  /** The state hash reads no Redis. */
  readonly unhashed: string;
  readonly add: (commands: ChainableCommander, rows: readonly Row[], prefix: string) => void;
}

export const redisTable = <Row extends { readonly client_id: number }>(
  declared: Pick<RedisTable<Row>, "name" | "key" | "unhashed" | "isBesideFigures">,
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

/**
 * `prefix` keeps environments apart that share a server. Where there is no room rows are left out
 * and counted: they are hints. Throws the first command that failed otherwise.
 */
export const redisStore = (redis: Redis, prefix = "tributary", room: HintRoom = roomWithoutBound): RedisStore => ({
  within: (_, work) =>
    work(async (table, rows) => {
      if (!isRedisTable(table)) throw new Error(`the table ${table.name} has no commands for Redis`);
      if (!room.has()) return room.shed("members", rows.length);
      const commands = redis.pipeline();
      table.add(commands, rows, prefix);
      const errors = ((await commands.exec()) ?? []).flatMap(([error]) => error ?? []);
      for (const error of errors) if (!isFull(error)) throw error;
      if (errors.length > 0) room.shed("members", errors.length);
    }),
});
