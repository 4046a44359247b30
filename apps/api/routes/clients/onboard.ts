// The route that onboards a client with partners, campaigns and pixel in one request.
import { type OnboardedClient, onboardClient } from "../../../../modules/catalog/clients/onboard.ts";
import { shownClient } from "../../../../modules/catalog/clients/onboarding/shown-client.ts";
import { clientDetail } from "../../contract/clients/clients.ts";
import * as contracts from "../../contract/clients/onboard.ts";
import { inputOf } from "../../request/accept.ts";
import { type ApiPorts, type Reply, type Route, route } from "../../route.ts";

const CLIENT_FIELDS = Object.keys(clientDetail.shape);
const TOKEN_LABEL = "made with the client in the platform API";

export const routes = ({ keyring, hosts }: Pick<ApiPorts, "keyring" | "hosts">): readonly Route[] => [
  route(contracts.onboardClient, ({ write, body, user: { name, locale } }) => {
    const input = { ...body, client: inputOf(body.client), pixel_config: inputOf(body.pixel_config) };
    return write(
      (work) => onboardClient(work, { input, inviter: { name, locale, keyring }, token_label: TOKEN_LABEL }),
      async (made, { tx }) => replyOf(made, await shownClient(tx, made, { fields: CLIENT_FIELDS, hosts })),
    );
  }),
];

/** The secrets are shown once; a repeat of the request is answered without them. */
const replyOf = ({ client_id, ingest_token, hmac_secret }: OnboardedClient, shown: object): Reply => ({
  body: { ...shown, ingest_token, hmac_secret },
  repeat: { ...shown, ingest_token: null, hmac_secret: null, secrets: "shown_once" },
  headers: { Location: `/api/clients/${client_id}` },
});
