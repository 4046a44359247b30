// Writes the rows of sinks to Redis: one pipeline of commands for each write, in one round trip.
// Losing the rows costs hints, never money.
import type { ChainableCommander, Redis } from "ioredis";
import { type HintRoom, isFull, roomWithoutBound } from "../../infra/redis/room.ts";
import type { Table, Write } from "../../stream/flow.ts";

/** A table with the commands that write its rows under keys with a given prefix. */
export interface RedisTable<Row> extends Table<Row> {
  /** The state hash does not cover Redis. */
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
   * Runs `work`. Each of its writes is one round trip. Members are idempotent, so neither tenants
   * nor `token` are needed.
   */
  readonly within: (
    batch: { readonly tenants: readonly number[]; readonly token: string },
    work: (write: Write) => Promise<void>,
  ) => Promise<void>;
}

const isRedisTable = (table: { readonly name: string }): table is RedisTable<unknown> => "add" in table;

/**
 * `prefix` separates environments that share a server. If there is no room, rows are dropped and
 * counted, because they are only hints. Any other failure of a command is thrown.
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
