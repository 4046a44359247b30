// Counts mails and alerts that no mail server has taken.
import type { Pool } from "pg";
import { type Sql, sql, transaction } from "../../../infra/postgres/sql.ts";
import type { WaitingMails } from "../../../infra/runtime/metric-counts.ts";

/** After a day a mail is given up, and sent again by a person alone. */
const KEPT = sql`created_at > clock_timestamp() - interval '24 hours'`;

/** Without a mail server alerts are only kept, as the operator has chosen: then none waits. */
export const waitingMails = async (pool: Pool, hasServer: boolean): Promise<readonly WaitingMails[]> => {
  const read = (from: Sql, role: string) =>
    transaction(
      pool,
      null,
      async (tx) =>
        (
          await tx.query<{ count: number; seconds: number }>(sql`
            select count(*)::int as count,
              coalesce(extract(epoch from clock_timestamp() - min(created_at)), 0)::float8 as seconds from ${from}`)
        ).rows[0]!,
      { role, isReadOnly: true },
    );
  const mail = await read(sql`mails where sent_at is null and ${KEPT}`, "tributary_tokens");
  const alert = hasServer
    ? await read(sql`system_alerts where mailed_at is null and ${KEPT}`, "tributary_keeper")
    : { count: 0, seconds: 0 };
  return [
    { kind: "mail", ...mail },
    { kind: "alert", ...alert },
  ];
};
