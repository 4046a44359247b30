// sinks/postgres/reference-writer.ts - saves a change of reference data, all or nothing, so that it takes effect everywhere at one known moment.
import pg from "pg";
import type { UnixMs } from "../../stream/flow.ts";
import { problemsBetween, segmentsAfter } from "./reference-checks.ts";
import { type Drafted, type DraftedSegment, draftRecords, draftSegments, type KnownRows, names } from "./reference-draft.ts";
import { takenNames } from "./reference-names.ts";
import { type Columns, type EntityName, entities, type ReferenceChanges, ReferenceRefused } from "./reference-records.ts";
import { named, type Sql, sql, transaction } from "./sql.ts";

export interface SavedChange {
  readonly change_id: number;
  /** From then on (receive time of an event) the change is what is known. About two seconds ahead. */
  readonly recorded_at: UnixMs;
  /** The id that a new thing got for its negative one. */
  readonly idOf: (entity: EntityName, negative: number) => number;
  /** Ids of `contracts`, in the order given. */
  readonly contractIds: readonly number[];
}

/**
 * How long a change may hold the lock that orders all of them, and so how old its stamp can be when it is committed. Readers count on 1 s
 * (reference.ts); the commit itself has what is left. Postgres ends the session of a transaction that takes longer.
 */
const limitMs = 500;
/** How far ahead a change takes effect: the 1 s that a commit may take, and the 1 s by which a reader's picture may be old. */
const leadMs = 2_000;

/**
 * Runs `work` as one change: others wait, and its last statement writes when it takes effect. `work` adds rows with `change_id`. Throws when it is
 * not done after 500 ms; then nothing is saved and the same change can be tried again.
 */
export const recordChange = async <T>(
  pool: pg.Pool,
  actor: string,
  work: (tx: pg.PoolClient, change: { readonly change_id: number; readonly now: string }) => Promise<T>,
): Promise<{ readonly change_id: number; readonly recorded_at: UnixMs; readonly result: T }> => {
  try {
    return await transaction(pool, null, async (tx) => {
      await tx.query("select pg_advisory_xact_lock(hashtext('tributary.reference'))");
      // Only now: waiting for others is not slowness.
      await tx.query(`set local transaction_timeout = '${limitMs}ms'`);
      const { rows: begun } = await tx.query<{ change_id: number; now: string }>(
        "select nextval('reference_change_ids')::int as change_id, to_jsonb(clock_timestamp()) #>> '{}' as now",
      );
      const change = begun[0]!;
      const result = await work(tx, change);
      // The last statement. Two changes never share a moment, and a clock that was set back does not put a change before its predecessor.
      const { rows: stamped } = await tx.query<{ recorded_at: UnixMs }>(sql`
        insert into reference_changes (change_id, recorded_at, actor)
        select ${change.change_id}, greatest(
          date_trunc('milliseconds', clock_timestamp()) + ${leadMs} * interval '1 millisecond',
          (select max(recorded_at) + interval '1 millisecond' from reference_changes)), ${actor}
        returning recorded_at`);
      return { change_id: change.change_id, recorded_at: stamped[0]!.recorded_at, result };
    });
  } catch (error) {
    // 25P04: transaction_timeout. The session was ended, so what arrives may also be the broken connection.
    if (error instanceof pg.DatabaseError && error.code === "25P04")
      throw new Error(`the change took longer than ${limitMs} ms and was not saved: try again, or split it`, { cause: error });
    throw error;
  }
};

/**
 * Validates and saves a change by `actor` (who or what asked for it). Throws ReferenceRefused with everything that is wrong, each with its field and
 * its cure. What it saves takes effect at `recorded_at`, in every process at once.
 */
export const writeReference = async (pool: pg.Pool, actor: string, changes: ReferenceChanges): Promise<SavedChange> => {
  const { result, ...saved } = await recordChange(pool, actor, (tx, change) => write(tx, changes, change));
  return { ...saved, ...result };
};

