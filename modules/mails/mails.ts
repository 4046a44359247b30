// Mails that wait: written with what they report, sent once for each happening and recipient.
import type { Pool, PoolClient } from "pg";
import { sql, transaction } from "../../infra/postgres/sql.ts";

type Transaction = Pick<PoolClient, "query">;
const role = "tributary_tokens";

/** What a mail says; no secret is kept in it. */
export interface MailFacts {
  readonly inviter?: string;
  /** Of the partner or the client. */
  readonly name?: string;
  /** Clients that a partner is to work with. */
  readonly clients?: string;
  readonly invitation_id?: number;
  /** Unix milliseconds. */
  readonly expires_at?: number;
}
export type Template = "invitation_partner" | "invitation_client" | "invitation_accepted";
export interface Mail {
  /** kind:id, e.g. invitation:7 */
  readonly happening: string;
  readonly recipient: string;
  readonly template: Template;
  readonly locale: "es" | "en";
  readonly facts: MailFacts;
}

/** Inside the transaction of what happened, under the role tributary_tokens. */
export const queueMail = async (tx: Transaction, mail: Mail): Promise<void> => {
  await tx.query(sql`
    insert into mails (happening, recipient, template, locale, facts)
    values (${mail.happening}, ${mail.recipient}, ${mail.template}, ${mail.locale},
      ${JSON.stringify(mail.facts)}::jsonb)
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
