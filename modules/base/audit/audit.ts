// The audit: who changed which row, with its values before and after. It is written in the
// transaction of the change, and readable by users who may see the client.
import type { PoolClient } from "pg";
import type { RowsQuery } from "../../../infra/postgres/rows.ts";
import { type Sql, sql } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";

export interface Act {
  /** The user's e-mail address and role. */
  readonly actor: string;
  readonly role: string;
  readonly request_id: string;
  readonly ip: string | null;
}
export interface AuditEntry {
  /** A noun and a past participle, e.g. client.updated. */
  readonly action: string;
  /** Null: the entry belongs to no client. */
  readonly client_id: number | null;
  /** kind:id, e.g. client:7 */
  readonly entity: string;
  readonly before?: unknown;
  readonly after?: unknown;
}

/**
 * Names of fields with secrets or personal data. The field `name` is personal only for entities of
 * persons.
 */
const HIDDEN = /secret|token|password|^key$|email|phone|first_name|last_name|address|^ip$/;
const PEOPLE = /^(user|lead|invitation|partner):/;

/** Replaces secrets and personal data by "redacted" at every depth. */
export const redacted = (value: unknown, entity = ""): unknown => {
  if (Array.isArray(value)) return value.map((part) => redacted(part, entity));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, part]) => {
      const isHidden = HIDDEN.test(key) || (key === "name" && PEOPLE.test(entity));
      return [key, isHidden && part !== null ? "redacted" : redacted(part, entity)];
    }),
  );
};

const exact = (_key: string, part: unknown): unknown => (typeof part === "bigint" ? part.toString() : part);

/** Runs inside the transaction of the change. The clients must be among its tenants. */
export const writeAudit = async (tx: PoolClient, act: Act, ...entries: readonly AuditEntry[]): Promise<void> => {
  const rows = entries.map(({ before, after, ...entry }) => ({
    ...entry,
    before: redacted(before, entry.entity),
    after: redacted(after, entry.entity),
  }));
  await tx.query(sql`
    insert into audit (actor, role, action, client_id, entity, before, after, request_id, ip)
    select ${act.actor}, ${act.role}, action, client_id, entity, before, after, ${act.request_id}, ${act.ip}
    from rows from (jsonb_to_recordset(${JSON.stringify(rows, exact)}::jsonb)
      as (action text, client_id int, entity text, before jsonb, after jsonb)) with ordinality
      as given (action, client_id, entity, before, after, n)
    order by n`);
};

export interface AuditFilter {
  readonly client_id?: number | undefined;
  readonly actor?: string | undefined;
  readonly action?: string | undefined;
  readonly entity?: string | undefined;
  /** Inclusive start and exclusive end. */
  readonly from: UnixMs;
  readonly to: UnixMs;
}

export const auditRows = ({ client_id, actor, action, entity, from, to }: AuditFilter): RowsQuery => {
  const given: readonly (Sql | undefined)[] = [
    client_id === undefined ? undefined : sql`client_id = ${client_id}`,
    actor === undefined ? undefined : sql`actor = ${actor.toLowerCase()}`,
    action === undefined ? undefined : sql`action = ${action}`,
    entity === undefined ? undefined : sql`entity = ${entity}`,
    sql`"at" >= ${new Date(from)} and "at" < ${new Date(to)}`,
  ];
  return {
    columns: {
      id: sql`'aud_' || audit_id`,
      at: sql`"at"`,
      day: sql`to_char("at" at time zone 'America/Mexico_City', 'YYYY-MM-DD')`,
      actor: sql`actor`,
      role: sql`role`,
      action: sql`action`,
      client_id: sql`client_id`,
      entity: sql`entity`,
      before: sql`before`,
      after: sql`after`,
      request_id: sql`request_id`,
      ip: sql`ip`,
    },
    from: sql`audit`,
    tenant: sql`coalesce(client_id, 0)`,
    where: given.filter((part): part is Sql => part !== undefined),
    sorts: { at: { by: sql`"at"`, type: "timestamptz" } },
    id: { by: sql`audit_id`, type: "bigint" },
  };
};
