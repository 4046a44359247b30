// The transactional outbox: a change writes rows for the log, and the relay sends them in order.

import type { Pool, PoolClient } from "pg";
import { hit } from "#failpoint";
import { edges } from "../../../edges.ts";
import { tryLockUntilCommit } from "../../../infra/postgres/advisory-lock.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { StoredEvent } from "../../../processors/admit/outbox/announcements.ts";
import type { DomainChanged, ReferenceChanged } from "../../../schemas/generated.ts";
import type { AnyFeed, AnyTopic, UnixMs } from "../../../stream/flow.ts";
import type { OutputMessage, Produce } from "../../../stream/messages.ts";
import { feedsOf } from "../../../stream/topology.ts";
import type { Wire } from "../../../stream/wire.ts";
import { messageOf } from "../feed.ts";

/** A row for the log. An announcement gets its id with the row; an event has its own. */
export type Announcement =
  | {
      readonly topic: "reference.changes";
      readonly client_id: null;
      readonly record: Omit<ReferenceChanged, "event_id">;
    }
  | { readonly topic: "domain.changes"; readonly client_id: number; readonly record: Omit<DomainChanged, "event_id"> }
  | { readonly topic: "events.raw"; readonly client_id: number; readonly record: StoredEvent };

/** The edges that the relay feeds, by the topic of a row. */
const feeds: ReadonlyMap<string, AnyFeed> = new Map(
  feedsOf(edges)
    .filter(({ on }) => on === "table outbox")
    .map((edge) => [edge.to.name, edge]),
);
/** The topics for which a wire must be open to relay the outbox. */
export const outboxTopics: readonly AnyTopic[] = [...feeds.values()].map(({ to }) => to);

/** Runs inside the transaction of the change, whose tenants include the clients concerned. */
export const announce = async (tx: PoolClient, announced: readonly Announcement[]): Promise<void> => {
  if (announced.length === 0) return;
  await tx.query(sql`
    insert into outbox (topic, client_id, record)
    select topic, client_id, record from jsonb_to_recordset(${JSON.stringify(announced)}::jsonb)
      as given (topic text, client_id int, record jsonb)`);
};

interface OutboxRow {
  readonly outbox_id: bigint;
  readonly event_id: string;
  readonly written_at: UnixMs;
  readonly topic: string;
  readonly record: object;
}

/** Rows of a later release wait, in their order, until a relay of that release runs. */
const messageOfRow = (wire: Wire, row: OutboxRow): OutputMessage => {
  const edge = feeds.get(row.topic);
  if (edge === undefined)
    throw new Error(`outbox row ${row.outbox_id}: no edge here writes ${row.topic}; update the keeper`);
  return messageOf(edge, wire, row);
};

/**
 * Every transaction below pg_snapshot_xmin has ended, so no row can appear any more before the
 * selected ones.
 */
const oldest = `
select outbox_id, event_id, written_at, topic, record from outbox
where sent_at is null and written_by < pg_snapshot_xmin(pg_current_snapshot())
order by outbox_id limit $1`;

/**
 * Sends at most `most` waiting rows, and marks them as sent once the log has them. Only one caller
 * runs at a time across all processes; others get "busy". After a crash in between, the rows are
 * sent again with the same ids. Returns the number sent. Throws the error of `produce`, after which
 * the rows keep waiting.
 */
export const relayOutbox = (pool: Pool, wire: Wire, produce: Produce, most = 500): Promise<number | "busy"> =>
  transaction(
    pool,
    null,
    async (tx) => {
      if (!(await tryLockUntilCommit(tx, "tributary.outbox"))) return "busy";
      const { rows } = await tx.query<OutboxRow>(oldest, [most]);
      if (rows.length === 0) return 0;
      await produce(rows.map((row) => messageOfRow(wire, row)));
      hit("outbox-produced");
      await tx.query(
        sql`update outbox set sent_at = clock_timestamp() where outbox_id = any (${rows.map((row) => row.outbox_id)})`,
      );
      return rows.length;
    },
    { role: "tributary_keeper" },
  );

export interface Backlog {
  readonly count: number;
  /** The age of the oldest row; 0 if none waits. */
  readonly seconds: number;
}

/** Counts the waiting rows, including those that an open transaction holds back, and their age. */
export const waitingOutbox = (pool: Pool): Promise<Backlog> =>
  transaction(
    pool,
    null,
    async (tx) => {
      const { rows } = await tx.query<Backlog>(sql`
        select count(*)::int as count, coalesce(extract(epoch from clock_timestamp() - min(written_at)), 0)::float8
          as seconds
        from outbox where sent_at is null`);
      return rows[0]!;
    },
    { role: "tributary_keeper", isReadOnly: true },
  );

/** Deletes rows that were sent more than a week ago, and returns their number. */
export const forgetSent = (pool: Pool): Promise<number> =>
  transaction(
    pool,
    null,
    async (tx) =>
      (await tx.query("delete from outbox where sent_at < clock_timestamp() - interval '7 days'")).rowCount ?? 0,
    { role: "tributary_keeper" },
  );
