// Announces launched campaigns in the log, and mails partners their link, the days of the campaign
// and what it pays for.
import { dayOf } from "../../../domain/calendar.ts";
import { addressesOfPartners } from "../../access/users/recipients.ts";
import { asUsers } from "../../access/users/users.ts";
import { queueMails } from "../../base/mails/mails.ts";
import { announce } from "../../base/outbox/outbox.ts";
import type { Work } from "../../base/work.ts";
import { paidFor } from "../contracts/contract-reads.ts";

export interface LaunchedCampaign {
  readonly campaign_id: number;
  /** The version of the launched campaign: a later launch sends another mail. */
  readonly version: number;
  readonly campaign: string;
  readonly starts_on: string | null;
  readonly ends_on: string | null;
  /** The partners that the launch names. */
  readonly partner_ids: readonly number[];
  /** Active links. */
  readonly links: readonly { readonly partner_id: number; readonly code: string }[];
}

interface Launch {
  readonly client_id: number;
  /** The name of the client. */
  readonly name: string;
  readonly change_id: number;
}

/** Announces and mails the launch of campaigns of one client. */
export const followLaunch = async (
  work: Work,
  launch: Launch,
  campaigns: readonly LaunchedCampaign[],
): Promise<void> => {
  if (campaigns.length === 0) return;
  const { client_id, change_id } = launch;
  const announced = campaigns.map(({ campaign_id, version, partner_ids }) => ({
    topic: "domain.changes" as const,
    client_id,
    record: {
      ...{ client_id, entity: `campaign:${campaign_id}`, type: "campaign.launched", version, change_id },
      data: JSON.stringify({ campaign_id, partner_ids }),
    },
  }));
  await announce(work.tx, announced);
  await queueMailsOf(work, launch, campaigns);
};

const queueMailsOf = async (
  { tx, now }: Work,
  client: Pick<Launch, "client_id" | "name">,
  campaigns: readonly LaunchedCampaign[],
): Promise<void> => {
  const partners = [...new Set(campaigns.flatMap(({ links }) => links.map(({ partner_id }) => partner_id)))];
  const recipients = await addressesOfPartners(tx, partners, client.client_id);
  const types = await paidFor(tx, client.client_id, partners, dayOf(now));
  const mails = campaigns.flatMap(({ campaign_id, version, campaign, starts_on, ends_on, links }) =>
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
