// Mails admins, and the managers of the client, when most of a quota is spent.
import type { Pool, PoolClient } from "pg";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import { staffOf } from "../../access/users/recipients.ts";
import { asUsers } from "../../access/users/users.ts";
import { queueMails } from "../../base/mails/mails.ts";
import { type QuotaUsage, readUsage } from "./usage.ts";

/** Per cent at which a mail goes out; the first again once less than `AGAIN` was spent between. */
const LEVELS = [100, 80] as const;
const AGAIN = 70;

/**
 * Returns the number of quotas that are announced now. The mails are queued in the transaction that
 * notes them, so each level of a rise is mailed once, by whichever keeper comes first.
 */
export const announceUsage = (pool: Pool): Promise<number> =>
  transaction(pool, null, async (tx) => {
    let announced = 0;
    for (const one of await readUsage(tx)) {
      const percent = one.share * 100;
      const level = LEVELS.find((least) => percent >= least);
      const isRisen = level !== undefined && level > (one.announced ?? 0);
      const next = isRisen ? level : percent < AGAIN ? null : one.announced;
      if (next === one.announced || !(await noteLevel(tx, one, next)) || !isRisen) continue;
      await mailStaff(tx, one, level);
      announced += 1;
    }
    return announced;
  });

/** False if another keeper was first. */
const noteLevel = async (
  tx: PoolClient,
  { client_id, side, announced }: QuotaUsage,
  level: number | null,
): Promise<boolean> => {
  await tx.query("set local role tributary_keeper");
  const { rowCount } = await tx.query(sql`
    update intake_usage set announced = ${level}
    where client_id = ${client_id} and side = ${side} and announced is not distinct from ${announced}`);
  await tx.query("set local role none");
  return rowCount === 1;
};

const mailStaff = async (
  tx: PoolClient,
  { client_id, slug, side, plan }: QuotaUsage,
  percent: number,
): Promise<void> => {
  const recipients = await staffOf(tx, client_id);
  const at = Date.now();
  const facts = { name: slug ?? "", plan, side, percent, at };
  const mails = recipients.map(({ email, locale }) => ({
    happening: `intake-quota:${client_id}:${side}:${percent}:${at}`,
    ...{ recipient: email, template: "intake_quota" as const, locale, facts },
  }));
  await asUsers(tx, () => queueMails(tx, mails));
};
