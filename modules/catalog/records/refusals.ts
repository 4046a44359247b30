// What the platform API refuses beyond what the writer does: the same here, before anything is
// saved.
import type { PoolClient } from "pg";
import { sql } from "../../../infra/postgres/sql.ts";
import { partnersAt } from "../partners/named-partners.ts";
import type { Columns } from "../reference/records.ts";
import { activeBeside, MOST_ACTIVE_RULES } from "../rules/rule-reads.ts";

/** `field` is one of the record; `code` as the platform API answers it. */
export interface Refusal {
  readonly code: string;
  readonly field: string;
  readonly message: string;
}

export interface Wanted {
  readonly kind: keyof typeof checks;
  /** Null: a new one. */
  readonly id: number | null;
  readonly before: Columns | undefined;
  /** Saved record and given fields together. */
  readonly after: Columns;
}

type Check = (tx: PoolClient, wanted: Wanted) => Promise<readonly Refusal[]>;
const none: readonly Refusal[] = [];
const refusal = (code: string, field: string, message: string): readonly Refusal[] => [{ code, field, message }];

/** The status of a client by id; undefined: there is none. */
const clientStatus = async (tx: PoolClient, clientId: unknown): Promise<string | undefined> => {
  if (!Number.isInteger(clientId)) return undefined;
  const { rows } = await tx.query<{ status: string }>(sql`
    select status from clients where client_id = ${clientId} order by version desc limit 1`);
  return rows[0]?.status;
};

const openClient = async (tx: PoolClient, clientId: unknown): Promise<readonly Refusal[]> =>
  (await clientStatus(tx, clientId)) === "archived"
    ? refusal("client_archived", "client_id", `client ${clientId} is archived`)
    : none;

const activePartner = async (
  tx: PoolClient,
  clientId: number,
  partnerId: number,
  field: string,
): Promise<readonly Refusal[]> => {
  const status = (await partnersAt(tx, clientId, [partnerId])).get(partnerId);
  // One that does not work for the client is refused by the writer.
  return status === undefined || ["active", "invited"].includes(status)
    ? none
    : refusal("partner_inactive", field, `partner ${partnerId} is ${status}`);
};

const ofRule: Check = async (tx, { id, before, after }) => {
  const closed = await openClient(tx, after.client_id);
  if (closed.length > 0 || !Number.isInteger(after.client_id)) return closed;
  if (before?.archived === true) return refusal("rule_archived", "archived", `rule ${id} is archived`);
  if (after.status === "inactive" || after.archived === true) return none;
  const active = await activeBeside(tx, after.client_id, id);
  return [
    ...(await activePartner(tx, after.client_id, after.then?.partner_id, "then.partner_id")),
    ...(active >= MOST_ACTIVE_RULES
      ? refusal("too_many_rules", "status", `a client has at most ${MOST_ACTIVE_RULES} active rules`)
      : none),
  ];
};

const checks = { rules: ofRule };

/** Asked under the lock of reference data, in a transaction that sees every client. */
export const refusalsOf = (tx: PoolClient, wanted: Wanted): Promise<readonly Refusal[]> =>
  checks[wanted.kind](tx, wanted);
