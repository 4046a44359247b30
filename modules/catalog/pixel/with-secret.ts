// The configuration of a pixel with the signing secret of its client, as the older form has it. An
// admin is shown the secret in clear: the audit keeps every such read.
import type { PoolClient } from "pg";
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import { clientSecretWithin } from "../../access/secrets/client-secrets.ts";
import type { Work } from "../../base/work.ts";
import { entityOf } from "../clients/open-client.ts";
import { changePixel, type PixelChange } from "./change.ts";
import { openPixel } from "./open-pixel.ts";
import type { SavedPixelConfig } from "./pixel-config.ts";

export interface PixelWithSecret extends SavedPixelConfig {
  /** Null: the client has none yet. */
  readonly hmac_secret: string | null;
}

/** For those who are shown the secret masked, or not at all. Throws RefusalError: missing. */
export const pixelWithSecret = async (
  tx: PoolClient,
  clientId: number,
  clients: readonly number[],
  keyring: Keyring,
): Promise<PixelWithSecret> => {
  const config = await openPixel(tx, clientId, clients);
  return { ...config, hmac_secret: (await clientSecretWithin(tx, clientId, keyring)) ?? null };
};

/** The same in clear. Throws RefusalError: missing. */
export const readPixelInClear = async (
  work: Work,
  { client_id, keyring }: { readonly client_id: number; readonly keyring: Keyring },
): Promise<PixelWithSecret> => {
  const pixel = await pixelWithSecret(work.tx, client_id, work.scope.clients, keyring);
  if (pixel.hmac_secret !== null) await work.audit({ action: "secret.read", client_id, entity: entityOf(client_id) });
  return pixel;
};

/** Changes the pixel, and answers it with the secret. Throws what `changePixel` throws. */
export const changePixelWithSecret = async (
  work: Work,
  { keyring, ...change }: PixelChange & { readonly keyring: Keyring },
): Promise<PixelWithSecret> => {
  const { client_id } = change;
  await changePixel(work, change);
  return work.act.role === "admin"
    ? readPixelInClear(work, { client_id, keyring })
    : pixelWithSecret(work.tx, client_id, work.scope.clients, keyring);
};
