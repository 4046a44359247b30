// Two tenants with texts and amounts that name their owner, users who may see some of them, and a
// platform API on its own database. Each value in an answer shows which tenant it came from.
import { randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import { monthOf } from "../../domain/calendar.ts";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { openObjects } from "../../infra/objects/open.ts";
import { sql } from "../../infra/postgres/sql.ts";
import { createToken } from "../../modules/access/tokens/tokens.ts";
import { storeFile } from "../../modules/intake/imports/import-file.ts";
import { type RunningApi, startApi } from "./api.ts";
import { type Answer, asker } from "./ask.ts";
import { type FreshDatabase, freshDatabase } from "./fresh-database.ts";
import type { Rows } from "./from-contract.ts";
import { owe, sell } from "./owe.ts";
import { signatureOf } from "./push.ts";
import { sharedStack } from "./shared-stack.ts";

/** The kind of information that a text or an amount gives away. */
type Kind = "client" | "campaign" | "partner" | "mail" | "revenue" | "commission";

/** Amounts of a tenant are multiples of its own primes, so their sums are multiples too. */
interface Tenant {
  readonly tag: string;
  readonly revenue: bigint;
  readonly commission: bigint;
}
const tenants = {
  a: { tag: "qza", revenue: 1_000_003n, commission: 1_000_033n },
  b: { tag: "qzb", revenue: 1_000_037n, commission: 1_000_039n },
  /** The second partner of tenant a. */
  a2: { tag: "qzc", revenue: 1_000_081n, commission: 1_000_099n },
} satisfies Record<string, Tenant>;
export type Owner = keyof typeof tenants;
export const owners = Object.keys(tenants) as readonly Owner[];

const textOf = (owner: Owner, kind: Kind): string => `${tenants[owner].tag}${kind}`;

/** A user, and the kinds of information that it may see of each owner. */
export interface Person {
  readonly name: string;
  readonly role: "admin" | "client_manager" | "partner" | "client_user" | "viewer";
  /** Owners whose rows the user may see. */
  readonly rows: readonly Owner[];
  readonly sees: Readonly<Partial<Record<Owner, readonly Kind[]>>>;
}
const all: readonly Kind[] = ["client", "campaign", "partner", "mail", "revenue", "commission"];
const read = all.filter((kind) => kind !== "mail");
const ofPartner: readonly Kind[] = ["client", "campaign", "partner", "mail", "commission"];
const ofClient: readonly Kind[] = ["client", "mail", "revenue"];
const ofA: readonly Owner[] = ["a", "a2"];

export const people: readonly Person[] = [
  { name: "admin", role: "admin", rows: owners, sees: { a: all, b: all, a2: all } },
  { name: "manager-a", role: "client_manager", rows: ofA, sees: { a: all, a2: all } },
  { name: "manager-b", role: "client_manager", rows: ["b"], sees: { b: all } },
  { name: "partner-a", role: "partner", rows: ["a"], sees: { a: ofPartner } },
  { name: "partner-a2", role: "partner", rows: ["a2"], sees: { a: ["client", "campaign"], a2: ofPartner } },
  { name: "partner-b", role: "partner", rows: ["b"], sees: { b: ofPartner } },
  { name: "client-a", role: "client_user", rows: ofA, sees: { a: ofClient, a2: ["revenue"] } },
  { name: "client-b", role: "client_user", rows: ["b"], sees: { b: ofClient } },
  { name: "viewer-all", role: "viewer", rows: owners, sees: { a: read, b: read, a2: read } },
  { name: "viewer-a", role: "viewer", rows: ofA, sees: { a: read, a2: read } },
];

export interface CanaryWorld {
  readonly database: FreshDatabase;
  readonly running: RunningApi;
  readonly rows: Readonly<Record<Owner, Rows>>;
  /** Tokens of several users for each person, because one user may send 600 requests a minute. */
  readonly tokens: Readonly<Record<string, readonly string[]>>;
  /** Tokens that are invalid for a user's requests, by the reason. */
  readonly badTokens: Readonly<Record<string, string | undefined>>;
  /** Secrets that were shown once, when they were made, and must never be shown again. */
  readonly secrets: readonly string[];
  readonly ask: ReturnType<typeof asker>;
  /** A hash of every row that a request could change, for comparison. */
  readonly state: () => Promise<string>;
  readonly close: () => Promise<void>;
}

/** Describes everything in an answer that this user must not see. */
export const leaksIn = (person: Person | undefined, { text, headers }: Answer): readonly string[] => {
  const shown = `${text}\n${[...headers].join("\n")}`.toLowerCase();
  const numbers = [...shown.matchAll(/(?<![\w.-])-?\d[\d]*(?:\.\d+)?(?![\w.-])/g)].map(([number]) =>
    BigInt(number!.replace(/[-.]/g, "")),
  );
  return owners.flatMap((owner) => {
    const allowed = person?.sees[owner] ?? [];
    return all
      .filter((kind) => !allowed.includes(kind))
      .flatMap((kind) => {
        const prime = kind === "revenue" || kind === "commission" ? tenants[owner][kind] : undefined;
        const amount = prime && numbers.find((number) => number > 0n && number % prime === 0n);
        if (amount) return [`${kind} of ${owner}: ${amount}`];
        return shown.includes(textOf(owner, kind)) ? [`${kind} of ${owner}`] : [];
      });
  });
};

const PEOPLE = "canary.example";
const money = (minor: bigint): string => `${minor / 100n}.${String(minor % 100n).padStart(2, "0")}`;

/**
 * Moves the ids of this database to a range of its own: all databases of a run share one Redis,
 * which limits requests by id.
 */
const moveIds = async (owner: pg.Pool): Promise<void> => {
  const base = 100_000_000 + Math.floor(Math.random() * 1_000_000) * 1_000;
  const { rows } = await owner.query<{ name: string }>(
    `select format('%I.%I', schemaname, sequencename) as name from pg_sequences
     where schemaname = 'public' and sequencename in ('client_ids', 'partner_ids', 'campaign_ids', 'link_ids',
       'contract_ids', 'rule_ids', 'users_user_id_seq', 'tokens_token_id_seq')`,
  );
  for (const { name } of rows) await owner.query(sql`select setval(${name}::regclass, ${base})`);
};

const saveUser = async (
  owner: pg.Pool,
  { name, role }: Pick<Person, "name" | "role">,
  more: { readonly partner?: number; readonly clients?: readonly number[] } = {},
): Promise<void> => {
  await owner.query(sql`
    insert into users (email, name, role, partner_id, client_ids, all_clients, locale)
    values (${`${name}@${PEOPLE}`}, ${name}, ${role}, ${more.partner ?? null}, ${more.clients ?? []},
      ${role === "viewer" && (more.clients ?? []).length === 0}, 'en')`);
};

type Post = (
  path: string,
  body?: unknown,
  method?: string,
  headers?: Readonly<Record<string, string>>,
) => Promise<Record<string, any>>;

/** Stores data for dashboards: a sale of today and a click, by minute, hour and day. */
const count = async (owner: Owner, { client, partner, campaign }: Omit<Rows, "ids">): Promise<void> => {
  const at = Math.floor(Date.now() / 1_000 / DAY_SEC) * DAY_SEC;
  const values = (["minute", "hour", "day"] as const).flatMap((grain) =>
    ["purchase", "click"].map((event_type) => ({
      ...{ client_id: client, grain, bucket: at, event_type, source: "pixel", partner_id: partner, version: 1 },
      ...{ campaign_id: campaign, country: "MX", device: "desktop", currency: "MXN", events: 3 },
      ...(event_type === "click" ? { clicks: 3 } : { conversions: 3 }),
      revenue_minor: String(event_type === "click" ? 0n : tenants[owner].revenue * 13n),
    })),
  );
  const clickhouse = openClickhouse(sharedStack().env.CLICKHOUSE_URL!);
  await clickhouse.insert({ table: "rollups", values, format: "JSONEachRow" }).finally(() => clickhouse.close());
};
const DAY_SEC = 86_400;

/** Makes the records of an owner, through the API where it can make them. */
const fill = async (
  { post, database, secrets }: { readonly post: Post; readonly database: FreshDatabase; readonly secrets: string[] },
  owner: Owner,
  sharedClient?: number,
): Promise<Rows> => {
  const { tag, revenue, commission } = tenants[owner];
  const text = (kind: Kind): string => textOf(owner, kind);
  const stamp = Date.now().toString(36);
  const email = `${text("mail")}@people.example`;
  const client =
    sharedClient ??
    ((await post("/api/clients", { name: text("client"), slug: `${text("client")}-${stamp}` })).id as number);
  if (sharedClient === undefined) {
    await post(`/api/clients/${client}/segments`, { code: "QZ", name: text("client") });
    const pixel = { allowed_domains: [`${text("client")}.example`] };
    await post(`/api/clients/${client}/pipeline/pixel-config`, pixel);
    const { hmac_secret } = await post(`/api/clients/${client}/pixel-config/regenerate-secret`);
    secrets.push(hmac_secret);
    const lead = JSON.stringify({
      ...{ client_lead_id: text("client"), first_name: text("client"), email: `${text("mail")}-l@people.example` },
      ...{ product: text("client"), lead_value: money(revenue * 3n), further: text("client") },
    });
    const signature = { "x-svc-signature": signatureOf(hmac_secret, lead) };
    await post(`/api/pixel/lead-submission?client_id=${client}`, lead, "POST", signature);
  }
  const partner = (
    await post("/api/partners", {
      ...{ name: text("partner"), email, client_ids: [client], referral_code: `${text("partner")}-${stamp}` },
      payout: { currency: "MXN", min_amount: money(commission) },
    })
  ).id as number;
  const campaign = (
    await post("/api/campaigns", {
      ...{ client_id: client, name: text("campaign") },
      destination_url: `https://${sharedClient === undefined ? text("client") : textOf("a", "client")}.example/`,
    })
  ).id as number;
  const day = new Date().toISOString().slice(0, 7);
  const [year, month] = day.split("-").map(Number);
  await post(`/api/campaigns/${campaign}/launch`, {
    partners: [partner],
    commissions: [
      {
        ...{ partner_id: partner, event_type: "purchase", type: "flat", amount: money(commission * 3n) },
        effective_from: `${day}-01`,
      },
    ],
    budgets: sharedClient === undefined ? [{ year, month, amount: money(revenue * 5n) }] : [],
  });
  const invited = await post("/api/invitations", { email: `${text("mail")}-i@people.example`, partner_id: partner });
  const ofClient = await post("/api/client-invitations", {
    ...{ email: `${text("mail")}-c@people.example`, client_id: client },
  });
  const token = await post("/api/tokens", { kind: "ingest", client_id: client, label: text("client") });
  const upload = await post("/api/tokens", { kind: "upload", partner_id: partner, label: text("partner") });
  secrets.push(token.token, upload.token);
  const rule = await post("/api/rules", {
    ...{ client_id: client, name: text("campaign"), when: { field: "coupon", op: "eq", value: text("campaign") } },
    // biome-ignore lint/suspicious/noThenProperty: the wire name of what a rule does
    then: { partner_id: partner },
  });
  const source = await post("/api/sources", {
    ...{ client_id: client, slug: `source-${owner}`, name: text("client"), kind: "generic" },
    ...{ mapping: { event_name: "event", dedup_key: "id" }, secret: `secret-of-${tag}-1234` },
  });
  secrets.push((await post(`/api/sources/${source.id}/rotate-key`, {})).key, `secret-of-${tag}-1234`);
  const admin = database.adminPool;
  const { rows: jobs } = await admin.query(sql`
    insert into jobs (job_id, kind, client_id, key, input, created_by)
    values ('job_' || gen_random_uuid(), 'backfill', ${client}, ${text("client")}, '{}', ${email}) returning job_id`);
  const imported = await importFor(admin, text, { client, partner });
  await owe(admin, { client, partner, payable: commission * 7n, held: commission, currency: "MXN" });
  await sell(admin, { client, partner, at: new Date(), segment: "QZ", commission: commission * 2n });
  await admin.query(sql`update conversions set value_minor = ${revenue * 11n}, order_id = ${`order-${tag}`},
    campaign_id = ${campaign} where partner_id = ${partner}`);
  await admin.query(sql`
    insert into product_sales (client_id, event_id, version, t, order_id, product_id, segment, quantity, value_minor,
      currency, occurred_at, did, credit_status, partner_id, campaign_id, fraud_band)
    select client_id, event_id, 1, 'purchase', order_id, ${text("client")}, segment, 1, value_minor, currency,
      occurred_at, ${tag}, 'attributed', partner_id, campaign_id, 'ok' from conversions where partner_id = ${partner}`);
  await count(owner, { client, partner, campaign });
  return {
    ...{ client, partner, campaign },
    ids: {
      invitations: invited.id,
      "client-invitations": ofClient.id,
      tokens: String(token.id),
      jobs: jobs[0].job_id,
      rules: String(rule.id),
      imports: imported,
      sources: source.id,
      orders: `order-${tag}`,
    },
  };
};

/** A waiting import file with a row that names its owner. */
const importFor = async (
  admin: pg.Pool,
  text: (kind: Kind) => string,
  { client, partner }: { readonly client: number; readonly partner: number },
): Promise<string> => {
  const objects = openObjects(sharedStack().env.OBJECT_STORE_URL!);
  const importId = `imp_${randomUUID()}`;
  const head = "order_id,revenue,product_id,quantity,ts";
  const file = Readable.from([Buffer.from(`${head}\n${text("client")},1.00,p,1,2026-11-01\n`)]);
  const { bytes, parts, sha256 } = await storeFile(objects, importId, file, false);
  await objects.close();
  await admin.query(sql`
    insert into imports (import_id, client_id, partner_id, filename, source, status, created_by, bytes, parts, sha256)
    values (${importId}, ${client}, ${partner}, ${`${text("client")}.csv`}, 'put', 'queued', ${`partner:${partner}`},
      ${bytes}::bigint, ${parts}, ${sha256})`);
  return importId;
};

/** A plan of this month for each client, with a line for each of its partners. */
const plan = async (post: Post, rows: CanaryWorld["rows"]): Promise<void> => {
  for (const owner of ["a", "b"] as const) {
    const key = { client_id: rows[owner].client, ...monthOf(Date.now()) };
    const lines = owners
      .filter((one) => rows[one].client === key.client_id)
      .map((one) => ({ partner_id: rows[one].partner, budget: money(tenants[one].commission * 17n) }));
    await post("/api/planner/save", { ...key, lines });
    await post("/api/planner/approve", key);
  }
};

/**
 * Hashes all tables except those that change without a request: the audit (also of reads), mails,
 * the secrets that processes report, and what counts against quotas, which is written two seconds
 * later. Leaves out `last_used_at`, which is written a little later too.
 */
const stateOf = async (owner: pg.Pool): Promise<string> => {
  const { rows } = await owner.query<{ name: string }>(
    `select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')
       and relname not in ('audit', 'mails', 'secret_holders', 'installation_secrets', 'intake_usage') order by 1`,
  );
  const parts = rows.map(
    ({ name }) => `select '${name}' as name, count(*)::int as n, md5(string_agg(md5(t::text), '' order by t::text)) as h
      from (select to_jsonb(kept) - 'last_used_at' as t from "${name}" kept) all_of_it`,
  );
  // Several processes may read a large table in parallel, and they return its rows in any order.
  return JSON.stringify((await owner.query(`${parts.join(" union all ")} order by name`)).rows, undefined, 1);
};

/** Starts the world. `env` is added to the variables of the stack. The caller closes it. */
export const canaryWorld = async (
  env: Readonly<Record<string, string>> = {},
  { admins = USERS }: { readonly admins?: number } = {},
): Promise<CanaryWorld> => {
  const database = await freshDatabase();
  await moveIds(database.adminPool);
  const running = await startApi({
    ...sharedStack().env,
    ...{ POSTGRES_URL: database.appUrl, POSTGRES_ADMIN_URL: database.adminUrl, TRUSTED_PROXIES: "loopback" },
    ...env,
  });
  const ask = asker(() => running.url);
  const tokenOf = (name: string) => running.signed({ sub: `${name}@${PEOPLE}`, email: `${name}@${PEOPLE}`, exp: LATE });
  await saveUser(database.adminPool, { name: "maker", role: "admin" });
  const token = await tokenOf("maker");
  const post: Post = async (path, body, method = "POST", headers = {}) => {
    const asked = { method, token, headers, ...(body !== undefined && { body }) };
    let answer = await ask(path, asked);
    // A change of reference data must be saved within half a second, and a busy machine may need
    // longer.
    for (let again = 0; answer.status === 503 && again < 20; again += 1) {
      await sleep(500);
      answer = await ask(path, asked);
    }
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
    return answer.body;
  };
  const secrets: string[] = [];
  const making = { post, database, secrets };
  const a = await fill(making, "a");
  const rows = { a, b: await fill(making, "b"), a2: await fill(making, "a2", a.client) };
  await plan(post, rows);
  const tokens: Record<string, readonly string[]> = {};
  for (const person of people) {
    const { role, rows: seen } = person;
    const { client, partner } = rows[seen[0]!];
    const isAssigned = role !== "admin" && role !== "partner" && seen.length < owners.length;
    const more = { ...(role === "partner" && { partner }), clients: isAssigned ? [client] : [] };
    const names = Array.from({ length: role === "admin" ? admins : USERS }, (_, n) => `${person.name}-${n}`);
    for (const name of names) await saveUser(database.adminPool, { name, role }, more);
    tokens[person.name] = await Promise.all(names.map(tokenOf));
    // Each user logs in once here, because the first login binds the user and writes a row.
    for (const own of tokens[person.name]!) {
      const { status, text } = await ask("/api/auth/me", { token: own });
      if (status !== 200) throw new Error(`${person.name} does not come in: ${text}`);
    }
  }
  await saveUser(database.adminPool, { name: "removed", role: "admin" });
  const { status } = await ask("/api/auth/me", { token: await tokenOf("removed") });
  if (status !== 200) throw new Error(`the person to be removed does not come in: ${status}`);
  await database.adminPool.query(sql`
    update users set removed_at = clock_timestamp() where email = ${`removed@${PEOPLE}`}`);
  const owned = database.pool({ max: 1 });
  const made = async (wanted: Parameters<typeof createToken>[1]) => (await createToken(owned, wanted)).token;
  return {
    ...{ database, running, rows, tokens, secrets, ask },
    badTokens: {
      none: undefined,
      nonsense: "nonsense",
      expired: await running.signed({ exp: 1_000_000_000 }),
      "of another audience": await running.signed({ aud: "tributary-portal" }),
      "an ID token": await running.signed({}, { typ: "JWT" }),
      unsigned: unsignedOf(token),
      "of another issuer": await running.signed({ iss: "http://127.0.0.1:1" }),
      "without an end": await running.signed({ exp: undefined }),
      "of a service": await made({ kind: "service", label: "canary" }),
      "of a sender": await made({ kind: "ingest", label: "canary", client_id: a.client }),
      "of an operator": await made({ kind: "admin", label: "canary" }),
      "of an unknown person": await tokenOf("no-one"),
      "of a person who was removed": await tokenOf("removed"),
    },
    state: () => stateOf(database.adminPool),
    close: async () => {
      await running.close();
      await database.drop();
    },
  };
};
/** The same claims in an unsigned token with `alg: none`. */
const unsignedOf = (token: string): string => {
  const header = Buffer.from(JSON.stringify({ alg: "none", typ: "at+jwt" })).toString("base64url");
  return `${header}.${token.split(".")[1]}.`;
};

/** Of each person. */
const USERS = 5;
/** The whole suite long. */
const LATE = Math.floor(Date.now() / 1_000) + 3_600;
