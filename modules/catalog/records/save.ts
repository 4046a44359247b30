// Saves records that an operator gives: by the writer, the contracts and the refusals of the
// platform API, with an audit row each; or shows what saving would change.
import type { Pool, PoolClient } from "pg";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { type Act, writeAudit } from "../../base/audit/audit.ts";
import { merged } from "../reference/draft.ts";
import { type Columns, type ReferenceChanges, type ReferenceProblem, ReferenceRefused } from "../reference/records.ts";
import { lockReference, tookTooLong, type Written, writeReferenceWithin } from "../reference/writer.ts";
import { idFieldOf, type Kind, type KnownRecord, newestRecords } from "./kinds.ts";
import { refusalsOf } from "./refusals.ts";

/** Each takes a few milliseconds, and a change of reference data has 500. */
const MOST_AT_ONCE = 100;

export interface Saved {
  readonly key: string;
  readonly isNew: boolean;
  readonly before: Columns | undefined;
  readonly after: KnownRecord;
}
export interface Outcome {
  readonly saved: readonly Saved[];
  /** From when on events are decided by it. */
  readonly recorded_at: UnixMs;
}

interface Given {
  readonly field: string;
  readonly key: string | undefined;
  readonly version: unknown;
  readonly isRetentionConfirmed: boolean;
  readonly fields: Columns;
}

const NOT_FIELDS = ["version", "recorded_at", "confirm_retention"];

const isObject = (value: unknown): value is Columns =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const givenOf = (kind: Kind, entry: unknown, n: number): Given => {
  const field = `${kind}[${n}]`;
  if (!isObject(entry)) throw new ReferenceRefused([{ code: "invalid", field, message: "give an object" }]);
  const { [idFieldOf(kind)]: id, ...rest } = entry;
  const isKnown = kind === "segments" ? entry.client_id !== undefined : id !== undefined && id !== null;
  return {
    field,
    key: !isKnown ? undefined : kind === "segments" ? `${entry.client_id}:${id}` : String(id),
    version: entry.version,
    isRetentionConfirmed: entry.confirm_retention === true,
    fields: Object.fromEntries(
      Object.entries(kind === "segments" ? entry : rest).filter(([name]) => !NOT_FIELDS.includes(name)),
    ),
  };
};

/** What is wrong with one entry before the writer is asked. */
const problemsOf = async (
  tx: PoolClient,
  kind: Kind,
  { field, key, version, isRetentionConfirmed, fields }: Given,
  known: KnownRecord | undefined,
  now: UnixMs,
): Promise<readonly ReferenceProblem[]> => {
  if (key !== undefined && known === undefined && kind !== "segments")
    return [{ code: "unknown", field: `${field}.${idFieldOf(kind)}`, message: `nothing has the id ${key}` }];
  if ("valid_from" in fields)
    return [{ code: "invalid", field: `${field}.valid_from`, message: "there is no field valid_from" }];
  if (known !== undefined && version !== undefined && version !== known.version)
    return [
      {
        code: "conflict",
        field: `${field}.version`,
        message: `it is version ${known.version} by now: show it again, and change that`,
      },
    ];
  const after = known === undefined ? fields : merged(known.record, fields);
  const id = known === undefined || kind === "segments" ? null : Number(known.key);
  const wanted = { kind, id, before: known?.record, after, isRetentionConfirmed, now };
  return (await refusalsOf(tx, wanted)).map(({ field: name, message }) => ({
    code: "conflict" as const,
    field: `${field}.${name}`,
    message,
  }));
};

/** A contract without an id is meant by what it is for and since when. */
const contractMeant = async (tx: PoolClient, { fields }: Given): Promise<string | undefined> => {
  const { rows } = await tx.query<{ contract_id: number }>(sql`
    select contract_id from segment_commissions
    where partner_id = ${fields.partner_id ?? null}::int and client_id = ${fields.client_id ?? null}::int
      and segment is not distinct from ${fields.segment ?? null}::text
      and event_type = ${fields.event_type ?? null}::text and effective_from = ${fields.effective_from ?? null}::date
    limit 1`);
  return rows[0] && String(rows[0].contract_id);
};

const seeEveryClient = async (tx: PoolClient): Promise<readonly number[]> => {
  const all = (await newestRecords(tx, "clients")).map(({ key }) => Number(key));
  await tx.query(sql`select set_config('app.clients', ${all.join(",")}, true)`);
  return all;
};

