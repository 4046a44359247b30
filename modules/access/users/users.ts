// Who may use the platform and as what: found by the identity that the provider vouches for on each
// request, so that a demotion acts at once; and the rules of every change of a user.
import type pg from "pg";
import { lockUntilCommit } from "../../../infra/postgres/advisory-lock.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import { type Act, writeAudit } from "../../base/audit/audit.ts";

export const roles = ["admin", "client_manager", "partner", "client_user", "viewer"] as const;
export type Role = (typeof roles)[number];

/** Of mails. */
const locales = ["es", "en"] as const;
export type Locale = (typeof locales)[number];

export interface User {
  readonly user_id: number;
  readonly email: string;
  readonly name: string;
  readonly role: Role;
  readonly partner_id: number | null;
  readonly client_ids: readonly number[];
  readonly locale: Locale;
}
/** A row of the list of users: also who may not come in. */
export interface ListedUser extends User {
  readonly status: "active" | "disabled";
  /** When an identity was bound to it, by its first login; null before. */
  readonly bound_at: number | null;
  /** Of its newest request, to the hour. */
  readonly last_seen_at: number | null;
  readonly created_at: number;
  readonly updated_at: number;
  readonly version: number;
}
/** What a good token says of its owner. */
export interface Identity {
  readonly issuer: string;
  readonly subject: string;
  /** Null unless the issuer says that it is verified. */
  readonly email: string | null;
}

/** Why a user cannot be as asked; `field` is that of the row, the message names the cure. */
export class UserRefused extends Error {
  readonly code: "bad_user" | "email_in_use" | "unknown_user" | "last_admin";
  readonly field: "email" | "name" | "role" | "partner_id" | "client_ids" | "status" | "locale";
  constructor(code: UserRefused["code"], field: UserRefused["field"], message: string) {
    super(message);
    this.name = "UserRefused";
    this.code = code;
    this.field = field;
  }
}

/** Asked before any tenant is known; this role sees no tenant's rows. */
const role = "tributary_tokens";
type Transaction = Pick<pg.PoolClient, "query">;

/** Runs `work` in one transaction that may read and write users, and nothing of a tenant. */
export const withUsers = <T>(pool: pg.Pool, work: (tx: Transaction) => Promise<T>): Promise<T> =>
  transaction(pool, null, work, { role });

/** The same inside a transaction of the caller, which has its own role again afterwards. */
export const asUsers = async <T>(tx: Transaction, work: (tx: Transaction) => Promise<T>): Promise<T> => {
  await tx.query(`set local role ${role}`);
  const result = await work(tx);
  await tx.query("set local role none");
  return result;
};

const columns = sql`user_id, email, name, role, partner_id, client_ids, locale`;
const listed = sql`${columns}, case when removed_at is null then 'active' else 'disabled' end as status, bound_at,
  last_seen_at, created_at, updated_at, version`;

/**
 * The user of an identity; undefined when it is bound to none and cannot be. The first login binds
 * it to the user of the same verified address, unless that user has an identity already: then
 * another subject shows this address, and is not let in. A disabled user stays out, under whatever
 * address its identity comes.
 */
export const userOf = async (
  pool: pg.Pool,
  identity: Identity,
  sender: Pick<Act, "request_id" | "ip"> = { request_id: "", ip: null },
): Promise<User | undefined> => {
  const known = await boundUser(pool, identity);
  const { email } = identity;
  if (known !== undefined || email === null || !EMAIL.test(email)) return seen(pool, known);
  await bind(pool, { ...identity, email }, sender);
  // Bound now, or by another request of the same person at the same moment, or not at all.
  return seen(pool, await boundUser(pool, identity));
};

/** Who comes in, and once an hour its time. */
const seen = async (pool: pg.Pool, bound: Bound | undefined): Promise<User | undefined> => {
  if (!bound?.isActive) return undefined;
  if (bound.isUnseen) await markSeen(pool, bound.user.user_id);
  return bound.user;
};
const unseen = sql`(last_seen_at is null or last_seen_at < clock_timestamp() - interval '1 hour')`;
const markSeen = (pool: pg.Pool, userId: number): Promise<unknown> =>
  withUsers(pool, (tx) =>
    tx.query(sql`update users set last_seen_at = clock_timestamp() where user_id = ${userId} and ${unseen}`),
  );

interface Bound {
  readonly user: User;
  readonly isActive: boolean;
  /** For an hour. */
  readonly isUnseen: boolean;
}
const boundUser = (pool: pg.Pool, { issuer, subject }: Identity): Promise<Bound | undefined> =>
  transaction(
    pool,
    null,
    async (tx) => {
      const { rows } = await tx.query<User & { is_active: boolean; is_unseen: boolean }>(sql`
        select ${columns}, removed_at is null as is_active, ${unseen} as is_unseen from users
        where issuer = ${issuer} and subject = ${subject}`);
      return rows.map(({ is_active: isActive, is_unseen: isUnseen, ...user }) => ({ user, isActive, isUnseen }))[0];
    },
    { role, isReadOnly: true },
  );

