// Three demo clients with partners, campaigns, links, contracts and rules, and the tokens that open
// them. Running it again changes nothing.
import type pg from "pg";
import { demoUsers } from "../../infra/embedded/demo-users.ts";
import { sql, transaction } from "../../infra/postgres/sql.ts";
import type { Keyring } from "../../infra/runtime/keyring.ts";
import { clientSecretOf, newClientSecret, saveClientSecret } from "../access/client-secrets.ts";
import { createToken, newToken, type TokenKind } from "../access/tokens.ts";
import { createUser, listUsers, unbindFromOthers, withUsers } from "../access/users.ts";
import { referenceNow } from "../reference/find-client.ts";
import type { ReferenceChanges } from "../reference/records.ts";
import { writeReference } from "../reference/writer.ts";

/**
 * Tokens and secrets in plain text by name (`ingest:aurora-music`, `hmac:aurora-music`, `admin`,
 * `service`): made once, kept by the caller in a file of mode 0600.
 */
export type KnownSecrets = Readonly<Record<string, string>>;

/** How the label of each token of the demonstration begins. */
export const DEMO_LABEL = "demo";

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
  readonly upload_tokens: readonly string[];
  readonly links: readonly {
    readonly code: string;
    readonly link_id: number;
    readonly client_id: number;
    readonly partner_id: number;
    readonly url: string;
  }[];
  readonly users: readonly { readonly email: string; readonly role: string }[];
}

/**
 * Every contract and rule holds for any sale that the pipeline takes (24 months back), whenever the
 * seed runs.
 */
const since = "2020-01-01";

/** One client of the demonstration. Ids are negative: places in the change that makes it. */
interface DemoClient {
  readonly slug: string;
  readonly changes: ReferenceChanges;
}

const purchasesOf = (partner: number) => ({
  partner_id: partner,
  client_id: -1,
  event_type: "purchase",
  effective_from: since,
});
const percent = (
  partner: number,
  rate: string,
  more: { readonly segment?: string; readonly event_type?: string } = {},
) => ({
  ...purchasesOf(partner),
  type: "percent" as const,
  rate,
  ...more,
});
const partner = (id: number, name: string, email: string, referral_code: string) => ({
  partner_id: id,
  name,
  email,
  client_ids: [-1],
  referral_code,
});
const campaign = (id: number, name: string, destination_url: string, status: "active" | "paused" = "active") => ({
  campaign_id: id,
  client_id: -1,
  name,
  status,
  destination_url,
});
const link = (id: number, code: string, campaignId: number, partnerId: number) => ({
  link_id: id,
  code,
  campaign_id: campaignId,
  partner_id: partnerId,
});

/**
 * Three shops as they could be. All names are of organisations, all addresses of the kind that
 * no client owns.
 */
