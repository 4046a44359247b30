// Further senders of a demonstration client: a network that has a key, a back office that signs,
// and a payment provider. They are made with the same functions as through the platform API.
import type pg from "pg";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import { newClientSecret } from "../../access/secrets/client-secrets.ts";
import { openProviders, saveProvider } from "../../intake/payment-notices/provider-settings.ts";
import {
  insertSource,
  replaceKey,
  type SavedSource,
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
  unsigned: null,
  unsigned_money: false,
  pull: null,
};

/** A back office that signs what it sends, in the form of the network. */
const backOffice: SourceSettings = {
  ...network,
  ...{ slug: "demo-webhook", name: "A back office that signs", kind: "generic", state: "draft", unsigned: false },
};

interface DemoSource {
  readonly id: string;
  readonly slug: string;
  readonly client_id: number;
}
/** The key is empty when it has been replaced since: no process keeps the new one in plain text. */
export type DemoNetwork = DemoSource & { readonly key: string };
export type DemoWebhook = DemoSource & { readonly secret: string };

/** `known` is the key from an earlier run. */
export const demoNetwork = (opening: Opening, known: string | undefined): Promise<DemoNetwork> =>
  saved(opening, network, async (tx, source, key_sha256) => {
    // Before, this source signed, too.
    if (source.has_secret) await updateSource(tx, source, {}, { secret: null }, opening.keyring);
    if (known === undefined || key_sha256 === null) return { key: await replaceKey(tx, source) };
    return { key: key_sha256.equals(hashOfKey(known)) ? known : "" };
  });

/** `known` is the secret from an earlier run. */
export const demoWebhook = (opening: Opening, known: string | undefined): Promise<DemoWebhook> =>
  saved(opening, backOffice, async (tx, source) => {
    const secret = known ?? newClientSecret();
    if (known === undefined) await updateSource(tx, source, { state: "active" }, { secret }, opening.keyring);
    return { secret };
  });

/** Makes the source unless it is there, and adds what opens it. */
const saved = <Credential>(
  { pool, keyring, clientId }: Opening,
  settings: SourceSettings,
  open: (tx: pg.PoolClient, source: SavedSource, key_sha256: Buffer | null) => Promise<Credential>,
): Promise<DemoSource & Credential> =>
  transaction(pool, [clientId], async (tx) => {
    const { rows } = await tx.query<{ source_id: number; key_sha256: Buffer | null }>(
      sql`select source_id, key_sha256 from sources where client_id = ${clientId} and slug = ${settings.slug}`,
    );
    const [there] = rows;
    const source =
      there === undefined
        ? await insertSource(tx, clientId, settings, {}, keyring)
        : (await sourceToChange(tx, there.source_id, [clientId]))!;
    const opened = await open(tx, source, there?.key_sha256 ?? null);
    return { id: `src_${source.source_id}`, slug: settings.slug, client_id: clientId, ...opened };
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
