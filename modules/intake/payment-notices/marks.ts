// Remembers which notices were received already, so that a repeated one is answered as such. A mark
// only chooses the response: an event's id prevents it from counting twice.
import { createHash } from "node:crypto";
import type { Pool, PoolClient } from "pg";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { Log } from "../../../infra/runtime/log.ts";
import { gather } from "../../../infra/runtime/timing/gather.ts";

/** One notice: `key` is the sender's own id for it, of any length. */
interface Notice {
  readonly clientId: number;
  /** The `source` of its event, e.g. postback:stripe. */
  readonly source: string;
  readonly key: string;
}

export interface Marks {
  /** Resolves with true when it was marked before; false while Postgres is unreachable. */
  readonly isMarked: (notice: Notice) => Promise<boolean>;
  /**
   * Call it once the event is stored. Resolves with "new" for one caller and "repeated" for every
   * other; with "new" while Postgres is unreachable.
   */
  readonly mark: (notice: Notice) => Promise<"new" | "repeated">;
}

const AT_ONCE = 500;
/** Longer than any sender retries; ids of events never expire. */
const KEPT_DAYS = 32;
const role = "tributary_edge";

interface Row {
  readonly client_id: number;
  readonly source: string;
  /** Hex. */
  readonly key: string;
}
const rowOf = ({ clientId, source, key }: Notice): Row => ({
  client_id: clientId,
  source,
  key: createHash("sha256").update(key).digest("hex"),
});
const nameOf = ({ client_id, source, key }: Row): string => `${client_id} ${source} ${key}`;
const clientsOf = (rows: readonly Row[]): readonly number[] => [...new Set(rows.map(({ client_id }) => client_id))];
const recordsOf = (rows: readonly Row[]) =>
  sql`jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as given (client_id int, source text, key text)`;

export const openMarks = (pool: Pool, log: Pick<Log, "warn">): Marks => {
  const look = gather<Row, boolean>((rows) => lookedUp(pool, rows), AT_ONCE);
  const write = gather<Row, "new" | "repeated">((rows) => written(pool, rows), AT_ONCE);
  const otherwise =
    <T>(answer: T) =>
    (error: unknown): T => {
      log.warn("postbacks.not_marked", { error });
      return answer;
    };
  return {
    isMarked: (notice) => look(rowOf(notice)).catch(otherwise(false)),
    mark: (notice) => write(rowOf(notice)).catch(otherwise("new" as const)),
  };
};

const lookedUp = (pool: Pool, rows: readonly Row[]): Promise<readonly boolean[]> =>
  transaction(
    pool,
    clientsOf(rows),
    async (tx) => {
      // One index look-up each: a join may read all marks of the client.
      const { rows: found } = await tx.query<Row>(sql`
        select given.* from ${recordsOf(rows)}, lateral (
          select from postback_marks m where m.client_id = given.client_id and m.source = given.source
            and m.key = decode(given.key, 'hex') limit 1) as marked`);
      const known = new Set(found.map(nameOf));
      return rows.map((row) => known.has(nameOf(row)));
    },
    { role, isReadOnly: true },
  );

/** Inserts in a fixed order, so that two transactions never deadlock. */
const written = (pool: Pool, rows: readonly Row[]): Promise<readonly ("new" | "repeated")[]> =>
  transaction(
    pool,
    clientsOf(rows),
    async (tx) => {
      const unique = [...new Map(rows.map((row) => [nameOf(row), row])).values()];
      const made = await insert(tx, unique);
      return rows.map((row) => (made.delete(nameOf(row)) ? "new" : "repeated"));
    },
    { role },
  );

const insert = async (tx: PoolClient, rows: readonly Row[]): Promise<Set<string>> => {
  const { rows: made } = await tx.query<Row>(sql`
    insert into postback_marks (client_id, source, key)
    select client_id, source, decode(key, 'hex') from ${recordsOf(rows)} order by 1, 2, 3
    on conflict do nothing returning client_id, source, encode(key, 'hex') as key`);
  return new Set(made.map(nameOf));
};

/** Deletes expired marks and returns how many. */
export const forgetMarks = (pool: Pool): Promise<number> =>
  transaction(
    pool,
    null,
    async (tx) =>
      (
        await tx.query(
          sql`delete from postback_marks where marked_at < clock_timestamp() - make_interval(days => ${KEPT_DAYS})`,
        )
      ).rowCount ?? 0,
    { role: "tributary_keeper" },
  );
