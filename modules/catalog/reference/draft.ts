// Turns a change into rows, or into a list of its problems. Pure: the caller passes the saved rows.
import type { z } from "zod";
import { type EntityName, entities, type ReferenceChanges } from "./entities.ts";
import type { Columns, ReferenceProblem } from "./problem.ts";
import { segmentRecord } from "./records.ts";

/** Newest rows by id: those that the change names, and those that they refer to. */
export type KnownRows = Readonly<Record<EntityName, ReadonlyMap<number, Columns>>> & {
  readonly segments: ReadonlyMap<string, Columns>;
};
export interface RecordDraft {
  readonly entity: EntityName;
  readonly id: number;
  readonly field: string;
  readonly version: number;
  readonly valid_from: string;
  /** The validated record with real ids. */
  readonly record: any;
}
export interface SegmentDraft {
  readonly client_id: number;
  readonly field: string;
  readonly version: number;
  readonly valid_from: string;
  readonly record: { readonly code: string; readonly name: string; readonly active: boolean };
}

export const names: readonly EntityName[] = ["clients", "partners", "campaigns", "links", "contracts", "rules"];
/** New clients get the specification's six product lines as segments unless others are given. */
const defaultSegments = ["MX", "VD", "DA", "HA", "IT", "NW"];
/** JSON allows NUL and lone surrogates, but Postgres refuses them. */
const unstorable = /\0|\p{Surrogate}/u;
const unstorableText = "a text holds U+0000 or half of a surrogate pair, which cannot be stored: leave it out";
const always = "1970-01-01T00:00:00.000Z";

type Real = (entity: EntityName, id: number) => number | undefined;
/** Replaces negative ids by real ones. */
const resolved: Readonly<Record<EntityName, (record: any, real: (entity: EntityName, id: number) => number) => any>> = {
  clients: (record) => record,
  partners: (record, real) => ({
    ...record,
    client_ids: [...new Set(record.client_ids.map((id: number) => real("clients", id)))],
  }),
  campaigns: (record, real) => ({
    ...record,
    client_id: real("clients", record.client_id),
    patterns: record.patterns.map((pattern: any) =>
      pattern.partner_id === undefined ? pattern : { ...pattern, partner_id: real("partners", pattern.partner_id) },
    ),
  }),
  links: (record, real) => ({
    ...record,
    campaign_id: real("campaigns", record.campaign_id),
    partner_id: real("partners", record.partner_id),
  }),
  contracts: (record, real) => ({
    ...record,
    client_id: real("clients", record.client_id),
    partner_id: real("partners", record.partner_id),
  }),
  rules: (record, real) => ({
    ...record,
    client_id: real("clients", record.client_id),
    // biome-ignore lint/suspicious/noThenProperty: the wire name of what a rule does
    then: {
      partner_id: real("partners", record.then.partner_id),
      ...(record.then.campaign_id === undefined ? {} : { campaign_id: real("campaigns", record.then.campaign_id) }),
    },
  }),
};

/** Ids are int4; negative ones stand for new records. */
export const isId = (id: unknown): id is number => Number.isInteger(id) && id !== 0 && Math.abs(id as number) < 2 ** 31;
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
/**
 * Merges the given fields into the saved record. `attribution`, `fraud` and `payout` are merged one
 * level deep; hold_days and conditions are replaced.
 */
export const merged = (saved: Columns, given: Readonly<Record<string, unknown>>): Columns => ({
  ...saved,
  ...Object.fromEntries(
    Object.entries(given).map(([key, value]) => [
      key,
      ["attribution", "fraud", "payout"].includes(key) && isObject(value) && isObject(saved[key])
        ? { ...saved[key], ...value }
        : value,
    ]),
  ),
});

const fieldOf = (base: string, path: readonly PropertyKey[]): string =>
  path.reduce<string>(
    (field, part) =>
      field + (typeof part === "number" || /^\d+$/.test(String(part)) ? `[${String(part)}]` : `.${String(part)}`),
    base,
  );

