// Seeds three demonstration clients with partners, campaigns, links, contracts, rules and tokens.
// Running it again changes nothing.
import type pg from "pg";
import { demoUsers } from "../../../infra/embedded/demo-users.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import { clientSecretOf, newClientSecret, saveClientSecret } from "../../access/secrets/client-secrets.ts";
import { createToken, type NewToken, newToken } from "../../access/tokens/tokens.ts";
import { insertUser } from "../../access/users/create.ts";
import { unbindFromOthers } from "../../access/users/identity.ts";
import { listUsers, withUsers } from "../../access/users/users.ts";
import { linkAddress } from "../../base/public-hosts.ts";
import { referenceNow } from "../../catalog/clients/find-client.ts";
import { writeReference } from "../../catalog/reference/writer.ts";
import { demoClients } from "./demo-clients.ts";
import { type DemoNetwork, type DemoWebhook, demoNetwork, demoStripeSecret, demoWebhook } from "./demo-senders.ts";

/**
 * Tokens and secrets in plain text by name (`ingest:aurora-music`, `hmac:aurora-music`, `admin`,
 * `service`, `source:key`). They are made once; the caller keeps them in a file of mode 0600.
 */
export type KnownSecrets = Readonly<Record<string, string>>;

/** The prefix of the label of each demonstration token. */
export const DEMO_LABEL = "demo";

/** The client to which a network and Stripe send events. */
const CALLED = "casa-verde";

/** The part `demo` of run.json. */
export interface Demo {
  readonly clients: readonly {
    readonly id: number;
    readonly slug: string;
    readonly ingest_token: string;
    readonly hmac_secret: string;
  }[];
  readonly admin_token: string;
  readonly service_token: string;
  /**
   * One token for each partner of the links, in their order; empty when the partner has another one
   * by now.
   */
  readonly upload_tokens: readonly string[];
  readonly links: readonly {
    readonly code: string;
    readonly link_id: number;
    readonly client_id: number;
    readonly partner_id: number;
    readonly url: string;
  }[];
  /** A network with a key, a back office that signs, and Stripe's notices: all of one client. */
  readonly network: DemoNetwork;
  readonly webhook: DemoWebhook;
  readonly stripe: { readonly client_id: number; readonly secret: string };
  readonly users: readonly { readonly email: string; readonly role: string }[];
}

interface SeedOptions {
  readonly pool: pg.Pool;
  readonly known: KnownSecrets;
  /** The keys that encrypt secrets of clients. */
  readonly keyring: Keyring;
  /**
   * The origin of tracking links, e.g. https://go.example; without it `url` is only the path.
   */
  readonly trackingUrl?: string | undefined;
  /** The embedded identity provider, when it runs. */
  readonly issuer?: string | undefined;
}

/** The database and its keyring, and the secrets by name, to which new ones are added. */
interface Seeding extends Pick<SeedOptions, "pool" | "keyring"> {
  readonly secrets: Record<string, string>;
}

/**
 * Saves what is missing of the demonstration, and waits until all of it is in force. `known` are
 * the secrets of an earlier run; the returned `secrets` are those and the new ones, for the caller
 * to keep. Known tokens and secrets are saved again when the database is a new one.
 */
export const seed = async (options: SeedOptions): Promise<{ readonly demo: Demo; readonly secrets: KnownSecrets }> => {
  const { pool, keyring } = options;
  const secrets: Record<string, string> = { ...options.known };
  const seeding: Seeding = { pool, keyring, secrets };
  const clients = await seedClients(seeding);
  const clientIds = clients.map(({ id }) => id);
  const adminToken = await demoToken(seeding, "admin", { kind: "admin", label: `${DEMO_LABEL} admin` });
  const serviceToken = await demoToken(seeding, "service", { kind: "service", label: `${DEMO_LABEL} service` });
  await untilInForce(pool);
  await saveUsers(pool, clientIds);
  if (options.issuer !== undefined) await letDemoUsersIn(pool, options.issuer);
  const links = await linksOf(pool, clientIds, options.trackingUrl);
  const uploadTokens = await uploadTokensOf(seeding, links);
  const senders = await seedSenders(seeding, clients.find(({ slug }) => slug === CALLED)!.id);
  const demo: Demo = {
    clients,
    admin_token: adminToken,
    service_token: serviceToken,
    upload_tokens: uploadTokens,
    links,
    ...senders,
    users: demoUsers.map(({ email, role }) => ({ email, role })),
  };
  return { demo, secrets };
};

/** A token that an operator revoked stays revoked; the demonstration makes a new one. */
const demoToken = async ({ pool, secrets }: Seeding, name: string, wanted: NewToken): Promise<string> => {
  const kept = secrets[name] ?? newToken(wanted.kind);
  if (kept === "") return kept;
  const made = await createToken(pool, wanted, kept).catch((error: Error) => {
    if (!/was revoked/.test(error.message)) throw error;
    return createToken(pool, wanted);
  });
  secrets[name] = made.token;
  return made.token;
};