/** Thrown to end the transaction of a preview. */
class Previewed extends Error {
  readonly outcome: Outcome;
  constructor(outcome: Outcome) {
    super("previewed");
    this.outcome = outcome;
  }
}

/**
 * All of them or none. An entry with an id changes the fields that it gives, one without makes a
 * new record; `version`, when given, must be the newest. Without `isSaved` nothing is kept: the
 * answer is what would be. Throws ReferenceRefused with everything that is wrong.
 */
export const saveRecords = async (
  pool: Pool,
  kind: Kind,
  entries: readonly unknown[],
  { act, isSaved, now }: { readonly act: Act; readonly isSaved: boolean; readonly now: UnixMs },
): Promise<Outcome> => {
  if (entries.length === 0 || entries.length > MOST_AT_ONCE)
    throw new ReferenceRefused([{ code: "invalid", field: kind, message: `give 1 to ${MOST_AT_ONCE} of them` }]);
  try {
    return await transaction(pool, null, async (tx) => {
      const outcome = await saveWithin(tx, kind, entries, act, now);
      if (!isSaved) throw new Previewed(outcome);
      return outcome;
    });
  } catch (error) {
    if (error instanceof Previewed) return error.outcome;
    if (tookTooLong(error))
      throw new Error("the change took too long, and was not saved: try again, or save fewer at once", {
        cause: error,
      });
    throw error;
  }
};

const saveWithin = async (
  tx: PoolClient,
  kind: Kind,
  entries: readonly unknown[],
  act: Act,
  now: UnixMs,
): Promise<Outcome> => {
  const all = await seeEveryClient(tx);
  await lockReference(tx);
  const given: Given[] = [];
  for (const [n, entry] of entries.entries()) {
    const one = givenOf(kind, entry, n);
    given.push(kind === "contracts" && one.key === undefined ? { ...one, key: await contractMeant(tx, one) } : one);
  }
  const keys = given.flatMap(({ key }) => key ?? []);
  const known = new Map((await newestRecords(tx, kind, keys)).map((one) => [one.key, one]));
  const problems: ReferenceProblem[] = [];
  for (const one of given) problems.push(...(await problemsOf(tx, kind, one, known.get(one.key ?? ""), now)));
  if (problems.length > 0) throw new ReferenceRefused(problems);

  const changes = given.map(({ key, fields }, n) => {
    if (kind === "segments") return fields;
    return { ...fields, [idFieldOf(kind)]: key === undefined ? -1 - n : Number(key) };
  });
  const change = { [kind]: changes } as unknown as ReferenceChanges;
  let saved: readonly Saved[] = [];
  // Before its stamp, where there is time for it.
  const also = async (written: Written): Promise<void> => {
    const keysAfter = given.map((one, n) => keyOf(kind, one, n, written));
    const after = new Map((await newestRecords(tx, kind, keysAfter)).map((one) => [one.key, one]));
    saved = keysAfter.map((key) => ({
      ...{ key, isNew: !known.has(key), before: known.get(key)?.record, after: after.get(key)! },
    }));
    await seeEveryClient(tx);
    await writeAudit(tx, act, ...saved.map((one) => entryOf(kind, one)));
  };
  const { recorded_at } = await writeReferenceWithin(tx, act.actor, change, { clients: all, also });
  return { saved, recorded_at };
};

const keyOf = (kind: Kind, { key, fields }: Given, n: number, { idOf, contractIds }: Written): string => {
  if (kind === "segments") return `${fields.client_id}:${fields.code}`;
  if (kind === "contracts") return String(contractIds[n]);
  return key ?? String(idOf(kind, -1 - n));
};

const SINGULAR: Readonly<Record<Kind, string>> = {
  clients: "client",
  segments: "segment",
  partners: "partner",
  campaigns: "campaign",
  links: "link",
  contracts: "contract",
  rules: "rule",
};

const entryOf = (kind: Kind, { key, isNew, before, after }: Saved) => {
  const changed = kind === "contracts" || kind === "rules" ? "versioned" : "updated";
  return {
    action: `${SINGULAR[kind]}.${isNew ? "created" : changed}`,
    client_id: kind === "clients" ? Number(key) : after.clients.length === 1 ? after.clients[0]! : null,
    entity: `${SINGULAR[kind]}:${key}`,
    before,
    after: after.record,
  };
};