/**
 * `real` returns the id of a record, also for a negative id (undefined: the change has none);
 * `fresh` makes a new id.
 */
export interface Ids {
  readonly real: Real;
  readonly fresh: (entity: EntityName) => number;
}
type Drafts<Draft> = { readonly drafted: readonly Draft[]; readonly problems: readonly ReferenceProblem[] };

/** Validates each record of a change separately. */
export const draftRecords = (
  changes: ReferenceChanges,
  saved: KnownRows,
  ids: Ids,
  now: string,
): Drafts<RecordDraft> => {
  const problems: ReferenceProblem[] = [];
  const drafted: RecordDraft[] = [];
  for (const entity of names) {
    const seen = new Set<number>();
    for (const [n, entry] of ((changes[entity] ?? []) as readonly unknown[]).entries()) {
      const field = `${entity}[${n}]`;
      const found = identified(entity, entry, field, saved, ids);
      if ("message" in found) {
        problems.push(found);
        continue;
      }
      if (seen.has(found.id))
        problems.push({
          code: "invalid",
          field: `${field}.${entities[entity].id}`,
          message: `${found.id} is given twice: give it once`,
        });
      seen.add(found.id);
      drafted.push(...draftOf(entity, found, field, ids.real, now, problems));
    }
  }
  return { drafted, problems };
};

interface EntryTarget {
  readonly id: number;
  readonly before: Columns | undefined;
  readonly validFrom: unknown;
  readonly fields: Record<string, unknown>;
}
/**
 * Finds the record that an entry changes. A contract without an id is identified by its key, which
 * is looked up later.
 */
const identified = (
  entity: EntityName,
  entry: unknown,
  field: string,
  saved: KnownRows,
  ids: Ids,
): EntryTarget | ReferenceProblem => {
  if (!isObject(entry)) return { code: "invalid", field, message: "give an object" };
  const idField = entities[entity].id;
  const { [idField]: given, valid_from: validFrom, ...fields } = entry;
  if (entity === "contracts" && given === undefined)
    return { id: ids.fresh(entity), before: undefined, validFrom, fields };
  if (!isId(given))
    return { code: "invalid", field: `${field}.${idField}`, message: "give an id, or a negative number for a new one" };
  const id = ids.real(entity, given)!;
  const before = saved[entity].get(id);
  if (given > 0 && before === undefined)
    return { code: "unknown", field: `${field}.${idField}`, message: `nothing has the id ${given}` };
  return { id, before, validFrom, fields };
};

/**
 * Returns the row for an entry. If the entry is wrong, adds to the problems and returns nothing.
 */
const draftOf = (
  entity: EntityName,
  { id, before, validFrom, fields }: EntryTarget,
  field: string,
  real: Real,
  now: string,
  problems: ReferenceProblem[],
): readonly RecordDraft[] => {
  const { id: idField, record: schema, toRecord, fixed } = entities[entity];
  const wrong = (code: ReferenceProblem["code"], place: string, message: string): void => {
    problems.push({ code, field: place, message });
  };
  if (unstorable.test(strings(fields))) wrong("invalid", field, unstorableText);
  const at = validFromOf(validFrom, before === undefined ? always : now);
  if (at === undefined) wrong("invalid", `${field}.valid_from`, "give an RFC 3339 time");
  const record = before === undefined ? undefined : toRecord(withoutKnown(before, idField));
  const parsed = schema.safeParse(record === undefined ? fields : merged(record, fields));
  if (!parsed.success) {
    problems.push(...issuesOf(parsed.error, field));
    return [];
  }
  for (const name of fixed)
    if (record !== undefined && parsed.data[name] !== record[name])
      wrong("conflict", `${field}.${name}`, `cannot be changed once saved; it is ${JSON.stringify(record[name])}`);
  const data = resolved[entity](parsed.data, (kind, reference) => {
    const found = real(kind, reference);
    if (found === undefined) wrong("unknown", field, `${reference} is none of the ${kind} of this change`);
    return found ?? 0;
  });
  return at === undefined
    ? []
    : [{ entity, id, field, version: (before?.version ?? 0) + 1, valid_from: at, record: data }];
};