const seedClients = async (seeding: Seeding): Promise<Demo["clients"]> => {
  const { pool, keyring, secrets } = seeding;
  const clients: Demo["clients"][number][] = [];
  for (const { slug, changes } of demoClients) {
    const id = (await clientIdOf(pool, slug)) ?? (await writeReference(pool, "seed", changes)).idOf("clients", -1);
    // A secret that was regenerated meanwhile is kept and returned.
    const saved = await clientSecretOf(pool, id, keyring);
    const hmacSecret = saved ?? secrets[`hmac:${slug}`] ?? newClientSecret();
    if (saved === undefined) await saveClientSecret(pool, id, hmacSecret, keyring);
    secrets[`hmac:${slug}`] = hmacSecret;
    const wanted = { kind: "ingest" as const, label: `${DEMO_LABEL} ${slug}`, client_id: id };
    const ingestToken = await demoToken(seeding, `ingest:${slug}`, wanted);
    clients.push({ id, slug, ingest_token: ingestToken, hmac_secret: hmacSecret });
  }
  return clients;
};

/** One token for each partner of the links, in their order. */
const uploadTokensOf = async ({ pool, secrets }: Seeding, links: Demo["links"]): Promise<Demo["upload_tokens"]> => {
  const tokens: string[] = [];
  for (const partnerId of new Set(links.map(({ partner_id }) => partner_id))) {
    const name = `upload:${partnerId}`;
    const made = await uploadToken(pool, partnerId, secrets[name]);
    secrets[name] = made;
    tokens.push(made);
  }
  return tokens;
};

const seedSenders = async (
  { pool, keyring, secrets }: Seeding,
  clientId: number,
): Promise<Pick<Demo, "network" | "webhook" | "stripe">> => {
  const opening = { pool, keyring, clientId };
  const network = await demoNetwork(opening, secrets["source:key"]);
  if (network.key !== "") secrets["source:key"] = network.key;
  const webhook = await demoWebhook(opening, secrets["webhook:secret"]);
  const stripe = await demoStripeSecret(opening, secrets["stripe:secret"]);
  Object.assign(secrets, { "webhook:secret": webhook.secret, "stripe:secret": stripe });
  return { network, webhook, stripe: { client_id: clientId, secret: stripe } };
};

/** A partner has one token: one that the partner has rotated to meanwhile is kept. */
const uploadToken = async (pool: pg.Pool, partnerId: number, kept: string | undefined): Promise<string> => {
  const wanted = { kind: "upload" as const, label: `${DEMO_LABEL} partner ${partnerId}`, partner_id: partnerId };
  const made = await createToken(pool, wanted, kept).catch((error: Error) => {
    if (kept === undefined || !/was revoked/.test(error.message)) throw error;
    return { token: "" };
  });
  return made.token;
};

/**
 * Saves one user a role: the manager has all shops of the demonstration, the client's own user has
 * the first shop, and the partner is that shop's first partner.
 */
const saveUsers = async (pool: pg.Pool, clientIds: readonly number[]): Promise<void> => {
  const [first] = clientIds;
  const [partner] = (
    await transaction(
      pool,
      [first!],
      (tx) =>
        tx.query<{ partner_id: number }>(
          sql`select partner_id from partners where ${first} = any (client_ids) order by partner_id limit 1`,
        ),
      { isReadOnly: true },
    )
  ).rows;
  const clientsOf = { admin: [], viewer: [], client_manager: [...clientIds], client_user: [first!], partner: [] };
  const known = await referenceNow(pool);
  await withUsers(pool, async (tx) => {
    // A user whose role was changed keeps it, and a disabled one stays disabled.
    const there = new Set((await listUsers(tx)).map(({ email }) => email));
    for (const { email, name, role } of demoUsers.filter((user) => !there.has(user.email))) {
      const partner_id = role === "partner" ? partner!.partner_id : null;
      await insertUser(
        tx,
        { email, name, role, partner_id, client_ids: clientsOf[role], all_clients: role === "viewer" },
        known,
      );
    }
  });
};

/**
 * Lets users of the demonstration sign in through this issuer, whichever issuer they used before.
 */
export const letDemoUsersIn = (pool: pg.Pool, issuer: string): Promise<void> =>
  withUsers(pool, (tx) =>
    unbindFromOthers(
      tx,
      demoUsers.map(({ email }) => email),
      issuer,
    ),
  );

const clientIdOf = (pool: pg.Pool, slug: string): Promise<number | undefined> =>
  transaction(
    pool,
    null,
    async (tx) =>
      (await tx.query<{ client_id: number }>(sql`select client_id from clients where slug = ${slug} and version = 1`))
        .rows[0]?.client_id,
    { role: "tributary_reference", isReadOnly: true },
  );

const linksOf = (pool: pg.Pool, clientIds: readonly number[], tracking: string | undefined): Promise<Demo["links"]> =>
  transaction(
    pool,
    clientIds,
    async (tx) => {
      const { rows } = await tx.query<Omit<Demo["links"][number], "url">>(sql`
        select code, link_id, client_id, partner_id from links where version = 1 order by link_id`);
      return rows.map((row) => ({ ...row, url: linkAddress({ tracking }, row.code) }));
    },
    { isReadOnly: true },
  );

/**
 * A saved change takes effect about two seconds later; an event received earlier would be decided
 * without it.
 */
export const untilInForce = async (pool: pg.Pool): Promise<void> => {
  await pool.query(
    "select pg_sleep(greatest(0, extract(epoch from max(recorded_at) - clock_timestamp()))) from reference_changes",
  );
};
