// An onboarded client as its first answer shows it, without its secrets.
import type { PoolClient } from "pg";
import { linkAddress, type PublicHosts } from "../../../base/public-hosts.ts";
import { formerMonthState } from "../../../figures/reads/stamp.ts";
import { snippetOf } from "../../pixel/snippet.ts";
import { clientOf, readSegments } from "../client-reads.ts";
import type { OnboardedClient } from "../onboard.ts";

/** `fields` are the visible fields of the client itself, `hosts` where people reach the others. */
export const shownClient = async (
  tx: PoolClient,
  { client_id, partners, campaigns, contractIds, warnings }: OnboardedClient,
  { fields, hosts }: { readonly fields: readonly string[]; readonly hosts: PublicHosts },
): Promise<object> => {
  const { shown } = await clientOf(tx, client_id, [client_id], fields);
  const segments = await readSegments(tx, client_id, [client_id]);
  return {
    client: { ...shown, last_event_at: null, month_state: formerMonthState(Date.now()) },
    segments: segments.map(({ code, name }) => ({ code, name })),
    partners: partners.map(({ key, id }) => ({ key, id })),
    commissions: contractIds.map((id) => ({ id })),
    campaigns: campaigns.map(({ id, name, status, links }) => ({
      ...{ id, name, status },
      links: links.map((link) => ({ ...link, url: linkAddress(hosts, link.code) })),
    })),
    pixel: { snippet: snippetOf(client_id, hosts.pixel) },
    warnings,
  };
};