const issuesOf = (error: z.ZodError, field: string): readonly ReferenceProblem[] =>
  error.issues.map((issue) => ({
    code: "invalid",
    field: fieldOf(field, issue.path),
    message: issue.code === "unrecognized_keys" ? `there is no field ${issue.keys.join(", ")}` : issue.message,
  }));

/**
 * A segment has no id; its client and its code identify it. `drafted` are the records of the same
 * change.
 */
export const draftSegments = (
  changes: ReferenceChanges,
  drafted: readonly RecordDraft[],
  saved: KnownRows,
  real: Real,
  now: string,
): Drafts<SegmentDraft> => {
  const problems: ReferenceProblem[] = [];
  const segments = new Map<string, SegmentDraft>();
  const isClient = (id: number): boolean =>
    saved.clients.has(id) || drafted.some((draft) => draft.entity === "clients" && draft.id === id);
  for (const [n, { client_id: given, valid_from: validFrom, ...fields }] of (changes.segments ?? []).entries()) {
    const field = `segments[${n}]`;
    const clientId = isId(given) ? real("clients", given) : undefined;
    if (clientId === undefined || !isClient(clientId)) {
      problems.push({ code: "unknown", field: `${field}.client_id`, message: `no client has the id ${given}` });
      continue;
    }
    const key = `${clientId}:${fields.code}`;
    const before = saved.segments.get(key);
    const parsed = segmentRecord.safeParse({
      ...(before === undefined ? {} : { name: before.name, active: before.active }),
      ...fields,
    });
    const at = validFromOf(validFrom, before === undefined ? always : now);
    if (!parsed.success) problems.push(...issuesOf(parsed.error, field));
    if (at === undefined)
      problems.push({ code: "invalid", field: `${field}.valid_from`, message: "give an RFC 3339 time" });
    if (segments.has(key))
      problems.push({ code: "invalid", field: `${field}.code`, message: "is given twice: give it once" });
    if (unstorable.test(strings(fields))) problems.push({ code: "invalid", field, message: unstorableText });
    if (parsed.success && at !== undefined)
      segments.set(key, {
        client_id: clientId,
        field,
        version: (before?.version ?? 0) + 1,
        valid_from: at,
        record: parsed.data,
      });
  }
  return { drafted: [...segments.values(), ...segmentsOfNewClients(drafted, [...segments.values()])], problems };
};

/** The default segments of each new client for which the change gives none. */
const segmentsOfNewClients = (
  drafted: readonly RecordDraft[],
  segments: readonly SegmentDraft[],
): readonly SegmentDraft[] => {
  const given = new Set(segments.map(({ client_id }) => client_id));
  return drafted
    .filter(({ entity, id, version }) => entity === "clients" && version === 1 && !given.has(id))
    .flatMap(({ id, field, valid_from }) =>
      defaultSegments.map((code) => ({
        client_id: id,
        field,
        version: 1,
        valid_from,
        record: { code, name: code, active: true },
      })),
    );
};

const bookkeeping = ["version", "change_id", "valid_from"];
const withoutKnown = (row: Columns, idField: string): Columns =>
  Object.fromEntries(Object.entries(row).filter(([name]) => name !== idField && !bookkeeping.includes(name)));
const validFromOf = (given: unknown, otherwise: string): string | undefined => {
  if (given === undefined) return otherwise;
  const isTime =
    typeof given === "string" && /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?(Z|[+-]\d{2}:\d{2})$/.test(given);
  return isTime && !Number.isNaN(Date.parse(given)) ? new Date(given).toISOString() : undefined;
};
/** All texts in a value, including keys. */
const strings = (value: unknown): string =>
  typeof value === "string"
    ? value
    : isObject(value) || Array.isArray(value)
      ? Object.entries(value)
          .map(([key, part]) => key + strings(part))
          .join("\n")
      : "";
