// The routes of a client's pixel. The older form is the same store and the same change, with the
// secret beside it.
import { randomUUID } from "node:crypto";
import type { PoolClient } from "pg";
import {
  clientSecretWithin,
  newClientSecret,
  saveClientSecretWithin,
} from "../../../../modules/access/secrets/client-secrets.ts";
import { staffOf } from "../../../../modules/access/users/recipients.ts";
import { asUsers } from "../../../../modules/access/users/users.ts";
import { queueMails } from "../../../../modules/base/mails/mails.ts";
import { openClient } from "../../../../modules/catalog/clients/open-client.ts";
import {
  readPixelConfig,
  type SavedPixelConfig,
  savePixelConfig,
} from "../../../../modules/catalog/pixel/pixel-config.ts";
import * as contracts from "../../contract/clients/pixel.ts";
import { defined, notFound } from "../../request/accept.ts";
import { hostsIn } from "../../request/hosts.ts";
import { type ApiPorts, type Ask, type Route, route, type Work } from "../../route.ts";

type ChangeAsk = Pick<Ask<typeof contracts.changePixel>, "params" | "body" | "checkVersion">;

export const routes = ({ keyring, leads }: Pick<ApiPorts, "keyring" | "leads">): readonly Route[] => {
  const withSecret = async (tx: PoolClient, clientId: number, config: SavedPixelConfig) => ({
    ...config,
    hmac_secret: (await clientSecretWithin(tx, clientId, keyring)) ?? null,
  });
  return [
    route(contracts.readPixel, async ({ read, params }) => ({
      body: await read((tx, { clients }) => found(tx, params.id, clients)),
    })),

    route(contracts.changePixel, (ask) => ask.write(async (work) => ({ body: await changed(work, ask) }))),

    route(contracts.readFormerPixel, async ({ read, write, params, role }) => {
      const headers = formerly(params.id);
      if (role !== "admin")
        return {
          headers,
          body: await read(async (tx, { clients }) => withSecret(tx, params.id, await found(tx, params.id, clients))),
        };
      return write(async (work) => {
        const body = await withSecret(work.tx, params.id, await found(work.tx, params.id, work.scope.clients));
        await auditRead(work, params.id, body.hmac_secret);
        return { headers, body };
      });
    }),

    route(contracts.changeFormerPixel, (ask) =>
      ask.write(async (work) => {
        const { id } = ask.params;
        const body = await withSecret(work.tx, id, await changed(work, ask));
        if (ask.role === "admin") await auditRead(work, id, body.hmac_secret);
        return { headers: formerly(id), body };
      }),
    ),

    route(contracts.regenerateSecret, async ({ write, params, user }) => {
      const reply = await write(async (work) => {
        const { tx } = work;
        const { name } = await openClient(work, params.id, ["name"]);
        const hmac_secret = newClientSecret();
        await saveClientSecretWithin(tx, params.id, hmac_secret, keyring);
        const happening = `secret-regenerated:${randomUUID()}`;
        const facts = { actor: user.name, name, at: Date.now() };
        const staff = await staffOf(tx, params.id);
        await asUsers(tx, () =>
          queueMails(
            tx,
            staff.map(({ email, locale }) => {
              return { happening, recipient: email, template: "secret_regenerated", locale, facts };
            }),
          ),
        );
        await work.audit({ action: "secret.regenerated", client_id: params.id, entity: `client:${params.id}` });
        return { body: { hmac_secret } };
      });
      leads.forgetSecret(params.id);
      return reply;
    }),
  ];
};

const found = async (tx: PoolClient, clientId: number, clients: readonly number[]): Promise<SavedPixelConfig> => {
  const config = await readPixelConfig(tx, clientId, clients);
  if (config === undefined) throw notFound();
  return config;
};

const auditRead = async ({ audit }: Work, clientId: number, secret: string | null): Promise<void> => {
  if (secret !== null) await audit({ action: "secret.read", client_id: clientId, entity: `client:${clientId}` });
};

/** RFC 9745 and RFC 8594: since when, until when, and what comes instead. */
const formerly = (clientId: number) => ({
  Deprecation: "@1767225600",
  Sunset: "Fri, 31 Dec 2027 23:59:59 GMT",
  Link: `</api/clients/${clientId}/pipeline/pixel-config>; rel="successor-version"`,
});

/** The configuration after the patch. Throws Problem 400, 404 and 409. */
const changed = async (work: Work, { params, body, checkVersion }: ChangeAsk): Promise<SavedPixelConfig> => {
  const { id: clientId } = params;
  const { version: _, allowed_domains, ...given } = body;
  const { tx, scope, change, audit } = work;
  await openClient(work, clientId);
  const before = await found(tx, clientId, scope.clients);
  checkVersion(before.version);
  const patch = {
    ...defined(given),
    ...(allowed_domains !== undefined && { allowed_domains: hostsIn(allowed_domains) }),
  };
  if (Object.keys(patch).length === 0) return before;
  const after = { ...before, ...patch, tracked_events: [...new Set(patch.tracked_events ?? before.tracked_events)] };
  const { jurisdiction, consent_default } = after;
  await savePixelConfig(tx, clientId, after);
  if (jurisdiction !== before.jurisdiction || consent_default !== before.consent_default)
    await change({ clients: [{ client_id: clientId, jurisdiction, consent_default }] });
  const saved = await found(tx, clientId, scope.clients);
  await audit({
    action: "pixel_config.updated",
    client_id: clientId,
    entity: `client:${clientId}`,
    before,
    after: saved,
  });
  return saved;
};
