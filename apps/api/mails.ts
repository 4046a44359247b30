// Sends the mails that wait in Postgres; every instance takes the next one.
import type { Pool } from "pg";
import type { Keyring } from "../../infra/runtime/keyring.ts";
import type { Schedule } from "../../infra/runtime/timing/schedule.ts";
import { tokenForMail } from "../../modules/access/invitations/accept.ts";
import type { Mailer } from "../../modules/base/alerts/mail.ts";
import { type Lead, writeMail } from "../../modules/base/mails/mail-text.ts";
import { type Mail, sendNextMail } from "../../modules/base/mails/mails.ts";
import { type PublicHosts, shownAddress } from "../../modules/base/public-hosts.ts";

interface MailPorts {
  readonly pool: Pool;
  readonly mailer: Pick<Mailer, "post">;
  readonly keyring: Keyring;
  readonly portal: string | undefined;
  readonly hosts: Pick<PublicHosts, "tracking">;
}

/** The mail of an invitation is sent only while the invitation is pending. */
export const mails = ({ pool, mailer, keyring, portal, hosts }: MailPorts): Schedule => {
  const sendOne = (): Promise<number> =>
    sendNextMail(pool, async (mail, tx) => {
      const { invitation_id: id } = mail.facts;
      const token = id === undefined ? undefined : await tokenForMail(tx, id, keyring);
      if (id !== undefined && token === undefined) throw new Error("the invitation is not pending any more");
      await mailer.post(writeMail(withAddress(mail, hosts), leadTo(portal, token)));
    });
  return {
    name: "mails",
    pauseMs: 500,
    work: async (isClosing) => {
      for (let sent = 0; ; sent += 1) if ((await sendOne()) === 0 || isClosing()) return sent;
    },
  };
};

/** A stored mail has the path of a link, so that a host which moves is right in mails that wait. */
const withAddress = (mail: Mail, { tracking }: MailPorts["hosts"]): Mail => {
  const { link } = mail.facts;
  return link === undefined ? mail : { ...mail, facts: { ...mail.facts, link: shownAddress(tracking, link) } };
};

/** The token is behind `#`, which a browser sends to no server, so no log has it. */
const leadTo = (portal: string | undefined, token: string | undefined): Lead => {
  if (token === undefined) return undefined;
  return portal === undefined
    ? { label: "token", value: token }
    : { label: "link", value: `${portal}/invitation#${token}` };
};
