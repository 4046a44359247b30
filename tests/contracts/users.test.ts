// Users: an identity is bound at the first login and never shared, and every change of a user keeps
// these rules.
import type pg from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { updateUser } from "../../modules/access/users/change.ts";
import { insertUser } from "../../modules/access/users/create.ts";
import { type Identity, unbindUser, userOf } from "../../modules/access/users/identity.ts";
import type { KnownTenants, NewUser } from "../../modules/access/users/user-rules.ts";
import { listUsers, userByEmail, withUsers } from "../../modules/access/users/users.ts";
import { RefusalError } from "../../modules/base/refusal.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";

let database: FreshDatabase;
let pool: pg.Pool;
beforeAll(async () => {
  database = await freshDatabase();
  pool = database.pool({ max: 8 });
});
afterAll(() => database.drop());
beforeEach(() => database.adminPool.query("truncate users"));

/** Clients 1 to 3 and partner 7 exist. */
const known = {
  client: (id: number) => (id <= 3 ? {} : undefined),
  partner: (id: number) => (id === 7 ? {} : undefined),
} as KnownTenants;
const ana: NewUser = { email: "ana@shop.example", name: "Ana", role: "admin" };
const create = (over: Partial<NewUser> = {}) => withUsers(pool, (tx) => insertUser(tx, { ...ana, ...over }, known));
const change = (email: string, fields: Parameters<typeof updateUser>[2]) =>
  withUsers(pool, async (tx) => updateUser(tx, (await userByEmail(tx, email)).user_id, fields, known));
const refusal = (code: string, path: string) => ({ refusals: [{ code, path }] });
const codeOf = (error: unknown) => (error instanceof RefusalError ? error.refusals[0]!.code : undefined);
const seen = (over: Partial<Identity> = {}): Identity => ({
  issuer: "https://id.example",
  subject: "ana-1",
  email: "ana@shop.example",
  ...over,
});
const who = async (over: Partial<Identity> = {}) => (await userOf(pool, seen(over)))?.email;

describe("an identity", () => {
  beforeEach(() => create());

  test("is bound at the first login by its verified address, in whatever case", async () => {
    expect(await who({ email: "Ana@Shop.example" })).toBe("ana@shop.example");
    const [user] = await withUsers(pool, listUsers);
    expect(user!.bound_at).toBeGreaterThan(Date.now() - 60_000);
  });

  test("without a verified address is bound to no one, and once bound it needs none", async () => {
    expect(await who({ email: null })).toBeUndefined();
    expect(await who()).toBe("ana@shop.example");
    expect(await who({ email: null })).toBe("ana@shop.example");
  });

  test("of another subject or issuer with the same address is not let in", async () => {
    await who();
    expect(await who({ subject: "ana-2" })).toBeUndefined();
    expect(await who({ issuer: "https://other.example" })).toBeUndefined();
    expect(await who()).toBe("ana@shop.example");
  });

  test("keeps its user when its address changes, also to the address of another user", async () => {
    await create({ email: "bea@shop.example" });
    await who();
    expect(await who({ email: "ana@new.example" })).toBe("ana@shop.example");
    expect(await who({ email: "bea@shop.example" })).toBe("ana@shop.example");
    expect(await who({ subject: "bea-1", email: "bea@shop.example" })).toBe("bea@shop.example");
  });

  test("of a disabled user stays out under every address, and comes in when the user is enabled", async () => {
    await create({ email: "bea@shop.example" });
    await who();
    await change("ana@shop.example", { status: "disabled" });
    expect(await who()).toBeUndefined();
    expect(await who({ email: "bea@shop.example" })).toBeUndefined();
    await change("ana@shop.example", { status: "active" });
    expect(await who()).toBe("ana@shop.example");
  });

  test("is bound to one user, however many requests come at once", async () => {
    await create({ email: "bea@shop.example" });
    const asked = Array.from({ length: 12 }, (_, n) => who(n % 2 === 0 ? {} : { email: "bea@shop.example" }));
    const answers = new Set(await Promise.all(asked));
    expect(answers.size).toBe(1);
    const bound = (await withUsers(pool, listUsers)).filter(({ bound_at }) => bound_at !== null);
    expect(bound).toHaveLength(1);
    const { rows } = await database.adminPool.query(
      `select action, actor, role from audit where entity = 'user:${bound[0]!.user_id}'`,
    );
    expect(rows).toEqual([{ action: "user.bound", actor: bound[0]!.email, role: "admin" }]);
  });

  test("that is forgotten makes room for another one", async () => {
    await who();
    const { user_id } = (await withUsers(pool, listUsers))[0]!;
    expect(await withUsers(pool, (tx) => unbindUser(tx, user_id))).toBe(true);
    expect(await withUsers(pool, (tx) => unbindUser(tx, user_id))).toBe(false);
    expect(await who({ subject: "ana-2" })).toBe("ana@shop.example");
    expect(await who()).toBeUndefined();
  });

  test("of no user, and with an address that no store could hold, is no user", async () => {
    expect(await who({ subject: "x", email: "unknown@shop.example" })).toBeUndefined();
    expect(await who({ subject: "x", email: "a\0@shop.example" })).toBeUndefined();
  });
});

