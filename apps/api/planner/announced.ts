// What follows when a plan is approved or opened again: the log hears of it, partners are written
// their own lines, and managers of the client what the whole came to.
import { addressesOfPartners, managersOf } from "../../../modules/access/users/recipients.ts";
import { asUsers } from "../../../modules/access/users/users.ts";
import { type Mail, queueMails } from "../../../modules/base/mails/mails.ts";
import { announce } from "../../../modules/base/outbox/outbox.ts";
import { firstDayOf } from "../../../modules/catalog/budgets/pace.ts";
import { type Changes, countsOf } from "../../../modules/catalog/planner/changes.ts";
import type { PlanKey, PlanLine } from "../../../modules/catalog/planner/plans.ts";
import type { Work } from "../route.ts";
import { shownLine, totalsOf } from "./shown.ts";

export interface Moved {
  readonly move: "approved" | "reopened";
  readonly version: number;
  readonly currency: string;
  readonly lines: readonly PlanLine[];
  /** Against the version that was approved before. */
  readonly changes: Changes;
  readonly reason?: string | undefined;
  /** Name of the client, and of the user. */
  readonly name: string;
  readonly actor: string;
}

/** `2026-11`, of all plans of the client. */
export const monthText = (key: PlanKey): string => firstDayOf(key).slice(0, 7);

/** Inside the transaction of the move. */
export const followMove = async (work: Work, key: PlanKey, moved: Moved): Promise<void> => {
  const { client_id, year, month } = key;
  const { move, version } = moved;
  await announce(work.tx, [
    {
      topic: "domain.changes",
      client_id,
      record: {
        ...{ client_id, entity: `planner:${monthText(key)}`, type: `planner.${move}`, version, change_id: null },
        data: JSON.stringify({ year, month, version }),
      },
    },
  ]);
  const mails = [...(await mailsToPartners(work, key, moved)), ...(await mailsToManagers(work, key, moved))];
  await asUsers(work.tx, () => queueMails(work.tx, mails));
};

const happeningOf = ({ client_id, ...key }: PlanKey, { move, version }: Moved): string =>
  `plan-${move}:${client_id}:${monthText({ client_id, ...key })}:${version}`;

/** Each its own lines, without a rate. */
const mailsToPartners = async ({ tx }: Work, key: PlanKey, moved: Moved): Promise<readonly Mail[]> => {
  const { move, lines, currency, name, reason = "" } = moved;
  const recipients = await addressesOfPartners(tx, [...new Set(lines.map(({ partner_id }) => partner_id))]);
  return recipients.map(({ partner_id, email, locale }) => ({
    happening: `${happeningOf(key, moved)}:${partner_id}`,
    recipient: email,
    template: `plan_${move}`,
    locale,
    facts: {
      ...{ name, month: firstDayOf(key), reason },
      lines: lines
        .filter((line) => line.partner_id === partner_id)
        .map((line) => {
          const { segment, budget, target_conversions } = shownLine(currency, line);
          return { segment, budget: `${budget} ${currency}`, target_conversions };
        }),
    },
  }));
};

const mailsToManagers = async ({ tx }: Work, key: PlanKey, moved: Moved): Promise<readonly Mail[]> => {
  const { move, lines, currency, name, actor, changes, reason = "" } = moved;
  const { budget, target_conversions } = totalsOf(currency, lines);
  const facts = { name, actor, month: firstDayOf(key), reason, ...countsOf(changes) };
  const total = { segment: null, budget: `${budget} ${currency}`, target_conversions };
  return (await managersOf(tx, key.client_id)).map(({ email, locale }) => ({
    ...{ happening: happeningOf(key, moved), recipient: email, locale },
    template: `plan_${move}_managers`,
    facts: { ...facts, lines: [total] },
  }));
};
