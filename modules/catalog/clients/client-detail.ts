// Clients as their readers see them: with their newest event and the state of the month before.
import type { PoolClient } from "pg";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { formerMonthState } from "../../figures/reads/stamp.ts";
import { newestEvents } from "../../figures/rollups/rollup-reads.ts";
import { clientOf, type ShownRow } from "./client-reads.ts";

/** A screen waits no longer than this for the newest events. */
const NEWEST_MS = 1_000;
/**
 * A change has a time limit of half a second once its moment is set, so this query must be short.
 */
const NEWEST_OF_CHANGED_MS = 250;

/**
 * Adds the fields that are not in Postgres. `last_event_at` is null while ClickHouse does not
 * answer.
 */
export const withNewestEvents = async (
  clickhouse: Clickhouse,
  rows: readonly ShownRow[],
  mostMs = NEWEST_MS,
): Promise<readonly ShownRow[]> => {
  const month_state = formerMonthState(Date.now());
  const ids = rows.map(({ id }) => id as number);
  const newest = await newestEvents(clickhouse, ids, mostMs).catch(() => new Map<number, number>());
  return rows.map((row) => ({ ...row, last_event_at: newest.get(row.id) ?? null, month_state }));
};

/** A client that this transaction has changed. Throws RefusalError: missing. */
export const changedClient = async (
  tx: PoolClient,
  clickhouse: Clickhouse,
  clientId: number,
  fields: readonly string[],
): Promise<ShownRow> => {
  const { shown } = await clientOf(tx, clientId, [clientId], fields);
  return (await withNewestEvents(clickhouse, [shown], NEWEST_OF_CHANGED_MS))[0]!;
};
