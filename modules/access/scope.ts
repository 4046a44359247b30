// Which clients' rows a user may see, and a transaction that sees no others.
import type { PoolClient } from "pg";
import { pageOfRows, type RowsQuery } from "../../infra/postgres/rows.ts";
import { settingTenants, sql } from "../../infra/postgres/sql.ts";
import type { Scope } from "../base/work.ts";
import type { User } from "./users/users.ts";

/** Rows of no client, the operator's own, count as those of client 0. */
const OPERATOR = 0;

/** What rows of the scope belong to: its clients, and for those who see all the operator. */
export const tenantsOf = ({ clients, isAll }: Scope): readonly number[] => (isAll ? [OPERATOR, ...clients] : clients);

/**
 * Sets the tenants of the transaction to those of the user, as they are now. A partner sees its
 * rows at every client that it ever worked for; a client user loses an archived client.
 */
export const enterScope = async (tx: PoolClient, user: User): Promise<Scope> => {
  const isAll = user.role === "admin" || (user.role === "viewer" && user.client_ids.length === 0);
  const isAssigned = user.role === "client_manager" || (user.role === "viewer" && !isAll);
  const clients = isAssigned ? user.client_ids : await readClients(tx, user);
  const scope = { clients, isAll };
  await tx.query(`set local role none; ${settingTenants(tenantsOf(scope))}`);
  return scope;
};

/**
 * After a change of reference data, which works under the tenants of its own rows: both those and
 * the scope are seen from then on.
 */
export const keepScope = async (tx: PoolClient, scope: Scope): Promise<void> => {
  const { rows } = await tx.query<{ changed: string }>("select current_setting('app.clients', true) as changed");
  const changed = (rows[0]?.changed ?? "").split(",").filter((id) => id !== "");
  await setTenants(tx, [...new Set([...tenantsOf(scope), ...changed.map(Number)])]);
};

/**
 * Asks one thing that the caller may not see itself, e.g. whether a shared partner is owed anything
 * by any of its clients; then the scope is back.
 */
export const askingOf = async <T>(
  tx: PoolClient,
  scope: Scope,
  clients: readonly number[],
  ask: () => Promise<T>,
): Promise<T> => {
  await setTenants(tx, clients);
  const answer = await ask();
  await setTenants(tx, tenantsOf(scope));
  return answer;
};

/** The one row of a query that the scope sees; undefined for every other. */
export const rowInScope = async (
  tx: PoolClient,
  rows: RowsQuery,
  scope: Scope,
  names: readonly string[],
): Promise<Readonly<Record<string, any>> | undefined> => {
  const reading = { names, sort: Object.keys(rows.sorts)[0]!, clients: tenantsOf(scope) };
  return (await pageOfRows(tx, rows, reading, { limit: 1 })).rows[0];
};

const setTenants = async (tx: PoolClient, clients: readonly number[]): Promise<void> => {
  await tx.query(settingTenants(clients));
};

/** For the operator's command line: sets the tenants of the transaction to every client. */
export const enterEveryClient = async (tx: PoolClient): Promise<Scope> => {
  const scope = { clients: await everyClient(tx), isAll: true };
  await tx.query(`set local role none; ${settingTenants(tenantsOf(scope))}`);
  return scope;
};

const everyClient = async (tx: PoolClient): Promise<readonly number[]> => {
  await tx.query("set local role tributary_reference");
  const { rows } = await tx.query<{ clients: readonly number[] }>(
    "select coalesce(array_agg(distinct client_id order by client_id), '{}') as clients from clients",
  );
  return rows[0]!.clients;
};

/** No tenant is known yet, so the role that may read all clients asks. */
const readClients = async (tx: PoolClient, { role, partner_id, client_ids }: User): Promise<readonly number[]> => {
  await tx.query("set local role tributary_reference");
  const { rows } = await tx.query<{ clients: readonly number[] }>(
    role === "partner"
      ? sql`select known_to as clients from partners where partner_id = ${partner_id} order by version desc limit 1`
      : sql`select coalesce(array_agg(client_id order by client_id), '{}') as clients from (
          select distinct on (client_id) client_id, status from clients order by client_id, version desc) newest
        where ${role === "client_user" ? sql`client_id = any (${client_ids}) and status <> 'archived'` : sql`true`}`,
  );
  return rows[0]?.clients ?? [];
};
