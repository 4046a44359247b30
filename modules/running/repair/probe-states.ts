// Stores the state of each probed store, and which keeper probes it: a row a store, held by a
// lease.
import type { Pool } from "pg";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { type AlertRow, keepAlert } from "../../base/alerts/kept-alerts.ts";

export interface ProbeRow {
  readonly name: string;
  readonly state: "healthy" | "failing" | "restarting" | "down";
  readonly failures: number;
  readonly since: UnixMs;
  readonly checked_at: UnixMs | null;
  readonly last_ok_at: UnixMs | null;
  readonly last_error: string | null;
  readonly failing_since: UnixMs | null;
  readonly incident_id: string | null;
  readonly restarted_at: readonly UnixMs[];
}

const role = { role: "tributary_keeper" } as const;
const columns =
  "name, state, failures, since, checked_at, last_ok_at, last_error, failing_since, incident_id, restarted_at";

/**
 * Takes or renews the lease of a store, by the clock of the database; undefined while another
 * holder has it.
 */
export const takeProbe = (pool: Pool, name: string, holder: string, leaseMs: number): Promise<ProbeRow | undefined> =>
  transaction(
    pool,
    null,
    async (tx) =>
      (
        await tx.query<ProbeRow>({
          text: `update probe_states set leased_by = $2,
            leased_until = clock_timestamp() + $3 * interval '1 millisecond'
            where name = $1 and (leased_by = $2 or leased_until < clock_timestamp()) returning ${columns}`,
          values: [name, holder, leaseMs],
        })
      ).rows[0],
    role,
  );

/**
 * Saves the state together with the alerts that it raises, both or neither, and renews the lease.
 * Returns false, and saves nothing, when another holder has taken the store meanwhile. `isMailed`:
 * the mails of these alerts were sent while this database was down.
 */
export const saveProbe = (
  pool: Pool,
  row: ProbeRow,
  alerts: readonly { readonly alert: AlertRow; readonly isMailed: boolean }[],
  holder: string,
  leaseMs: number,
): Promise<boolean> =>
  transaction(
    pool,
    null,
    async (tx) => {
      const at = (time: UnixMs | null): Date | null => (time === null ? null : new Date(time));
      const { rowCount } = await tx.query(sql`
        update probe_states set state = ${row.state}, failures = ${row.failures}, since = ${at(row.since)},
          checked_at = ${at(row.checked_at)},
          last_ok_at = ${at(row.last_ok_at)}, last_error = ${row.last_error}, failing_since = ${at(row.failing_since)},
          incident_id = ${row.incident_id}, restarted_at = ${row.restarted_at.map((time) => new Date(time))},
          leased_until = clock_timestamp() + ${leaseMs} * interval '1 millisecond'
        where name = ${row.name} and leased_by = ${holder}`);
      if (rowCount !== 1) return false;
      for (const { alert, isMailed } of alerts) await keepAlert(tx, alert, isMailed);
      return true;
    },
    role,
  );

/** Releases all stores of a holder, so that another need not wait for the lease to expire. */
export const releaseProbes = (pool: Pool, holder: string): Promise<void> =>
  transaction(
    pool,
    null,
    async (tx) =>
      void (await tx.query(
        sql`update probe_states set leased_by = null, leased_until = '-infinity' where leased_by = ${holder}`,
      )),
    role,
  );

/** All of them, by name. */
export const listProbes = (pool: Pool): Promise<readonly ProbeRow[]> =>
  transaction(
    pool,
    null,
    async (tx) => (await tx.query<ProbeRow>(`select ${columns} from probe_states order by name`)).rows,
    {
      ...role,
      isReadOnly: true,
    },
  );