const bind = (
  pool: pg.Pool,
  { issuer, subject, email }: Identity & { readonly email: string },
  sender: Pick<Act, "request_id" | "ip">,
): Promise<void> =>
  transaction(pool, null, async (tx) => {
    const { rows } = await asUsers(tx, async () => {
      // Two addresses of one subject at the same moment would meet in the unique index otherwise.
      await lockUntilCommit(tx, `tributary.identity ${issuer} ${subject}`);
      return tx.query<User>(sql`
        update users set issuer = ${issuer}, subject = ${subject}, bound_at = clock_timestamp()
        where email = ${addressOf(email)} and removed_at is null and issuer is null
          and not exists (select from users where issuer = ${issuer} and subject = ${subject})
        returning ${columns}`);
    });
    for (const user of rows) {
      const act = { actor: user.email, role: user.role, ...sender };
      await writeAudit(tx, act, {
        ...{ action: "user.bound", client_id: null, entity: `user:${user.user_id}`, after: { issuer } },
      });
    }
  });

/** All users, disabled ones too, in the order of their making. */
export const listUsers = async (tx: Transaction): Promise<readonly ListedUser[]> =>
  (await tx.query<ListedUser>(sql`select ${listed} from users order by user_id`)).rows;

/** The newest row of this address, a disabled one too. Throws UserRefused `unknown_user`. */
export const userByEmail = async (tx: Transaction, email: string): Promise<ListedUser> => {
  const found = await findByEmail(tx, email);
  if (found !== undefined) return found;
  throw new UserRefused("unknown_user", "email", `there is no user ${email}`);
};
/** The same; undefined when there is none. */
export const findByEmail = async (tx: Transaction, email: string): Promise<ListedUser | undefined> =>
  (
    await tx.query<ListedUser>(sql`
      select ${listed} from users where email = ${addressOf(email)}
      order by removed_at is null desc, user_id desc limit 1`)
  ).rows[0];

/** Which of these addresses a user has, a disabled one too; in lower case. */
export const addressesInUse = async (tx: Transaction, emails: readonly string[]): Promise<ReadonlySet<string>> => {
  const { rows } = await tx.query<{ email: string }>(
    sql`select distinct email from users where email = any (${emails.map(addressOf)})`,
  );
  return new Set(rows.map(({ email }) => email));
};

const addressOf = (email: string): string => email.trim().toLowerCase();

export interface NewUser {
  readonly email: string;
  readonly name: string;
  readonly role: Role;
  readonly partner_id?: number | null;
  readonly client_ids?: readonly number[];
  readonly locale?: Locale;
}
/** What clients and partners there are, e.g. a snapshot of the reference data; undefined: none. */
export interface KnownTenants {
  readonly client: (clientId: number) => unknown;
  readonly partner: (partnerId: number) => unknown;
}

/**
 * Makes a user that comes in with its first login. Throws UserRefused: `email_in_use` also when the
 * user of this address is disabled, so that a person stays one row of the audit.
 */
export const createUser = async (tx: Transaction, wanted: NewUser, known: KnownTenants): Promise<ListedUser> => {
  const user = checked(
    {
      ...wanted,
      partner_id: wanted.partner_id ?? null,
      client_ids: wanted.client_ids ?? [],
      locale: wanted.locale ?? "es",
    },
    known,
  );
  await lockUntilCommit(tx, "tributary.users");
  const same = await findByEmail(tx, user.email);
  if (same !== undefined)
    throw new UserRefused(
      "email_in_use",
      "email",
      `there is a user ${user.email} already${same.status === "disabled" ? ", disabled: enable it" : ""}`,
    );
  const { rows } = await tx.query<ListedUser>(sql`
    insert into users (email, name, role, partner_id, client_ids, locale)
    values (${user.email}, ${user.name}, ${user.role}, ${user.partner_id}, ${user.client_ids}, ${user.locale})
    returning ${listed}`);
  return rows[0]!;
};

/** The user, and no other change of any until the commit. Throws UserRefused `unknown_user`. */
export const userToChange = async (tx: Transaction, userId: number): Promise<ListedUser> => {
  await lockUntilCommit(tx, "tributary.users");
  const { rows } = await tx.query<ListedUser>(sql`select ${listed} from users where user_id = ${userId}`);
  if (rows[0] === undefined) throw new UserRefused("unknown_user", "email", `there is no user ${userId}`);
  return rows[0];
};

export type UserChange = Partial<Omit<User, "user_id" | "email"> & Pick<ListedUser, "status">>;

