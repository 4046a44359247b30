// Announces that a plan was approved or reopened, mails partners their own lines, and mails the
// client's managers the total.
import { addressesOfPartners, managersOf } from "../../access/users/recipients.ts";
import { asUsers } from "../../access/users/users.ts";
import { type Mail, queueMails } from "../../base/mails/mails.ts";
import { announce } from "../../base/outbox/outbox.ts";
import type { Work } from "../../base/work.ts";
import { firstDayOf, monthText } from "../budgets/pace.ts";
import { type Changes, countsOf } from "./changes.ts";
import type { PlanKey, PlanLine } from "./plan.ts";
import { shownLine, totalsOf } from "./shown-plan.ts";

export interface AnnouncedStep {
  readonly move: "approved" | "reopened";
  readonly version: number;
  readonly currency: string;
  readonly lines: readonly PlanLine[];
  /** The changes since the version that was approved before. */
  readonly changes: Changes;
  readonly reason?: string | undefined;
  /** The names of the client and of the user. */
  readonly name: string;
  readonly actor: string;
}

/** Announces the step and queues its mails. */
export const followStep = async (work: Work, key: PlanKey, step: AnnouncedStep): Promise<void> => {
  const { client_id, year, month } = key;
  const { move, version } = step;
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
  const mails = [...(await mailsToPartners(work, key, step)), ...(await mailsToManagers(work, key, step))];
  await asUsers(work.tx, () => queueMails(work.tx, mails));
};

const happeningOf = ({ client_id, ...key }: PlanKey, { move, version }: AnnouncedStep): string =>
  `plan-${move}:${client_id}:${monthText(key)}:${version}`;

/** Each partner gets its own lines, without a rate. */
const mailsToPartners = async ({ tx }: Work, key: PlanKey, step: AnnouncedStep): Promise<readonly Mail[]> => {
  const { move, lines, currency, name, reason = "" } = step;
  const recipients = await addressesOfPartners(
    tx,
    [...new Set(lines.map(({ partner_id }) => partner_id))],
    key.client_id,
  );
  return recipients.map(({ partner_id, email, locale }) => ({
    happening: `${happeningOf(key, step)}:${partner_id}`,
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

const mailsToManagers = async ({ tx }: Work, key: PlanKey, step: AnnouncedStep): Promise<readonly Mail[]> => {
  const { move, lines, currency, name, actor, changes, reason = "" } = step;
  const { budget, target_conversions } = totalsOf(currency, lines);
  const facts = { name, actor, month: firstDayOf(key), reason, ...countsOf(changes) };
  const total = { segment: null, budget: `${budget} ${currency}`, target_conversions };
  return (await managersOf(tx, key.client_id)).map(({ email, locale }) => ({
    ...{ happening: happeningOf(key, step), recipient: email, locale },
    template: `plan_${move}_managers`,
    facts: { ...facts, lines: [total] },
  }));
};
