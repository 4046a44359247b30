// sinks/postgres/reference-draft.ts - turns a wanted change into rows, or into all that is wrong with it. Pure: what the database holds is given.
import type { Columns, EntityName, ReferenceChanges, ReferenceProblem } from "./reference-records.ts";
import { entities, segmentRecord } from "./reference-records.ts";

/** Newest rows by id, of the things that the change names and of the things these name. */
export type KnownRows = Readonly<Record<EntityName, ReadonlyMap<number, Columns>>> & { readonly segments: ReadonlyMap<string, Columns> };
export interface Drafted {
  readonly entity: EntityName;
  readonly id: number;
  readonly field: string;
  readonly version: number;
  readonly valid_from: string;
  /** As validated, with real ids. */
  readonly record: any;
}
export interface DraftedSegment {
  readonly client_id: number;
  readonly field: string;
  readonly version: number;
  readonly valid_from: string;
  readonly record: { readonly code: string; readonly name: string; readonly active: boolean };
}

export const names: readonly EntityName[] = ["clients", "partners", "campaigns", "links", "contracts", "rules"];
/** New clients have the six product lines of the specification unless segments are given. */
export const defaultSegments = ["MX", "VD", "DA", "HA", "IT", "NW"];
/** NUL and lone surrogates are valid JSON that Postgres refuses. */
const unstorable = /\0|\p{Surrogate}/u;
const always = "1970-01-01T00:00:00.000Z";

type Real = (entity: EntityName, id: number) => number;
/** Puts real ids in the place of negative ones. */
const resolved: Readonly<Record<EntityName, (record: any, real: Real) => any>> = {
  clients: (record) => record,
  partners: (record, real) => ({ ...record, client_ids: [...new Set(record.client_ids.map((id: number) => real("clients", id)))] }),
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

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);
/** Merge-patch of what is saved with what is given; `attribution`, `fraud` and `payout` are merged one level deep, hold_days and conditions replaced. */
const merged = (saved: Columns, given: Record<string, unknown>): unknown => ({
  ...saved,
  ...Object.fromEntries(
    Object.entries(given).map(([key, value]) => [
      key,
      ["attribution", "fraud", "payout"].includes(key) && isObject(value) && isObject(saved[key]) ? { ...saved[key], ...value } : value,
    ]),
  ),
});

const fieldOf = (base: string, path: readonly PropertyKey[]): string =>
  path.reduce<string>(
    (field, part) => field + (typeof part === "number" || /^\d+$/.test(String(part)) ? `[${String(part)}]` : `.${String(part)}`),
    base,
  );

/** Validates each record of a change by itself. `idsOf` answers the real id of a thing, also for negative ones; undefined: nothing of this change. */
export const draftRecords = (
  changes: ReferenceChanges,
  saved: KnownRows,
  ids: { readonly real: (entity: EntityName, id: number) => number | undefined; readonly fresh: (entity: EntityName) => number },
  now: string,
): { readonly drafted: readonly Drafted[]; readonly problems: readonly ReferenceProblem[] } => {
  const problems: ReferenceProblem[] = [];
  const drafted: Drafted[] = [];
  for (const entity of names) {
    const { id: idField, record: schema, toRecord, fixed } = entities[entity];
    const seen = new Set<number>();
    for (const [n, entry] of ((changes[entity] ?? []) as readonly Record<string, unknown>[]).entries()) {
      const field = `${entity}[${n}]`;
      const { [idField]: given, valid_from: validFrom, ...fields } = entry;
      const isKeyed = entity === "contracts" && given === undefined;
      if (!isKeyed && (!Number.isInteger(given) || given === 0)) {
        problems.push({ code: "invalid", field: `${field}.${idField}`, message: "give an id, or a negative number for a new one" });
        continue;
      }
      const id = isKeyed ? ids.fresh(entity) : ids.real(entity, given as number)!;
      const before = saved[entity].get(id);
      if (!isKeyed && (given as number) > 0 && before === undefined) {
        problems.push({ code: "unknown", field: `${field}.${idField}`, message: `nothing has the id ${given}` });
        continue;
      }
      if (seen.has(id)) problems.push({ code: "invalid", field: `${field}.${idField}`, message: `${given} is given twice: give it once` });
      seen.add(id);
      if (unstorable.test(strings(fields)))
        problems.push({
          code: "invalid",
          field,
          message: "a text holds U+0000 or half of a surrogate pair, which cannot be stored: leave it out",
        });
      const at = validFromOf(validFrom, before === undefined ? always : now);
      if (at === undefined) problems.push({ code: "invalid", field: `${field}.valid_from`, message: "give an RFC 3339 time" });
      const record = before === undefined ? undefined : toRecord(withoutKnown(before, idField));
      const parsed = schema.safeParse(record === undefined ? fields : merged(record, fields));
      if (!parsed.success) {
        for (const issue of parsed.error.issues)
          problems.push({
            code: "invalid",
            field: fieldOf(field, issue.path),
            message: issue.code === "unrecognized_keys" ? `there is no field ${issue.keys.join(", ")}` : issue.message,
          });
        continue;
      }
      for (const name of fixed)
        if (record !== undefined && parsed.data[name] !== record[name])
          problems.push({
            code: "conflict",
            field: `${field}.${name}`,
            message: `cannot be changed once saved; it is ${JSON.stringify(record[name])}`,
          });
      const unknown: string[] = [];
      const data = resolved[entity](parsed.data, (kind, reference) => {
        const found = ids.real(kind, reference);
        if (found === undefined) unknown.push(`${reference} is none of the ${kind} of this change`);
        return found ?? 0;
      });
      for (const message of unknown) problems.push({ code: "unknown", field, message });
      if (at !== undefined) drafted.push({ entity, id, field, version: (before?.version ?? 0) + 1, valid_from: at, record: data });
    }
  }
  return { drafted, problems };
};

