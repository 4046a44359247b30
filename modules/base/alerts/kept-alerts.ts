// Stores each alert once, and marks it when a server has taken its mail.
import type { Pool, PoolClient } from "pg";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { type Act, writeAudit } from "../audit/audit.ts";

/** The columns that the reporter of an alert fills. */
export interface AlertRow {
  readonly incident_id: string;
  readonly service: string;
  readonly status: "down" | "recovered";
  readonly severity: "normal" | "critical";
  readonly reason: string;
  readonly duration?: string;
  readonly timestamp: string;
}
export interface KeptAlert extends Omit<AlertRow, "duration" | "timestamp"> {
  readonly alert_id: bigint;
  readonly duration: string | null;
  readonly told_at: UnixMs;
  readonly mailed_at: UnixMs | null;
  readonly mail_error: string | null;
}

const role = { role: "tributary_keeper" } as const;

/**
 * Runs inside the transaction of the reported change, in the role tributary_keeper. An alert that
 * is stored already stays unchanged.
 */
export const keepAlert = async (tx: PoolClient, alert: AlertRow, isMailed = false): Promise<void> => {
  await tx.query(sql`
    insert into system_alerts (incident_id, service, status, severity, reason, duration, told_at, mailed_at)
    values (${alert.incident_id}, ${alert.service}, ${alert.status}, ${alert.severity}, ${alert.reason},
      ${alert.duration ?? null}, ${alert.timestamp},
      ${isMailed ? new Date() : null})
    on conflict (incident_id, status, severity) do update
      set mailed_at = coalesce(system_alerts.mailed_at, excluded.mailed_at)
      where system_alerts.mailed_at is null and excluded.mailed_at is not null`);
};

export interface DeliveryResult {
  /** Null: the alert is not stored, because Postgres is away. */
  readonly alert_id: bigint | null;
  /** True if a server has taken its mail, now or earlier. */
  readonly mailed: boolean;
}
export interface DeliverySettings {
  readonly send: (() => Promise<void>) | undefined;
  /** The sender of an alert that came over the platform API; for the audit. */
  readonly received?: Act | undefined;
}

/**
 * Stores the alert and mails it with `send`, unless that was done before. The row is locked
 * meanwhile, so that two reporters of one alert mail it once. A refusing mail server is only
 * logged; errors of Postgres are thrown. A crash between the mail and its mark mails the alert
 * again, and the audit then has it once.
 */
export const mailOnce = (pool: Pool, alert: AlertRow, { send, received }: DeliverySettings): Promise<DeliveryResult> =>
  transaction(
    pool,
    null,
    async (tx) => {
      await keepAlert(tx, alert);
      const { rows } = await tx.query<{ alert_id: bigint; mailed_at: UnixMs | null }>(sql`
        select alert_id, mailed_at from system_alerts
        where incident_id = ${alert.incident_id} and status = ${alert.status} and severity = ${alert.severity}
          for update`);
      const { alert_id: id, mailed_at: mailedAt } = rows[0]!;
      if (received !== undefined) await auditReceipt(tx, { ...alert, alert_id: id }, received);
      if (mailedAt !== null) return { alert_id: id, mailed: true };
      if (send === undefined) return { alert_id: id, mailed: false };
      const error = await send().then(
        () => null,
        (problem: Error) => problem.message.slice(0, 500),
      );
      await tx.query(sql`
        update system_alerts set mail_error = ${error}, mailed_at = case when ${error}::text is null
          then clock_timestamp() end where alert_id = ${id}`);
      return { alert_id: id, mailed: error === null };
    },
    role,
  );

/** The id of an alert in the platform API. */
export const alertRef = (alertId: bigint): string => `alr_${alertId}`;

/** Writes one audit row, however often the alert is sent. */
const auditReceipt = async (tx: PoolClient, alert: AlertRow & { readonly alert_id: bigint }, act: Act) => {
  const { alert_id, incident_id, service, status, severity, reason } = alert;
  const { rowCount } = await tx.query(sql`
    update system_alerts set received_at = clock_timestamp() where alert_id = ${alert_id} and received_at is null`);
  if (rowCount !== 1) return;
  await tx.query("set local role none");
  const after = { alert_id: alertRef(alert_id), service, status, severity, reason };
  await writeAudit(tx, act, { action: "alert.received", client_id: null, entity: `incident:${incident_id}`, after });
  await tx.query(`set local role ${role.role}`);
};

/** Alerts to mail again: no server has taken their mail, and they are at most an hour old. */
export const unmailedAlerts = (pool: Pool, service: string): Promise<readonly AlertRow[]> =>
  transaction(
    pool,
    null,
    async (tx) => {
      const { rows } = await tx.query<
        Omit<AlertRow, "duration" | "timestamp"> & { duration: string | null; told_at: UnixMs }
      >(sql`
        select incident_id, service, status, severity, reason, duration, told_at from system_alerts
        where service = ${service} and mailed_at is null and created_at > clock_timestamp() - interval '1 hour'
          order by alert_id limit 20`);
      return rows.map(({ duration, told_at, ...row }) => ({
        ...row,
        ...(duration === null ? {} : { duration }),
        timestamp: new Date(told_at).toISOString(),
      }));
    },
    { ...role, isReadOnly: true },
  );

/** Newest first. */
export const listAlerts = (pool: Pool, limit: number): Promise<readonly KeptAlert[]> =>
  transaction(
    pool,
    null,
    async (tx) =>
      (
        await tx.query<KeptAlert>(sql`
          select alert_id, incident_id, service, status, severity, reason, duration, told_at, mailed_at, mail_error
          from system_alerts order by alert_id desc limit ${limit}`)
      ).rows,
    { ...role, isReadOnly: true },
  );
