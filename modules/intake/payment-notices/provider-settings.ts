// The signing secrets of a client's accounts at payment providers: one encrypted value for each
// provider, read again by edges.
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import type { Pool, PoolClient } from "pg";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import type { PostbackBody, PostbackFacts } from "../../../processors/admit/payments/postback.ts";
import type { RequestFacts } from "../../../processors/admit/request-terms.ts";
import { openFresh, remembering } from "../../access/secrets/fresh-answers.ts";
import { seal, unseal } from "../../access/secrets/seal.ts";

/** The settings as the provider shows them to its merchant. */
export interface ProviderSettings {
  readonly secret: string;
  /** The token that fetches the payment from the provider's API if a notice only names it. */
  readonly access_token?: string;
  /** `user:password`, if the provider sends them with each notice (RFC 7617). */
  readonly basic?: string;
  /** Maps our fields to the keys under which the shop writes them into metadata. */
  readonly metadata?: Readonly<Record<string, string>>;
}
interface SettingsKey {
  readonly clientId: number;
  readonly processor: string;
}

const placeOf = ({ clientId, processor }: SettingsKey): string => `payment_processors/${clientId}/${processor}`;

/** Replaces the saved settings; the former secret is invalid from then on. */
export const saveProvider = async (
  tx: PoolClient,
  of: SettingsKey,
  settings: ProviderSettings,
  keyring: Keyring,
): Promise<void> => {
  const sealed = seal(JSON.stringify(settings), placeOf(of), keyring);
  await tx.query("set local role tributary_secrets");
  await tx.query(sql`insert into payment_processors (client_id, processor, sealed)
    values (${of.clientId}, ${of.processor}, ${sealed})
    on conflict (client_id, processor) do update set sealed = excluded.sealed, updated_at = clock_timestamp()`);
  await tx.query("set local role none");
};

/** Returns false when nothing was saved. */
export const removeProvider = async (tx: PoolClient, { clientId, processor }: SettingsKey): Promise<boolean> => {
  await tx.query("set local role tributary_secrets");
  const { rowCount } = await tx.query(
    sql`delete from payment_processors where client_id = ${clientId} and processor = ${processor}`,
  );
  await tx.query("set local role none");
  return rowCount === 1;
};

/**
 * Returns which providers have saved settings, for the clients of the transaction; never the
 * settings.
 */
export const savedProviders = async (
  tx: PoolClient,
): Promise<readonly { readonly processor: string; readonly updated_at: number }[]> => {
  await tx.query("set local role tributary_secrets");
  const { rows } = await tx.query<{ processor: string; updated_at: number }>(
    "select processor, updated_at from payment_processors order by processor",
  );
  await tx.query("set local role none");
  return rows;
};

type SettingsByProcessor = ReadonlyMap<string, () => ProviderSettings>;

/** Settings by client and provider. They are decrypted on use, which may throw CannotUnseal. */
const saved = (
  pool: Pool,
  clients: readonly number[],
  keyring: Keyring,
): Promise<ReadonlyMap<number, SettingsByProcessor>> =>
  transaction(
    pool,
    clients,
    async (tx) => {
      const { rows } = await tx.query<{ client_id: number; processor: string; sealed: string }>(
        sql`select client_id, processor, sealed from payment_processors where client_id = any (${clients}::int[])`,
      );
      const found = new Map<number, Map<string, () => ProviderSettings>>();
      for (const { client_id: clientId, processor, sealed } of rows) {
        const place = placeOf({ clientId, processor });
        const own = found.get(clientId) ?? new Map<string, () => ProviderSettings>();
        own.set(
          processor,
          remembering(() => JSON.parse(unseal(sealed, place, keyring)) as ProviderSettings),
        );
        found.set(clientId, own);
      }
      return found;
    },
    { role: "tributary_edge", isReadOnly: true },
  );

export interface Providers {
  /** Returns undefined when none is saved. Throws CannotUnseal, and errors of Postgres. */
  readonly settingsOf: (clientId: number, processor: string) => Promise<ProviderSettings | undefined>;
  /** The next call returns settings that were queried after this one: see Fresh. */
  readonly renew: (clientId: number) => Promise<void>;
  /** Replaces the secret when a client has none. */
  readonly dummy: string;
}

export const openProviders = (pool: Pool, keyring: Keyring): Providers => {
  const fresh = openFresh((clients) => saved(pool, clients, keyring));
  return {
    settingsOf: async (clientId, processor) => (await fresh.of(clientId))?.get(processor)?.(),
    renew: fresh.renew,
    dummy: randomBytes(32).toString("hex"),
  };
};

/**
 * Builds the facts for the admission of a notice: the client, the shop's current metadata keys, and
 * whether the notice came with a password.
 */
export const withSettings = (client: RequestFacts, settings: ProviderSettings | undefined): PostbackFacts => ({
  ...client,
  ...(settings?.metadata !== undefined && { metadataKeys: settings.metadata }),
  ...(settings?.basic !== undefined && { isSenderKnown: true }),
});

/** Whether a notice bears the password of the account, if the account has one. */
export const bearsPassword = (header: string | undefined, { basic }: Pick<ProviderSettings, "basic">): boolean => {
  if (basic === undefined) return true;
  const digest = (text: string): Buffer => createHash("sha256").update(text).digest();
  const [, given = ""] = /^Basic +([A-Za-z0-9+/=]{1,2000})$/i.exec(header ?? "") ?? [];
  return timingSafeEqual(digest(Buffer.from(given, "base64").toString("utf8")), digest(basic));
};

/** Returns the facts for a notice that comes back from the dead letters. */
export const postbackFactsOf =
  ({ settingsOf }: Pick<Providers, "settingsOf">) =>
  async ({ processor }: Pick<PostbackBody, "processor">, client: RequestFacts): Promise<PostbackFacts> =>
    withSettings(client, await settingsOf(client.clientId, processor.name));
