// What partners are written when a campaign begins to run: their link, its days, what is paid for.
import { dayOf } from "../../../domain/calendar.ts";
import { addressesOfPartners } from "../../../modules/access/recipients.ts";
import { asUsers } from "../../../modules/access/users.ts";
import { queueMails } from "../../../modules/mails/mails.ts";
import { paidFor } from "../../../modules/partners/contract-reads.ts";
import type { Work } from "../route.ts";

export interface Launched {
  readonly campaign_id: number;
  /** Of the campaign, as it is launched: a later launch is another mail. */
  readonly version: number;
  readonly campaign: string;
  readonly starts_on: string | null;
  readonly ends_on: string | null;
  /** Those that are in use now. */
  readonly links: readonly { readonly partner_id: number; readonly code: string }[];
}

/** Inside the transaction of the launch; `client` is the one whose campaigns these are. */
export const queueLaunchMails = async (
  { tx }: Work,
  client: { readonly client_id: number; readonly name: string },
  launched: readonly Launched[],
): Promise<void> => {
  const partners = [...new Set(launched.flatMap(({ links }) => links.map(({ partner_id }) => partner_id)))];
  const recipients = await addressesOfPartners(tx, partners);
  const types = await paidFor(tx, client.client_id, partners, dayOf(Date.now()));
  const mails = launched.flatMap(({ campaign_id, version, campaign, starts_on, ends_on, links }) =>
    links.flatMap(({ partner_id, code }) =>
      recipients
        .filter((one) => one.partner_id === partner_id)
        .map(({ email, locale }) => ({
          happening: `campaign-launched:${campaign_id}:${version}:${partner_id}`,
          recipient: email,
          template: "campaign_launched" as const,
          locale,
          facts: {
            ...{ campaign, name: client.name, link: `/c/${code}` },
            ...{ starts_on: starts_on ?? "", ends_on: ends_on ?? "" },
            paid_for: (types.get(partner_id) ?? []).join(", "),
          },
        })),
    ),
  );
  await asUsers(tx, () => queueMails(tx, mails));
};