/**
 * Gives a user another name, role, tenants, status or locale; it acts on the next request of that
 * user. A new role without tenants has none. `known` is null where the tenants stay as they are.
 * Throws UserRefused: the last active admin stays one.
 */
export const changeUser = async (
  tx: Transaction,
  userId: number,
  change: UserChange,
  known: KnownTenants | null,
): Promise<ListedUser> => {
  if (known === null && (change.role ?? change.client_ids ?? change.partner_id) !== undefined)
    throw new Error("what tenants there are must be known to change a role or tenants");
  const before = await userToChange(tx, userId);
  const isNewRole = change.role !== undefined && change.role !== before.role;
  const after = { ...before, ...(isNewRole && { partner_id: null, client_ids: [] }), ...change };
  const { name, role, partner_id, client_ids, locale } = checked(after, known);
  if (before.role === "admin" && before.status === "active" && (role !== "admin" || after.status === "disabled"))
    await refuseLastAdmin(tx, userId);
  const { rows } = await tx.query<ListedUser>(sql`
    update users set name = ${name}, role = ${role}, partner_id = ${partner_id}, client_ids = ${client_ids},
      locale = ${locale},
      removed_at = case when ${after.status} = 'active' then null else coalesce(removed_at, clock_timestamp()) end,
      updated_at = clock_timestamp(), version = version + 1
    where user_id = ${userId} returning ${listed}`);
  return rows[0]!;
};

const refuseLastAdmin = async (tx: Transaction, userId: number): Promise<void> => {
  const { rowCount } = await tx.query(
    sql`select from users where role = 'admin' and removed_at is null and user_id <> ${userId} limit 1`,
  );
  if (rowCount === 0) throw new UserRefused("last_admin", "role", "this is the last admin: make another one first");
};

/**
 * Forgets which identity a user has: the next login with its address binds again. False when none
 * was bound.
 */
export const unbindUser = async (tx: Transaction, userId: number): Promise<boolean> =>
  (
    await tx.query(sql`
      update users set issuer = null, subject = null, bound_at = null, updated_at = clock_timestamp()
      where user_id = ${userId} and issuer is not null`)
  ).rowCount === 1;

/**
 * Forgets the identities that another issuer has given to these addresses: for an identity provider
 * of a laptop, whose own address may change with its port.
 */
export const unbindFromOthers = async (tx: Transaction, emails: readonly string[], issuer: string): Promise<void> => {
  await tx.query(sql`
    update users set issuer = null, subject = null, bound_at = null, updated_at = clock_timestamp()
    where email = any (${emails}) and issuer <> ${issuer}`);
};

const EMAIL = /^[^\s@\p{C}]{1,64}@[^\s@\p{C}]{1,189}$/u;
const LONGEST_NAME = 200;
const NAME = /^[^\p{C}]*$/u;

/** The rules of one user, however it is made or changed. Throws UserRefused. */
const checked = <Given extends Required<NewUser>>(user: Given, known: KnownTenants | null): Given => {
  const refuse = (field: UserRefused["field"], message: string): never => {
    throw new UserRefused("bad_user", field, message);
  };
  const email = addressOf(user.email);
  const name = user.name.trim();
  if (!EMAIL.test(email)) refuse("email", "must be an e-mail address of at most 254 characters");
  if (name === "" || name.length > LONGEST_NAME || !NAME.test(name))
    refuse("name", `must have 1 to ${LONGEST_NAME} printable characters`);
  if (!roles.includes(user.role)) refuse("role", `${user.role} is none of ${roles.join(", ")}`);
  if (!locales.includes(user.locale)) refuse("locale", `${user.locale} is none of ${locales.join(", ")}`);
  if ((user.role === "partner") !== (user.partner_id !== null))
    refuse("partner_id", user.role === "partner" ? "a partner user belongs to a partner" : `a ${user.role} has none`);
  if (user.partner_id !== null && known !== null && known.partner(user.partner_id) === undefined)
    refuse("partner_id", `there is no partner ${user.partner_id}`);
  checkClients(user, known, refuse);
  return { ...user, email, name, client_ids: [...new Set(user.client_ids)] };
};

const checkClients = (
  { role, client_ids: ids }: Required<NewUser>,
  known: KnownTenants | null,
  refuse: (field: UserRefused["field"], message: string) => never,
): void => {
  const missing = known === null ? undefined : ids.find((id) => known.client(id) === undefined);
  if (missing !== undefined) refuse("client_ids", `there is no client ${missing}`);
  if ((role === "admin" || role === "partner") && ids.length > 0)
    refuse("client_ids", role === "admin" ? "an admin has all clients" : "a partner user has those of its partner");
  if (role === "client_user" && ids.length !== 1) refuse("client_ids", "a client user belongs to one client");
};
