// The routes of the pixel of a client. The older routes read and change the same configuration,
// with the secret beside it.
import { regenerateSecret } from "../../../../modules/catalog/clients/regenerate-secret.ts";
import { changePixel } from "../../../../modules/catalog/pixel/change.ts";
import { openPixel } from "../../../../modules/catalog/pixel/open-pixel.ts";
import {
  changePixelWithSecret,
  pixelWithSecret,
  readPixelInClear,
} from "../../../../modules/catalog/pixel/with-secret.ts";
import * as contracts from "../../contract/clients/pixel.ts";
import { type ApiPorts, type Ask, type Route, route } from "../../route.ts";

export const routes = ({ keyring, leads }: Pick<ApiPorts, "keyring" | "leads">): readonly Route[] => [
  route(contracts.readPixel, ({ read, params }) =>
    read(async (tx, { clients }) => ({ body: await openPixel(tx, params.id, clients) })),
  ),

  route(contracts.changePixel, (ask) =>
    ask.write(
      (work) => changePixel(work, changeOf(ask)),
      (body) => ({ body }),
    ),
  ),

  route(contracts.readFormerPixel, ({ read, write, params: { id }, role }) => {
    const reply = (body: object) => ({ headers: formerly(id), body });
    return role === "admin"
      ? write((work) => readPixelInClear(work, { client_id: id, keyring }), reply)
      : read(async (tx, { clients }) => reply(await pixelWithSecret(tx, id, clients, keyring)));
  }),

  route(contracts.changeFormerPixel, (ask) =>
    ask.write(
      (work) => changePixelWithSecret(work, { ...changeOf(ask), keyring }),
      (body) => ({ headers: formerly(ask.params.id), body }),
    ),
  ),

  route(contracts.regenerateSecret, async ({ write, params: { id }, user }) => {
    const reply = await write(
      (work) => regenerateSecret(work, { client_id: id, actor_name: user.name, keyring }),
      (hmac_secret) => ({ body: { hmac_secret } }),
    );
    leads.forgetSecret(id);
    return reply;
  }),
];

const changeOf = ({ params, input, version }: Ask<typeof contracts.changePixel>) => ({
  ...{ client_id: params.id, patch: input, version },
});

/** Deprecation (RFC 9745) and sunset (RFC 8594) of the older routes. */
const formerly = (clientId: number) => ({
  Deprecation: "@1767225600",
  Sunset: "Fri, 31 Dec 2027 23:59:59 GMT",
  Link: `</api/clients/${clientId}/pipeline/pixel-config>; rel="successor-version"`,
});