const write = async (
  tx: pg.PoolClient,
  changes: ReferenceChanges,
  { change_id, now }: { readonly change_id: number; readonly now: string },
): Promise<Pick<SavedChange, "idOf" | "contractIds">> => {
  await tx.query("set local role tributary_reference");
  const ids = await idsFor(tx, changes);
  const own = await ownRows(tx, changes);
  const keyed = (changes.contracts ?? []).filter(({ contract_id }) => contract_id === undefined);
  const fresh = [...(await freshIds(tx, "contracts", keyed.length))];
  const { drafted: all, problems } = draftRecords(changes, own, { real: ids, fresh: () => fresh.shift()! }, now);
  const around = await rowsAround(tx, all, own);
  const drafted = all.map((draft) => (draft.entity === "contracts" ? atItsKey(draft, around.contracts) : draft));
  const { segments, problems: segmentProblems } = draftSegments(changes, drafted, around, ids, now);
  const inDraft = new Map(drafted.map((draft) => [`${draft.entity}:${draft.id}`, draft]));
  const newest = (entity: EntityName, id: number): Columns | undefined => inDraft.get(`${entity}:${id}`)?.record ?? around[entity].get(id);
  const segmentsOf = (clientId: number): readonly string[] => segmentsAfter(clientId, around.segments.values(), segments);
  const contractsOf = (partnerId: number, clientId: number): readonly Columns[] =>
    [
      ...[...around.contracts].filter(([id]) => !inDraft.has(`contracts:${id}`)).map(([, row]) => row),
      ...drafted.flatMap(({ entity, id, record }) => (entity === "contracts" ? { ...record, contract_id: id } : [])),
    ].filter((row) => row.partner_id === partnerId && row.client_id === clientId);
  const wrong = [
    ...problems,
    ...segmentProblems,
    ...(problems.length > 0 ? [] : problemsBetween(drafted, newest, segmentsOf, contractsOf)),
    ...(await takenNames(tx, drafted)),
  ];
  if (wrong.length > 0) throw new ReferenceRefused(wrong);
  await tx.query("set local role none");
  await insertAll(tx, change_id, drafted, segments, around, segmentsOf, now);
  return {
    idOf: (entity, negative) => ids(entity, negative) ?? negative,
    contractIds: drafted.flatMap(({ entity, id }) => (entity === "contracts" ? id : [])),
  };
};

/** Every new thing gets its id from its sequence. */
const idsFor = async (tx: pg.PoolClient, changes: ReferenceChanges): Promise<(entity: EntityName, id: number) => number | undefined> => {
  const real = new Map<string, number>();
  for (const entity of names) {
    const negative = ownIds(changes, entity).filter((id) => id < 0);
    const fresh = await freshIds(tx, entity, negative.length);
    for (const [n, id] of negative.entries()) real.set(`${entity}:${id}`, fresh[n]!);
  }
  return (entity, id) => (id < 0 ? real.get(`${entity}:${id}`) : id);
};
const ownIds = (changes: ReferenceChanges, entity: EntityName): readonly number[] => [
  ...new Set(((changes[entity] ?? []) as readonly Columns[]).map((entry) => entry[entities[entity].id]).filter((id) => isInt4(id))),
];
const isInt4 = (id: unknown): boolean => Number.isInteger(id) && Math.abs(id as number) < 2 ** 31;
const freshIds = async (tx: pg.PoolClient, entity: EntityName, count: number): Promise<readonly number[]> => {
  if (count === 0) return [];
  const sequence = `${entities[entity].id}s`;
  const { rows } = await tx.query<{ id: number }>(sql`select nextval(${sequence}::regclass)::int as id from generate_series(1, ${count})`);
  return rows.map(({ id }) => id);
};

/** The newest row of each, as JSON: what an insert takes back. */
const newestRows = async (tx: pg.PoolClient, entity: EntityName, which: Sql): Promise<ReadonlyMap<number, Columns>> => {
  const { table, id } = entities[entity];
  const { rows } = await tx.query<{ row: Columns }>(
    sql`select distinct on (${named(id)}) to_jsonb(t) as row from ${named(table)} t where ${which} order by ${named(id)}, version desc`,
  );
  return new Map(rows.map(({ row }) => [row[id], row]));
};
const byId = (tx: pg.PoolClient, entity: EntityName, ids: readonly number[]): Promise<ReadonlyMap<number, Columns>> =>
  ids.length === 0 ? Promise.resolve(new Map()) : newestRows(tx, entity, sql`${named(entities[entity].id)} = any (${ids}::int[])`);

const ownRows = async (tx: pg.PoolClient, changes: ReferenceChanges): Promise<KnownRows> => {
  const own: Record<string, ReadonlyMap<number, Columns>> = {};
  for (const entity of names)
    own[entity] = await byId(
      tx,
      entity,
      ownIds(changes, entity).filter((id) => id > 0),
    );
  const clientIds = [...new Set([...ownIds(changes, "clients"), ...(changes.segments ?? []).map(({ client_id }) => client_id)])];
  own.clients = await byId(
    tx,
    "clients",
    clientIds.filter((id) => isInt4(id) && id > 0),
  );
  return { ...(own as Record<EntityName, ReadonlyMap<number, Columns>>), segments: new Map() };
};

