// The queue of mails. A mail is written in the transaction of the event that it reports, and sent
// once to each recipient.
import type { Pool, PoolClient } from "pg";
import { sql, transaction } from "../../../infra/postgres/sql.ts";

type Transaction = Pick<PoolClient, "query">;
const role = "tributary_tokens";

/** The facts that a mail states; none of them is secret. */
export interface MailFacts {
  readonly inviter?: string;
  /** The user who made the change, except for invitations. */
  readonly actor?: string;
  /** The name of the partner or client. */
  readonly name?: string;
  /** Names of the clients for which a partner is to work. */
  readonly clients?: string;
  readonly invitation_id?: number;
  /** Unix milliseconds. */
  readonly expires_at?: number;
  /** The time of the event in Unix milliseconds. */
  readonly at?: number;
  readonly campaign?: string;
  /** The path of a tracking link; the mail that is sent has the address of its host before it. */
  readonly link?: string;
  /** First and last day of the campaign (YYYY-MM-DD); empty: none. */
  readonly starts_on?: string;
  readonly ends_on?: string;
  /** Event types for which the partner has a contract; empty: none. */
  readonly paid_for?: string;
  /** The first day of a planned month (YYYY-MM-DD). */
  readonly month?: string;
  /** The plan: line by line for a partner, as one sum for a client. */
  readonly lines?: readonly PlannedFacts[];
  /** Changed lines compared with the previously approved plan. */
  readonly added?: number;
  readonly changed?: number;
  readonly removed?: number;
  /** Empty: no reason was given. */
  readonly reason?: string;
  /** The name of an attribution rule. */
  readonly rule?: string;
  /** Numbers of events in its backfill: evaluated, matched and credited. */
  readonly evaluated?: number;
  readonly matched?: number;
  readonly applied?: number;
  /** The number of sales that it left unchanged. */
  readonly left?: number;
  /** The commission that it moves or would move, with its currency. */
  readonly money?: string;
  /** The number of closed months of partners. */
  readonly closed?: number;
  /** The plan whose quota is spent to so many per cent, and which of its two sides. */
  readonly plan?: string;
  readonly percent?: number;
  readonly side?: "open" | "signed";
}
export interface PlannedFacts {
  /** Null: all segments. */
  readonly segment: string | null;
  /** The amount with its currency. */
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
  | "backfill_recalculated"
  | "intake_quota";
export interface Mail {
  /** kind:id, e.g. invitation:7 */
  readonly happening: string;
  readonly recipient: string;
  readonly template: Template;
  readonly locale: "es" | "en";
  readonly facts: MailFacts;
}

/** Runs inside the transaction of the reported event, in the role tributary_tokens. */
export const queueMail = (tx: Transaction, mail: Mail): Promise<void> => queueMails(tx, [mail]);

/** Does the same for many mails in one statement. */
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
 * Sends at most one due mail. Returns 1, or 0 if none is due. The row is locked meanwhile, so that
 * only one of two processes sends it. A crash between the mail and its mark sends it again with the
 * same Message-ID. A mail that the server refuses is tried again, first after a second and then
 * less and less often, until a day after it was written.
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

/**
 * Deletes mails that were written more than 90 days ago, whether sent or given up, and returns
 * their number.
 */
export const forgetMails = (pool: Pool): Promise<number> =>
  transaction(
    pool,
    null,
    async (tx) =>
      (await tx.query("delete from mails where created_at < clock_timestamp() - interval '90 days'")).rowCount ?? 0,
    { role },
  );
