// Reads the saved rows around a change, in the role tributary_reference and under the lock of all
// changes.
import type pg from "pg";
import { named, type Sql, sql } from "../../../infra/postgres/sql.ts";
import { isId, type KnownRows, names, type RecordDraft } from "./draft.ts";
import { type EntityName, entities, type ReferenceChanges } from "./entities.ts";
import type { Columns } from "./problem.ts";

/** Gives every new record an id from its sequence. */
export const idsFor = async (
  tx: pg.PoolClient,
  changes: ReferenceChanges,
): Promise<(entity: EntityName, id: number) => number | undefined> => {
  const real = new Map<string, number>();
  for (const entity of names) {
    const negative = ownIds(changes, entity).filter((id) => id < 0);
    const fresh = await freshIds(tx, entity, negative.length);
    for (const [n, id] of negative.entries()) real.set(`${entity}:${id}`, fresh[n]!);
  }
  return (entity, id) => (id < 0 ? real.get(`${entity}:${id}`) : id);
};
const ownIds = (changes: ReferenceChanges, entity: EntityName): readonly number[] => [
  ...new Set(
    ((changes[entity] ?? []) as readonly Columns[])
      .map((entry) => entry?.[entities[entity].id])
      .filter((id) => isId(id)),
  ),
];
/** Takes ids from the sequence, so an id is never used twice, even if its change is refused. */
export const freshIds = async (tx: pg.PoolClient, entity: EntityName, count: number): Promise<readonly number[]> => {
  if (count === 0) return [];
  const sequence = `${entities[entity].id}s`;
  const { rows } = await tx.query<{ id: number }>(
    sql`select nextval(${sequence}::regclass)::int as id from generate_series(1, ${count})`,
  );
  return rows.map(({ id }) => id);
};

/** The newest row of each as JSON, in the form that an insert takes. */
const newestRows = async (tx: pg.PoolClient, entity: EntityName, which: Sql): Promise<ReadonlyMap<number, Columns>> => {
  const { table, id } = entities[entity];
  const { rows } = await tx.query<{ row: Columns }>(
    sql`select distinct on (${named(id)}) to_jsonb(t) as row from ${named(table)} t where ${which}
      order by ${named(id)}, version desc`,
  );
  return new Map(rows.map(({ row }) => [row[id], row]));
};
const byId = (tx: pg.PoolClient, entity: EntityName, ids: readonly number[]): Promise<ReadonlyMap<number, Columns>> =>
  ids.length === 0
    ? Promise.resolve(new Map())
    : newestRows(tx, entity, sql`${named(entities[entity].id)} = any (${ids}::int[])`);

/** The records that a change names. */
export const ownRows = async (tx: pg.PoolClient, changes: ReferenceChanges): Promise<KnownRows> => {
  const own: Record<string, ReadonlyMap<number, Columns>> = {};
  for (const entity of names)
    own[entity] = await byId(
      tx,
      entity,
      ownIds(changes, entity).filter((id) => id > 0),
    );
  const clientIds = [
    ...new Set([...ownIds(changes, "clients"), ...(changes.segments ?? []).map(({ client_id }) => client_id)]),
  ];
  own.clients = await byId(
    tx,
    "clients",
    clientIds.filter((id) => isId(id) && id > 0),
  );
  return { ...(own as Record<EntityName, ReadonlyMap<number, Columns>>), segments: new Map() };
};

/**
 * Adds the records that the drafts refer to, the segments of their clients, and all contracts of
 * partners that get one.
 */
export const rowsAround = async (
  tx: pg.PoolClient,
  drafted: readonly RecordDraft[],
  own: KnownRows,
): Promise<KnownRows> => {
  const named = (pick: (record: any, entity: EntityName) => readonly (number | undefined)[]): readonly number[] => [
    ...new Set(drafted.flatMap(({ record, entity }) => pick(record, entity)).filter((id): id is number => isId(id))),
  ];
  const campaigns = await byId(
    tx,
    "campaigns",
    named((record) => [record.campaign_id, record.then?.campaign_id]),
  );
  const partners = await byId(
    tx,
    "partners",
    named((record) => [
      record.partner_id,
      record.then?.partner_id,
      ...(record.patterns ?? []).map((pattern: any) => pattern.partner_id),
    ]),
  );
  const clients = await byId(
    tx,
    "clients",
    named((record) => [record.client_id, ...(record.client_ids ?? [])]),
  );
  const contractors = named((record, entity) => (entity === "contracts" ? [record.partner_id] : []));
  const contracts =
    contractors.length === 0
      ? new Map()
      : await newestRows(tx, "contracts", sql`partner_id = any (${contractors}::int[])`);
  const clientIds = [...new Set([...clients.keys(), ...own.clients.keys()])];
  const { rows } = await tx.query<{ row: Columns }>(sql`
    select distinct on (client_id, code) to_jsonb(t) as row from segments t where client_id = any (${clientIds}::int[])
    order by client_id, code, version desc`);
  return {
    clients: new Map([...clients, ...own.clients]),
    partners: new Map([...partners, ...own.partners]),
    campaigns: new Map([...campaigns, ...own.campaigns]),
    links: own.links,
    contracts: new Map([...contracts, ...own.contracts]),
    rules: own.rules,
    segments: new Map(rows.map(({ row }) => [`${row.client_id}:${row.code}`, row])),
  };
};
