// Saves a change of reference data, completely or not at all, so that it takes effect everywhere at
// one known time.

import type pg from "pg";
import { named, sql } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { announce } from "../../base/outbox/outbox.ts";
import { termColumns } from "../contracts/contract-terms.ts";
import { announcedBy } from "./announcements.ts";
import { outOfScope, problemsBetween, segmentsAfter } from "./checks.ts";
import { draftRecords, draftSegments, type KnownRows, type RecordDraft, type SegmentDraft } from "./draft.ts";
import { type EntityName, entities, type ReferenceChanges } from "./entities.ts";
import { takenNames } from "./names.ts";
import { type OpenChange, recordChange } from "./open-change.ts";
import { type Columns, type ReferenceProblem, ReferenceRefused } from "./problem.ts";
import { freshIds, idsFor, ownRows, rowsAround } from "./surrounding-rows.ts";

export interface SavedChange {
  readonly change_id: number;
  /** The receive time of events from which on the change applies, about two seconds ahead. */
  readonly recorded_at: UnixMs;
  /**
   * True if the commit took longer than the 1 s that readers allow, e.g. on a stalled disk. An
   * event received since `recorded_at` may then have been decided without the change. This is a
   * known gap that cannot be closed here, because a row gets its time before it is committed.
   */
  readonly isLate: boolean;
  /** The id that a new record got in place of its negative one. */
  readonly idOf: (entity: Exclude<EntityName, "contracts">, negative: number) => number;
  /** Ids of `contracts` in the given order; some may have existed under their key. */
  readonly contractIds: readonly number[];
}

/**
 * Validates and saves a change by `actor`. Throws ReferenceRefused with all problems, each with its
 * field and its fix. The saved rows take effect at `recorded_at` in every process.
 */
export const writeReference = async (pool: pg.Pool, actor: string, changes: ReferenceChanges): Promise<SavedChange> => {
  const { result, ...saved } = await recordChange(pool, actor, (tx, change) => insertChange(tx, changes, change));
  return { ...saved, ...result };
};

/** The parts of a saved change that are known before its stamp. */
export type WrittenIds = Pick<SavedChange, "change_id" | "idOf" | "contractIds">;

/**
 * Validates and inserts the rows of a begun change; `clients` are those that the caller may change
 * (undefined: all). Afterwards the transaction sees only the clients of the change. Throws
 * ReferenceRefused with all problems.
 */
export const insertChange = async (
  tx: pg.PoolClient,
  changes: ReferenceChanges,
  { change_id, now }: OpenChange,
  clients?: ReadonlySet<number>,
): Promise<Pick<SavedChange, "idOf" | "contractIds">> => {
  await tx.query("set local role tributary_reference");
  const ids = await idsFor(tx, changes);
  const own = await ownRows(tx, changes);
  const keyed = (changes.contracts ?? []).filter(({ contract_id }) => contract_id === undefined);
  const fresh = [...(await freshIds(tx, "contracts", keyed.length))];
  const { drafted: all, problems } = draftRecords(changes, own, { real: ids, fresh: () => fresh.shift()! }, now);
  const around = await rowsAround(tx, all, own);
  const byKey = new Map([...around.contracts.values()].map((row) => [contractKey(row), row]));
  const drafted = all.map((draft) => (draft.entity === "contracts" ? atItsKey(draft, byKey) : draft));
  const { drafted: segments, problems: segmentProblems } = draftSegments(changes, drafted, around, ids, now);
  const inDraft = new Map(drafted.map((draft) => [`${draft.entity}:${draft.id}`, draft]));
  const newest = (entity: EntityName, id: number): Columns | undefined =>
    inDraft.get(`${entity}:${id}`)?.record ?? around[entity].get(id);
  const codes = new Map<number, readonly string[]>();
  const segmentsOf = (clientId: number): readonly string[] => {
    const known = codes.get(clientId) ?? segmentsAfter(clientId, around.segments.values(), segments);
    codes.set(clientId, known);
    return known;
  };
  const wrong = [
    ...problems,
    ...segmentProblems,
    ...(problems.length > 0 ? [] : [...givenTwice(drafted), ...problemsBetween(drafted, newest, segmentsOf)]),
    ...(await takenNames(tx, drafted)),
    ...(clients === undefined ? [] : outOfScope(drafted, segments, around, clients)),
  ];
  if (wrong.length > 0) throw new ReferenceRefused(wrong);
  await tx.query("set local role none");
  await insertAll(tx, change_id, drafted, segments, around, segmentsOf, now);
  return {
    idOf: (entity, negative) => ids(entity, negative) ?? negative,
    contractIds: drafted.flatMap(({ entity, id }) => (entity === "contracts" ? id : [])),
  };
};