describe("a user", () => {
  test.each<[string, Partial<NewUser>]>([
    ["email", { email: "ana" }],
    ["email", { email: `${"a".repeat(65)}@shop.example` }],
    ["name", { name: "  " }],
    ["name", { name: "a\nb" }],
    ["role", { role: "owner" as never }],
    ["locale", { locale: "fr" as never }],
    ["client_ids", { client_ids: [1] }],
    ["client_ids", { role: "client_manager", client_ids: [1, 9] }],
    ["client_ids", { role: "client_user", client_ids: [1, 2] }],
    ["client_ids", { role: "client_user" }],
    ["partner_id", { role: "partner" }],
    ["partner_id", { role: "partner", partner_id: 8 }],
    ["partner_id", { role: "viewer", partner_id: 7 }],
  ])("with a wrong %s is refused: %j", async (field, wrong) => {
    await expect(create(wrong)).rejects.toMatchObject(refusal("bad_user", `/${field}`));
    expect(await withUsers(pool, listUsers)).toEqual([]);
  });

  test.each<Partial<NewUser>>([
    { role: "admin" },
    { role: "client_manager" },
    { role: "client_manager", client_ids: [2, 1, 2] },
    { role: "viewer", client_ids: [3] },
    { role: "client_user", client_ids: [1] },
    { role: "partner", partner_id: 7 },
  ])("is made: %j", async (fields) => {
    const user = await create(fields);
    expect(user).toMatchObject({ email: "ana@shop.example", status: "active", bound_at: null, role: fields.role });
    expect(user.client_ids).toEqual([...new Set(fields.client_ids)]);
  });

  test("is one row of its address, in whatever case, a disabled one too", async () => {
    await create({ role: "viewer" });
    await expect(create({ email: "ANA@shop.example" })).rejects.toMatchObject(refusal("email_in_use", "/email"));
    await change("ana@shop.example", { status: "disabled" });
    await expect(create()).rejects.toThrow("disabled: enable it");
  });

  test("of one address is made once, however many ask at once", async () => {
    const made = await Promise.allSettled(Array.from({ length: 6 }, () => create()));
    expect(made.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    expect(made.filter((one) => one.status === "rejected" && codeOf(one.reason) === "email_in_use")).toHaveLength(5);
  });

  test("that gets another role loses the tenants of the old one, unless new ones are named", async () => {
    await create({ role: "client_manager", client_ids: [1, 2] });
    expect(await change("ana@shop.example", { name: "Ana R" })).toMatchObject({ client_ids: [1, 2], name: "Ana R" });
    expect(await change("ana@shop.example", { role: "viewer" })).toMatchObject({ client_ids: [], role: "viewer" });
    const moved = await change("ana@shop.example", { role: "client_user", client_ids: [3] });
    expect(moved).toMatchObject({ client_ids: [3], role: "client_user" });
  });

  test("changes its own name and language without a word about tenants", async () => {
    const { user_id } = await create({ role: "client_manager", client_ids: [1, 2] });
    const changed = await withUsers(pool, (tx) => updateUser(tx, user_id, { name: "Ana R", locale: "en" }, null));
    expect(changed).toMatchObject({ name: "Ana R", locale: "en", client_ids: [1, 2] });
    const role = withUsers(pool, (tx) => updateUser(tx, user_id, { role: "admin" }, null));
    await expect(role).rejects.toThrow("must be known");
  });

  test("that is the last admin can neither be disabled nor become another", async () => {
    await create();
    await create({ email: "off@shop.example" });
    await change("off@shop.example", { status: "disabled" });
    await expect(change("ana@shop.example", { status: "disabled" })).rejects.toMatchObject(
      refusal("last_admin", "/role"),
    );
    await expect(change("ana@shop.example", { role: "viewer" })).rejects.toMatchObject(refusal("last_admin", "/role"));
    await create({ email: "bea@shop.example" });
    const both = await Promise.allSettled(
      ["ana", "bea"].map((name) => change(`${name}@shop.example`, { status: "disabled" })),
    );
    expect(both.map(({ status }) => status).sort(), "one of two at once").toEqual(["fulfilled", "rejected"]);
  });

  test("that no one knows is refused", () =>
    expect(change("unknown@shop.example", { name: "x" })).rejects.toMatchObject(refusal("not_found", "")));
});