/** Segments have no id of their own: the client's and a code. New clients without any get the default ones. */
export const draftSegments = (
  changes: ReferenceChanges,
  drafted: readonly Drafted[],
  saved: KnownRows,
  real: (entity: EntityName, id: number) => number | undefined,
  now: string,
): { readonly segments: readonly DraftedSegment[]; readonly problems: readonly ReferenceProblem[] } => {
  const problems: ReferenceProblem[] = [];
  const segments = new Map<string, DraftedSegment>();
  for (const [n, { client_id: given, valid_from: validFrom, ...fields }] of (changes.segments ?? []).entries()) {
    const field = `segments[${n}]`;
    const clientId = Number.isInteger(given) ? real("clients", given) : undefined;
    const known =
      clientId !== undefined && (saved.clients.has(clientId) || drafted.some(({ entity, id }) => entity === "clients" && id === clientId));
    if (clientId === undefined || !known) {
      problems.push({ code: "unknown", field: `${field}.client_id`, message: `no client has the id ${given}` });
      continue;
    }
    const before = saved.segments.get(`${clientId}:${fields.code}`);
    const parsed = segmentRecord.safeParse({ ...(before === undefined ? {} : { name: before.name, active: before.active }), ...fields });
    const at = validFromOf(validFrom, before === undefined ? always : now);
    if (at === undefined) problems.push({ code: "invalid", field: `${field}.valid_from`, message: "give an RFC 3339 time" });
    if (segments.has(`${clientId}:${fields.code}`))
      problems.push({ code: "invalid", field: `${field}.code`, message: "is given twice: give it once" });
    if (unstorable.test(strings(fields)))
      problems.push({ code: "invalid", field, message: "a text holds U+0000 or half of a surrogate pair: leave it out" });
    if (parsed.success && at !== undefined)
      segments.set(`${clientId}:${fields.code}`, {
        client_id: clientId,
        field,
        version: (before?.version ?? 0) + 1,
        valid_from: at,
        record: parsed.data,
      });
    else
      for (const issue of parsed.error?.issues ?? [])
        problems.push({ code: "invalid", field: fieldOf(field, issue.path), message: issue.message });
  }
  for (const client of drafted.filter(({ entity, version }) => entity === "clients" && version === 1))
    if (![...segments.values()].some(({ client_id }) => client_id === client.id))
      for (const code of defaultSegments)
        segments.set(`${client.id}:${code}`, {
          client_id: client.id,
          field: client.field,
          version: 1,
          valid_from: client.valid_from,
          record: { code, name: code, active: true },
        });
  return { segments: [...segments.values()], problems };
};

const bookkeeping = ["version", "change_id", "valid_from"];
const withoutKnown = (row: Columns, idField: string): Columns =>
  Object.fromEntries(Object.entries(row).filter(([name]) => name !== idField && !bookkeeping.includes(name)));
const validFromOf = (given: unknown, otherwise: string): string | undefined => {
  if (given === undefined) return otherwise;
  const isTime = typeof given === "string" && /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?(Z|[+-]\d{2}:\d{2})$/.test(given);
  return isTime && !Number.isNaN(Date.parse(given)) ? new Date(given).toISOString() : undefined;
};
/** Every text of a value, keys too. */
const strings = (value: unknown): string =>
  typeof value === "string"
    ? value
    : isObject(value) || Array.isArray(value)
      ? Object.entries(value)
          .map(([key, part]) => key + strings(part))
          .join("\n")
      : "";
