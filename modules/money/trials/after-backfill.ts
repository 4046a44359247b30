// The follow-up of a finished backfill: its audit entry, a mail to the person who requested it, and
// a log line.
import type { PoolClient } from "pg";
import { sql } from "../../../infra/postgres/sql.ts";
import { recipientAt } from "../../access/users/recipients.ts";
import { asUsers } from "../../access/users/users.ts";
import { writeAudit } from "../../base/audit/audit.ts";
import type { TakenJob } from "../../base/jobs/jobs.ts";
import { queueMail } from "../../base/mails/mails.ts";
import { announce } from "../../base/outbox/outbox.ts";
import type { Backfill, BackfillResult } from "./backfill.ts";

/** Runs in the transaction that ends the job, which sees its client and no other tenant. */
export const followBackfill = async (tx: PoolClient, job: TakenJob, result: BackfillResult): Promise<void> => {
  const { job_id, client_id, created_by } = job;
  const { by_event_type: _, by_partner: __, ...said } = result;
  const { rule_id, rule_version: version } = result;
  const entity = `rule:${rule_id}`;
  await writeAudit(
    tx,
    { actor: "keeper", role: "keeper", request_id: job_id, ip: null },
    { action: "rule.backfill_completed", client_id, entity, after: { job_id, asked_by: created_by, ...said } },
  );
  const data = JSON.stringify({ rule_id, job_id });
  await announce(tx, [
    {
      ...{ topic: "domain.changes", client_id },
      record: { client_id, entity, type: "rule.backfill_completed", version, change_id: null, data },
    },
  ]);
  await queueEnd(tx, job, result);
};

/** Sends no mail when a token of an operator requested it. */
const queueEnd = async (tx: PoolClient, job: TakenJob, result: BackfillResult): Promise<void> => {
  const recipient = await recipientAt(tx, job.created_by);
  if (recipient === undefined) return;
  const { rows } = await tx.query<{ name: string }>(sql`
    select name from rules where rule_id = ${result.rule_id} and client_id = ${job.client_id}
    order by version desc limit 1`);
  const { from, to, evaluated, matched, applied, affected_periods } = result;
  const { trigger_recalc } = job.input as Backfill;
  const money = [result, ...result.other_currencies].map((one) => `${one.commission_delta} ${one.currency}`).join(", ");
  await asUsers(tx, () =>
    queueMail(tx, {
      ...{ happening: `backfill:${job.job_id}`, recipient: recipient.email, locale: recipient.locale },
      template: trigger_recalc ? "backfill_recalculated" : "backfill_completed",
      facts: {
        ...{ rule: rows[0]?.name ?? `${result.rule_id}`, starts_on: from, ends_on: to, evaluated, matched, applied },
        ...{ money, closed: affected_periods.filter(({ closed }) => closed).length },
        left: trigger_recalc ? result.left_in_closed_months : result.left_to_recalc,
      },
    }),
  );
};
