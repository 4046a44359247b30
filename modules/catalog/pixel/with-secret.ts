// The pixel settings with the client's signing secret, as in the older API. An admin sees the
// secret in clear text, and the audit records every such read.
import type { PoolClient } from "pg";
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import { clientSecretWithin } from "../../access/secrets/client-secrets.ts";
import type { Work } from "../../base/work.ts";
import { entityOf } from "../clients/open-client.ts";
import { changePixel, type PixelChange } from "./change.ts";
import { openPixel } from "./open-pixel.ts";
import type { SavedPixelConfig } from "./pixel-config.ts";

export interface PixelWithSecret extends SavedPixelConfig {
  /** Null: the client has no secret yet. */
  readonly hmac_secret: string | null;
}

/**
 * The configuration for users who see the secret masked or not at all. Throws RefusalError:
 * missing.
 */
export const pixelWithSecret = async (
  tx: PoolClient,
  clientId: number,
  clients: readonly number[],
  keyring: Keyring,
): Promise<PixelWithSecret> => {
  const config = await openPixel(tx, clientId, clients);
  return { ...config, hmac_secret: (await clientSecretWithin(tx, clientId, keyring)) ?? null };
};

/** Does the same with the secret in clear text. Throws RefusalError: missing. */
export const readPixelInClear = async (
  work: Work,
  { client_id, keyring }: { readonly client_id: number; readonly keyring: Keyring },
): Promise<PixelWithSecret> => {
  const pixel = await pixelWithSecret(work.tx, client_id, work.scope.clients, keyring);
  if (pixel.hmac_secret !== null) await work.audit({ action: "secret.read", client_id, entity: entityOf(client_id) });
  return pixel;
};

/** Changes the pixel and returns it with the secret. Throws what `changePixel` throws. */
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