const demoClients: readonly DemoClient[] = [
  {
    slug: "aurora-music",
    changes: {
      clients: [{ client_id: -1, slug: "aurora-music", name: "Aurora Music", currency: "USD" }],
      partners: [
        {
          ...partner(-1, "Indie Radio Network", "payouts@indie-radio.example", "indie-radio"),
          payout: { currency: "USD", min_amount: "25.00" },
        },
        {
          ...partner(-2, "Vinyl Collectors Guild", "office@vinyl-guild.example", "vinyl-guild"),
          payout: { currency: "USD", min_amount: "25.00" },
        },
        // Clicks of this one are credited and earn nothing: no contract was made.
        {
          ...partner(-3, "Campus Playlist", "hello@campus-playlist.example", "campus-playlist"),
          payout: { currency: "USD" },
        },
      ],
      campaigns: [
        campaign(-1, "CD catalogue", "https://shop.aurora-music.example/cds"),
        campaign(-2, "Spring vinyl", "https://shop.aurora-music.example/vinyl", "paused"),
      ],
      links: [
        link(-1, "aurora-radio", -1, -1),
        link(-2, "aurora-vinyl", -1, -2),
        link(-3, "aurora-campus", -1, -3),
        link(-4, "aurora-spring", -2, -2),
      ],
      contracts: [percent(-1, "10"), percent(-2, "8")],
      rules: [
        {
          rule_id: -1,
          client_id: -1,
          name: "CDs are sold by the radio network",
          when: { field: "props.product_id", op: "eq", value: "cd" },
          // biome-ignore lint/suspicious/noThenProperty: the wire name of what a rule does
          then: { partner_id: -1, campaign_id: -1 },
        },
      ],
    },
  },
  {
    slug: "casa-verde",
    changes: {
      clients: [{ client_id: -1, slug: "casa-verde", name: "Casa Verde", hold_days: { purchase: 15, lead_submit: 0 } }],
      partners: [
        partner(-1, "Mercado Jardín", "pagos@mercado-jardin.example", "mercado-jardin"),
        partner(-2, "Revista Hogar", "afiliados@revista-hogar.example", "revista-hogar"),
        partner(-3, "Cupones Norte", "pagos@cupones-norte.example", "cupones-norte"),
      ],
      campaigns: [
        campaign(-1, "Jardín y terraza", "https://www.casa-verde.example/jardin"),
        campaign(-2, "Liquidación de invierno", "https://www.casa-verde.example/liquidacion", "paused"),
      ],
      links: [link(-1, "verde-jardin", -1, -1), link(-2, "verde-hogar", -1, -2), link(-3, "verde-invierno", -2, -2)],
      contracts: [percent(-1, "12"), percent(-2, "6.5"), percent(-3, "4")],
      rules: [
        {
          rule_id: -1,
          client_id: -1,
          name: "Cupones VERDE",
          when: { field: "coupon", op: "starts_with", value: "VERDE" },
          // biome-ignore lint/suspicious/noThenProperty: the wire name of what a rule does
          then: { partner_id: -3, campaign_id: -1 },
        },
      ],
    },
  },
  {
    slug: "viento-travel",
    changes: {
      clients: [
        { client_id: -1, slug: "viento-travel", name: "Viento Travel", attribution: { click_window_days: 60 } },
      ],
      segments: [
        { client_id: -1, code: "VUELOS", name: "Vuelos" },
        { client_id: -1, code: "HOTELES", name: "Hoteles" },
        { client_id: -1, code: "MX", name: "México" },
      ],
      partners: [
        partner(-1, "Rutas del Sur", "comisiones@rutas-del-sur.example", "rutas-del-sur"),
        partner(-2, "Guía Mochilera", "pagos@guia-mochilera.example", "guia-mochilera"),
        // As with Campus Playlist: credited, but without a contract.
        partner(-3, "Club Millas", "alianzas@club-millas.example", "club-millas"),
      ],
      campaigns: [
        campaign(-1, "Escapadas", "https://www.viento-travel.example/escapadas"),
        campaign(-2, "Semana Santa", "https://www.viento-travel.example/semana-santa", "paused"),
      ],
      links: [
        link(-1, "viento-sur", -1, -1),
        link(-2, "viento-mochila", -1, -2),
        link(-3, "viento-millas", -1, -3),
        link(-4, "viento-santa", -2, -1),
      ],
      contracts: [
        percent(-1, "3"),
        percent(-1, "5", { segment: "VUELOS" }),
        percent(-1, "9.25", { segment: "HOTELES" }),
        // The more this one sells in a month, the more of it is paid, and what a traveller's
        // account renews pays for a year.
        {
          ...purchasesOf(-2),
          type: "tiered",
          tiers: [
            { from: 0, rate: "7" },
            { from: "50000.00", rate: "9" },
          ],
        },
        { ...purchasesOf(-2), event_type: "renewal", type: "recurring", rate: "7", months: 12 },
      ],
      rules: [
        {
          rule_id: -1,
          client_id: -1,
          name: "Campaña de correo de Guía Mochilera",
          when: {
            all: [
              { field: "t", op: "eq", value: "purchase" },
              { field: "url.query.utm_source", op: "eq", value: "guia-mochilera" },
            ],
          },
          // biome-ignore lint/suspicious/noThenProperty: the wire name of what a rule does
          then: { partner_id: -2, campaign_id: -1 },
        },
      ],
    },
  },
];

/**
 * Saves what is missing of the demonstration, and waits until all of it is in force. `known` are
 * the secrets of an earlier run; `secrets` of the answer are those and the new ones, for the caller
 * to keep. Tokens and secrets known from before are saved again when the database was made again.
 */
