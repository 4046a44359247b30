// Determines which clients' rows a user may see, and limits a transaction to them.
import type { PoolClient } from "pg";
import { pageOfRows, type RowsQuery } from "../../infra/postgres/rows.ts";
import { settingTenants, sql } from "../../infra/postgres/sql.ts";
import type { Scope } from "../base/work.ts";
import type { User } from "./users/users.ts";

/** Rows without a client belong to the operator; they are stored under client 0. */
const OPERATOR = 0;

/** The tenants of a scope: its clients, and the operator if the scope includes all clients. */
export const tenantsOf = ({ clients, isAll }: Scope): readonly number[] => (isAll ? [OPERATOR, ...clients] : clients);

/**
 * Sets the tenants of the transaction to the user's current clients. A partner sees its rows at
 * every client that it ever worked for, of those that the user is bound to; a client user loses
 * access to an archived client.
 */
export const enterScope = async (tx: PoolClient, user: User): Promise<Scope> => {
  const isAll = user.role === "admin" || (user.role === "viewer" && user.all_clients);
  const isAssigned = user.role === "client_manager" || (user.role === "viewer" && !isAll);
  const clients = isAssigned ? user.client_ids : await readClients(tx, user);
  const scope = { clients, isAll };
  await tx.query(`set local role none; ${settingTenants(tenantsOf(scope))}`);
  return scope;
};

/**
 * A change of reference data sets the tenants of its own rows. This adds the tenants of the scope,
 * so that both remain visible.
 */
export const keepScope = async (tx: PoolClient, scope: Scope): Promise<void> => {
  const { rows } = await tx.query<{ changed: string }>("select current_setting('app.clients', true) as changed");
  const changed = (rows[0]?.changed ?? "").split(",").filter((id) => id !== "");
  await setTenants(tx, [...new Set([...tenantsOf(scope), ...changed.map(Number)])]);
};

/**
 * Runs a query that the caller may not run itself, e.g. whether any client owes a shared partner
 * something, and then restores the scope.
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

/** Returns the only row of a query if the scope includes it, otherwise undefined. */
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

/** Gives the transaction access to every client. Used by the operator's command line. */
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

/** The tenant is not known yet, so the query runs in the role that reads all clients. */
const readClients = async (tx: PoolClient, { role, partner_id, client_ids }: User): Promise<readonly number[]> => {
  await tx.query("set local role tributary_reference");
  const { rows } = await tx.query<{ clients: readonly number[] }>(
    role === "partner"
      ? sql`
        select case when ${client_ids.length === 0} then known_to
          else array(select c from unnest(known_to) c where c = any (${client_ids}::int[])) end as clients
        from partners where partner_id = ${partner_id} order by version desc limit 1`
      : sql`select coalesce(array_agg(client_id order by client_id), '{}') as clients from (
          select distinct on (client_id) client_id, status from clients order by client_id, version desc) newest
        where ${role === "client_user" ? sql`client_id = any (${client_ids}) and status <> 'archived'` : sql`true`}`,
  );
  return rows[0]?.clients ?? [];
};