const contractKey = ({ partner_id, client_id, segment, event_type, effective_from }: Columns): string =>
  JSON.stringify([partner_id, client_id, segment, event_type, effective_from]);

/** Two entries with one key are the same contract. */
const givenTwice = (drafted: readonly RecordDraft[]): readonly ReferenceProblem[] => {
  const seen = new Set<string>();
  const again: RecordDraft[] = [];
  for (const draft of drafted.filter(({ entity }) => entity === "contracts")) {
    const key = contractKey(draft.record);
    if (seen.has(key)) again.push(draft);
    seen.add(key);
  }
  return again.map(({ id, version, field }) => ({
    code: "invalid",
    field,
    message: `${version > 1 ? `contract ${id}` : "this contract"} is given twice: give it once`,
  }));
};

/** A contract is identified by its key; saving the key again makes its next version. */
const atItsKey = (draft: RecordDraft, contracts: ReadonlyMap<string, Columns>): RecordDraft => {
  if (draft.version > 1) return draft;
  const found = contracts.get(contractKey(draft.record));
  if (found === undefined) return draft;
  const per = draft.record.per ?? found.per;
  return { ...draft, id: found.contract_id, version: found.version + 1, record: { ...draft.record, per } };
};

const insertAll = async (
  tx: pg.PoolClient,
  changeId: number,
  drafted: readonly RecordDraft[],
  segments: readonly SegmentDraft[],
  around: KnownRows,
  segmentsOf: (clientId: number) => readonly string[],
  now: string,
): Promise<void> => {
  const rows = new Map<string, Columns[]>();
  const add = (table: string, row: Columns): void => {
    const before = rows.get(table);
    if (before === undefined) rows.set(table, [row]);
    else before.push(row);
  };
  for (const { entity, id, version, valid_from, record } of drafted) {
    const { table, id: idField, toColumns } = entities[entity];
    add(table, {
      ...toColumns(record),
      [idField]: id,
      version,
      valid_from,
      ...derived(entity, id, record, drafted, around, segmentsOf),
    });
  }
  // A client's row holds its active segments, so a change of segments also adds a row of the
  // client.
  const isDrafted = new Set(drafted.flatMap(({ entity, id }) => (entity === "clients" ? id : [])));
  for (const clientId of new Set(segments.map(({ client_id }) => client_id))) {
    const row = around.clients.get(clientId);
    if (!isDrafted.has(clientId) && row !== undefined)
      add("clients", { ...row, version: row.version + 1, valid_from: now, segments: segmentsOf(clientId) });
  }
  for (const { client_id, version, valid_from, record } of segments)
    add("segments", { ...record, client_id, version, valid_from });

  const tenants = [...rows.values()]
    .flat()
    .flatMap((row) => [...(row.client_id === undefined ? [] : [row.client_id]), ...(row.known_to ?? [])]);
  await tx.query(sql`select set_config('app.clients', ${[...new Set(tenants)].join(",")}, true)`);
  for (const [table, all] of rows) {
    const json = JSON.stringify(all.map((row) => ({ ...row, change_id: changeId })));
    await tx.query(
      sql`insert into ${named(table)} select * from jsonb_populate_recordset(null::${named(table)}, ${json}::jsonb)`,
    );
  }
  await announce(tx, announcedBy(changeId, rows));
};

/** Columns that follow from other rows. */
const derived = (
  entity: EntityName,
  id: number,
  record: any,
  drafted: readonly RecordDraft[],
  around: KnownRows,
  segmentsOf: (clientId: number) => readonly string[],
): Columns => {
  if (entity === "clients") return { segments: segmentsOf(id) };
  if (entity === "partners")
    return { known_to: [...new Set([...record.client_ids, ...(around.partners.get(id)?.known_to ?? [])])] };
  if (entity === "contracts") {
    const client = drafted.find((draft) => draft.entity === "clients" && draft.id === record.client_id)?.record;
    return termColumns(record, (client ?? around.clients.get(record.client_id)).currency);
  }
  if (entity !== "links") return {};
  const campaign = drafted.find((draft) => draft.entity === "campaigns" && draft.id === record.campaign_id)?.record;
  return { client_id: (campaign ?? around.campaigns.get(record.campaign_id)).client_id };
};