export const seed = async (options: {
  readonly pool: pg.Pool;
  readonly known: KnownSecrets;
  /** What secrets of clients are sealed under. */
  readonly keyring: Keyring;
  /**
   * Where tracking links are served, e.g. https://go.example; without it `url` is the path alone.
   */
  readonly trackingUrl?: string;
  /** Of the embedded identity provider, when it runs. */
  readonly issuer?: string | undefined;
}): Promise<{ readonly demo: Demo; readonly secrets: KnownSecrets }> => {
  const { pool, keyring } = options;
  const secrets: Record<string, string> = { ...options.known };
  const token = async (name: string, kind: TokenKind, label: string, clientId?: number): Promise<string> => {
    const kept = secrets[name] ?? newToken(kind);
    const wanted = { kind, label, ...(clientId === undefined ? {} : { client_id: clientId }) };
    // A token that an operator revoked stays revoked; the demonstration goes on with a new one.
    const made = await createToken(pool, wanted, kept).catch((error: Error) => {
      if (!/was revoked/.test(error.message)) throw error;
      return createToken(pool, wanted);
    });
    secrets[name] = made.token;
    return made.token;
  };

  const clients: Demo["clients"][number][] = [];
  for (const { slug, changes } of demoClients) {
    const id = (await clientIdOf(pool, slug)) ?? (await writeReference(pool, "seed", changes)).idOf("clients", -1);
    // One that was regenerated since stands: the answer says which.
    const saved = await clientSecretOf(pool, id, keyring);
    const hmacSecret = saved ?? secrets[`hmac:${slug}`] ?? newClientSecret();
    if (saved === undefined) await saveClientSecret(pool, id, hmacSecret, keyring);
    secrets[`hmac:${slug}`] = hmacSecret;
    clients.push({
      id,
      slug,
      ingest_token: await token(`ingest:${slug}`, "ingest", `${DEMO_LABEL} ${slug}`, id),
      hmac_secret: hmacSecret,
    });
  }
  const adminToken = await token("admin", "admin", `${DEMO_LABEL} admin`);
  const serviceToken = await token("service", "service", `${DEMO_LABEL} service`);
  await untilInForce(pool);
  await saveUsers(
    pool,
    clients.map(({ id }) => id),
  );
  if (options.issuer !== undefined) await letDemoUsersIn(pool, options.issuer);
  const demo: Demo = {
    clients,
    admin_token: adminToken,
    service_token: serviceToken,
    upload_tokens: [],
    links: await linksOf(
      pool,
      clients.map(({ id }) => id),
      options.trackingUrl ?? "",
    ),
    users: demoUsers.map(({ email, role }) => ({ email, role })),
  };
  return { demo, secrets };
};

/**
 * One a role: the manager has all shops of the demonstration, the client's own user the first, the
 * partner is that shop's first.
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
    // One that was given another role since keeps it, and one that was disabled stays so.
    const there = new Set((await listUsers(tx)).map(({ email }) => email));
    for (const { email, name, role } of demoUsers.filter((user) => !there.has(user.email))) {
      const partner_id = role === "partner" ? partner!.partner_id : null;
      await createUser(tx, { email, name, role, partner_id, client_ids: clientsOf[role] }, known);
    }
  });
};

/** People of the demonstration come in through this issuer, whatever they came through before. */
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

const linksOf = (pool: pg.Pool, clientIds: readonly number[], trackingUrl: string): Promise<Demo["links"]> =>
  transaction(
    pool,
    clientIds,
    async (tx) => {
      const { rows } = await tx.query<Omit<Demo["links"][number], "url">>(sql`
        select code, link_id, client_id, partner_id from links where version = 1 order by link_id`);
      return rows.map((row) => ({ ...row, url: `${trackingUrl.replace(/\/$/, "")}/c/${row.code}` }));
    },
    { isReadOnly: true },
  );

/**
 * A saved change takes effect about two seconds later: an event that is received before would be
 * decided without it.
 */
const untilInForce = async (pool: pg.Pool): Promise<void> => {
  await pool.query(
    "select pg_sleep(greatest(0, extract(epoch from max(recorded_at) - clock_timestamp()))) from reference_changes",
  );
};
