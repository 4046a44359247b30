// Mails that wait: written with what they report, sent once for each happening and recipient.
import type { Pool, PoolClient } from "pg";
import { sql, transaction } from "../../../infra/postgres/sql.ts";

type Transaction = Pick<PoolClient, "query">;
const role = "tributary_tokens";

/** What a mail says; no secret is kept in it. */
export interface MailFacts {
  readonly inviter?: string;
  /** Who did it, where it is no invitation. */
  readonly actor?: string;
  /** Of the partner or the client. */
  readonly name?: string;
  /** Clients that a partner is to work with. */
  readonly clients?: string;
  readonly invitation_id?: number;
  /** Unix milliseconds. */
  readonly expires_at?: number;
  /** When it was done, in Unix milliseconds. */
  readonly at?: number;
  readonly campaign?: string;
  /** Path of a tracking link on the host of links. */
  readonly link?: string;
  /** First and last day of the campaign (YYYY-MM-DD); empty: none. */
  readonly starts_on?: string;
  readonly ends_on?: string;
  /** Event types for which the partner has a contract; empty: none. */
  readonly paid_for?: string;
  /** First day of a planned month (YYYY-MM-DD). */
  readonly month?: string;
  /** What is planned: of a partner line by line, of a client in one sum. */
  readonly lines?: readonly PlannedFacts[];
  /** Lines of a plan against the one that was approved before. */
  readonly added?: number;
  readonly changed?: number;
  readonly removed?: number;
  /** Empty: none was given. */
  readonly reason?: string;
  /** Name of an attribution rule. */
  readonly rule?: string;
  /** Events of its backfill: read, met, and credited. */
  readonly evaluated?: number;
  readonly matched?: number;
  readonly applied?: number;
  /** Sales that it left as they were. */
  readonly left?: number;
  /** Commission that it moves, or would move, with its currency. */
  readonly money?: string;
  /** Months of partners that are closed. */
  readonly closed?: number;
}
export interface PlannedFacts {
  /** Null: all of them. */
  readonly segment: string | null;
  /** With its currency. */
  readonly budget: string;
  readonly target_conversions: number;
}
export type Template =
  | "invitation_partner"
  | "invitation_client"
  | "invitation_accepted"
  | "secret_regenerated"
  | "upload_token_rotated"
  | "campaign_launched"
  | "plan_approved"
  | "plan_approved_managers"
  | "plan_reopened"
  | "plan_reopened_managers"
  | "backfill_completed"
  | "backfill_recalculated";
export interface Mail {
  /** kind:id, e.g. invitation:7 */
  readonly happening: string;
  readonly recipient: string;
  readonly template: Template;
  readonly locale: "es" | "en";
  readonly facts: MailFacts;
}

/** Inside the transaction of what happened, under the role tributary_tokens. */
export const queueMail = (tx: Transaction, mail: Mail): Promise<void> => queueMails(tx, [mail]);

/** The same of many, in one statement. */
export const queueMails = async (tx: Transaction, mails: readonly Mail[]): Promise<void> => {
  if (mails.length === 0) return;
  await tx.query(sql`
    insert into mails (happening, recipient, template, locale, facts)
    select happening, recipient, template, locale, facts from jsonb_to_recordset(${JSON.stringify(mails)}::jsonb)
      as given (happening text, recipient text, template text, locale text, facts jsonb)
    on conflict (happening, recipient) do nothing`);
};

interface DueMail extends Mail {
  readonly mail_id: bigint;
}

/**
 * Sends at most one mail that is due and answers 1, or 0 when none is. Its row is locked meanwhile,
 * so that of two processes one sends it; a crash between the mail and its mark sends it again under
 * the same Message-ID. What a server refuses is tried again, at first after a second and then ever
 * more seldom, until a day after it was written.
 */
export const sendNextMail = (pool: Pool, send: (mail: DueMail, tx: Transaction) => Promise<void>): Promise<number> =>
  transaction(
    pool,
    null,
    async (tx) => {
      const { rows } = await tx.query<DueMail>(sql`
        select mail_id, happening, recipient, template, locale, facts from mails
        where sent_at is null and due_at <= clock_timestamp() and created_at > clock_timestamp() - interval '24 hours'
        order by due_at limit 1 for update skip locked`);
      const [mail] = rows;
      if (mail === undefined) return 0;
      const error = await send(mail, tx).then(
        () => null,
        (problem: Error) => problem.message.slice(0, 500),
      );
      await tx.query(sql`
        update mails set attempts = attempts + 1, error = ${error},
          sent_at = case when ${error}::text is null then clock_timestamp() end,
          due_at = clock_timestamp() + least(interval '1 second' * power(2, least(attempts, 10)), interval '15 minutes')
        where mail_id = ${mail.mail_id}`);
      return 1;
    },
    { role },
  );

/** Answers how many mails are forgotten: those that were written 90 days ago, sent or given up. */
export const forgetMails = (pool: Pool): Promise<number> =>
  transaction(
    pool,
    null,
    async (tx) =>
      (await tx.query("delete from mails where created_at < clock_timestamp() - interval '90 days'")).rowCount ?? 0,
    { role },
  );