/** Adds what the drafted records refer to, the segments of their clients, and all contracts of the partners that get one. */
const rowsAround = async (tx: pg.PoolClient, drafted: readonly Drafted[], own: KnownRows): Promise<KnownRows> => {
  const named = (pick: (record: any, entity: EntityName) => readonly (number | undefined)[]): readonly number[] => [
    ...new Set(drafted.flatMap(({ record, entity }) => pick(record, entity)).filter((id): id is number => isInt4(id))),
  ];
  const campaigns = await byId(
    tx,
    "campaigns",
    named((record) => [record.campaign_id, record.then?.campaign_id]),
  );
  const partners = await byId(
    tx,
    "partners",
    named((record) => [record.partner_id, record.then?.partner_id, ...(record.patterns ?? []).map((pattern: any) => pattern.partner_id)]),
  );
  const clients = await byId(
    tx,
    "clients",
    named((record) => [record.client_id, ...(record.client_ids ?? [])]),
  );
  const contractors = named((record, entity) => (entity === "contracts" ? [record.partner_id] : []));
  const contracts = contractors.length === 0 ? new Map() : await newestRows(tx, "contracts", sql`partner_id = any (${contractors}::int[])`);
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

/** A contract is known by what it is for and since when: saving that again is its next version. */
const atItsKey = (draft: Drafted, contracts: ReadonlyMap<number, Columns>): Drafted => {
  if (draft.version > 1) return draft;
  const key = (row: Columns): string => JSON.stringify([row.partner_id, row.client_id, row.segment, row.event_type, row.effective_from]);
  const found = [...contracts.values()].find((row) => key(row) === key(draft.record));
  return found === undefined ? draft : { ...draft, id: found.contract_id, version: found.version + 1 };
};

const insertAll = async (
  tx: pg.PoolClient,
  changeId: number,
  drafted: readonly Drafted[],
  segments: readonly DraftedSegment[],
  around: KnownRows,
  segmentsOf: (clientId: number) => readonly string[],
  now: string,
): Promise<void> => {
  const rows = new Map<string, Columns[]>();
  const add = (table: string, row: Columns): void => void rows.set(table, [...(rows.get(table) ?? []), row]);
  for (const { entity, id, version, valid_from, record } of drafted) {
    const { table, id: idField, toColumns } = entities[entity];
    add(table, { ...toColumns(record), [idField]: id, version, valid_from, ...derived(entity, id, record, drafted, around, segmentsOf) });
  }
  // A client's row carries its active segments, so a change of these is also a new row of the client.
  const isDrafted = new Set(drafted.flatMap(({ entity, id }) => (entity === "clients" ? id : [])));
  for (const clientId of new Set(segments.map(({ client_id }) => client_id))) {
    const row = around.clients.get(clientId);
    if (!isDrafted.has(clientId) && row !== undefined)
      add("clients", { ...row, version: row.version + 1, valid_from: now, segments: segmentsOf(clientId) });
  }
  for (const { client_id, version, valid_from, record } of segments) add("segments", { ...record, client_id, version, valid_from });

  const tenants = [...rows.values()]
    .flat()
    .flatMap((row) => [...(row.client_id === undefined ? [] : [row.client_id]), ...(row.known_to ?? [])]);
  await tx.query(sql`select set_config('app.clients', ${[...new Set(tenants)].join(",")}, true)`);
  for (const [table, all] of rows) {
    const json = JSON.stringify(all.map((row) => ({ ...row, change_id: changeId })));
    await tx.query(sql`insert into ${named(table)} select * from jsonb_populate_recordset(null::${named(table)}, ${json}::jsonb)`);
  }
};

/** Columns that no one gives: they follow from other rows. */
const derived = (
  entity: EntityName,
  id: number,
  record: any,
  drafted: readonly Drafted[],
  around: KnownRows,
  segmentsOf: (clientId: number) => readonly string[],
): Columns => {
  if (entity === "clients") return { segments: segmentsOf(id) };
  if (entity === "partners") return { known_to: [...new Set([...record.client_ids, ...(around.partners.get(id)?.known_to ?? [])])] };
  if (entity !== "links") return {};
  const campaign = drafted.find((draft) => draft.entity === "campaigns" && draft.id === record.campaign_id)?.record;
  return { client_id: (campaign ?? around.campaigns.get(record.campaign_id)).client_id };
};
