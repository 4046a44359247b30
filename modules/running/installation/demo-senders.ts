// Further senders of a demonstration client: a network with its mapping, and a payment provider.
// They are made with the same functions as through the platform API.
import type pg from "pg";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import { newClientSecret } from "../../access/secrets/client-secrets.ts";
import { openProviders, saveProvider } from "../../intake/payment-notices/provider-settings.ts";
import {
  insertSource,
  replaceKey,
  type SourceSettings,
  sourceToChange,
  updateSource,
} from "../../intake/sources/save-source.ts";
import { hashOfKey } from "../../intake/sources/source-picture.ts";

interface Opening {
  readonly pool: pg.Pool;
  readonly keyring: Keyring;
  readonly clientId: number;
}

/** The network has its own field names, which the mapping translates. */
const network: SourceSettings = {
  ...{ slug: "demo-network", name: "A network that calls", kind: "postback_network", mode: null, state: "active" },
  mapping: {
    ...{ event_name: "event", dedup_key: "id", order_id: "sale.order", partner_param: "sub_id" },
    ...{ value: "sale.amount", currency: "/sale/currency" },
  },
  constants: {},
  event_names: { conversion: "purchase" },
  allow_ips: [],
  pull: null,
};

export interface DemoSource {
  readonly id: string;
  readonly slug: string;
  readonly client_id: number;
  /** Empty when it has been replaced since: no process keeps the new one in plain text. */
  readonly key: string;
  readonly secret: string;
}

/** `known` are the key and the secret from an earlier run. */
export const demoSource = (
  { pool, keyring, clientId }: Opening,
  known: { readonly key: string | undefined; readonly secret: string | undefined },
): Promise<DemoSource> =>
  transaction(pool, [clientId], async (tx) => {
    const { rows } = await tx.query<{ source_id: number; key_sha256: Buffer | null }>(
      sql`select source_id, key_sha256 from sources where client_id = ${clientId} and slug = ${network.slug}`,
    );
    const secret = known.secret ?? newClientSecret();
    const shown = (sourceId: number, key: string): DemoSource => ({
      ...{ id: `src_${sourceId}`, slug: network.slug, client_id: clientId, key, secret },
    });
    const [there] = rows;
    if (there !== undefined && known.key !== undefined && known.secret !== undefined) {
      const isOurs = there.key_sha256?.equals(hashOfKey(known.key)) === true;
      return shown(there.source_id, isOurs ? known.key : "");
    }
    const source =
      there === undefined
        ? await insertSource(tx, clientId, network, { secret }, keyring)
        : // A run that died before its answer was kept.
          await updateSource(tx, (await sourceToChange(tx, there.source_id, [clientId]))!, {}, { secret }, keyring);
    return shown(source.source_id, await replaceKey(tx, source));
  });

/** The secret that signs the client's Stripe notices. A secret that was saved meanwhile is kept. */
export const demoStripeSecret = async (
  { pool, keyring, clientId }: Opening,
  known: string | undefined,
): Promise<string> => {
  const saved = await openProviders(pool, keyring).settingsOf(clientId, "stripe");
  if (saved !== undefined) return saved.secret;
  const secret = known ?? `whsec_${newClientSecret()}`;
  await transaction(pool, [clientId], (tx) => saveProvider(tx, { clientId, processor: "stripe" }, { secret }, keyring));
  return secret;
};
