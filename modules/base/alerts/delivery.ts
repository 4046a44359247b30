// Delivers an alert: stores it in Postgres and mails it once. Without Postgres it is mailed anyway.
import type { Pool } from "pg";
import type { Log } from "../../../infra/runtime/log.ts";
import type { Act } from "../audit/audit.ts";
import type { Alert } from "./alert.ts";
import { type DeliveryResult, mailOnce } from "./kept-alerts.ts";
import type { Mailer } from "./mail.ts";

/** An incident has three alerts, so 200 identities take a few kilobytes. */
const MOST_REMEMBERED = 200;

/** `received`: the sender, if the alert came over the platform API; for the audit. */
export type Deliver = (alert: Alert, received?: Act) => Promise<DeliveryResult>;

/**
 * Delivers alerts. While Postgres is away, only this process remembers which alerts it has mailed;
 * the keeper stores them later. Rejects if neither Postgres nor a mail server took the alert.
 */
export const openDelivery = (pool: Pool, mailer: Omit<Mailer, "post"> | undefined, log: Pick<Log, "warn">): Deliver => {
  const mailed = new Set<string>();
  return async (alert, received) => {
    const id = `${alert.incident_id} ${alert.status} ${alert.severity}`;
    const send =
      mailer &&
      (async () => {
        if (mailed.has(id)) return;
        await mailer.send(alert);
        mailed.add(id);
        if (mailed.size > MOST_REMEMBERED) mailed.delete(mailed.values().next().value!);
      });
    try {
      return await mailOnce(pool, alert, { send, received });
    } catch (error) {
      log.warn("alert.not_kept", { incident_id: alert.incident_id, error });
      if (send === undefined) throw error;
      await send().catch((failure: unknown) => {
        log.warn("alert.not_mailed", { incident_id: alert.incident_id, error: failure });
        throw failure;
      });
      return { alert_id: null, mailed: true };
    }
  };
};
