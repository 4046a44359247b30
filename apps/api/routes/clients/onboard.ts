// The route that makes a client with all that it needs in one request.
import type { PoolClient } from "pg";
import { readClient, readSegments } from "../../../../modules/catalog/clients/client-reads.ts";
import { type OnboardedClient, onboardClient } from "../../../../modules/catalog/clients/onboard.ts";
import { snippetOf } from "../../../../modules/catalog/pixel/snippet.ts";
import { clientDetail } from "../../contract/clients/clients.ts";
import * as contracts from "../../contract/clients/onboard.ts";
import { defined } from "../../request/accept.ts";
import { formerMonthState } from "../../request/range.ts";
import { type ApiPorts, type Route, route } from "../../route.ts";

const CLIENT_FIELDS = Object.keys(clientDetail.shape);
const TOKEN_LABEL = "made with the client in the platform API";

export const routes = ({ keyring }: Pick<ApiPorts, "keyring">): readonly Route[] => [
  route(contracts.onboardClient, ({ write, body, user }) => {
    const inviter = { name: user.name, locale: user.locale, keyring };
    const input = { ...body, client: defined(body.client), pixel_config: defined(body.pixel_config) };
    return write(
      (work) => onboardClient(work, { input, inviter, token_label: TOKEN_LABEL }),
      async (made, { tx }) => {
        const { client_id, ingest_token, hmac_secret } = made;
        const shown = await shownOf(tx, made);
        return {
          body: { ...shown, ingest_token, hmac_secret },
          repeat: { ...shown, ingest_token: null, hmac_secret: null, secrets: "shown_once" },
          headers: { Location: `/api/clients/${client_id}` },
        };
      },
    );
  }),
];

/** All of it but the secrets. */
const shownOf = async (
  tx: PoolClient,
  { client_id, partners, campaigns, contractIds, warnings }: OnboardedClient,
): Promise<object> => {
  const { shown } = (await readClient(tx, client_id, [client_id], CLIENT_FIELDS))!;
  const segments = await readSegments(tx, client_id, [client_id]);
  return {
    client: { ...shown, last_event_at: null, month_state: formerMonthState(Date.now()) },
    segments: segments.map(({ code, name }) => ({ code, name })),
    partners: partners.map(({ key, id }) => ({ key, id })),
    commissions: contractIds.map((id) => ({ id })),
    campaigns: campaigns.map(({ id, name, status, links }) => ({ id, name, status, links })),
    pixel: { snippet: snippetOf(client_id) },
    warnings,
  };
};
