// The reset of a user over HTTP, where the address of Postgres switches it on.
import { afterAll, beforeAll, expect, test } from "vitest";
import { openPool, sql } from "../../infra/postgres/sql.ts";
import { type RunningApi, startApi } from "../support/api.ts";
import { asker } from "../support/ask.ts";
import { sharedStack } from "../support/shared-stack.ts";

const { env } = sharedStack();
const owner = openPool(env.POSTGRES_ADMIN_URL!, { max: 1 });
let running: RunningApi;
let admin: string;
const ask = asker(() => running.url);
beforeAll(async () => {
  const address = new URL(env.POSTGRES_URL!);
  address.searchParams.set("options", "-c tributary.reset_user=on");
  running = await startApi({ ...env, POSTGRES_URL: address.href.replaceAll("+", "%20") });
  admin = await running.token("admin@demo.tributary.test");
});
afterAll(async () => {
  await running.close();
  await owner.end();
});
const reset = (email: string) =>
  ask(`/api/auth/reset-user?email=${encodeURIComponent(email)}`, { method: "DELETE", token: admin });

test("a reset user is bound again by its next login, also to another subject", async () => {
  const email = "viewer@demo.tributary.test";
  const first = await running.signed({ sub: "viewer-1", email });
  const second = await running.signed({ sub: "viewer-2", email });
  expect((await ask("/api/auth/me", { token: first })).status).toBe(200);
  expect((await ask("/api/auth/me", { token: second })).body.code).toBe("no_account");
  expect([(await reset(email)).status, (await reset(email)).status]).toEqual([204, 204]);
  expect((await ask("/api/auth/me", { token: second })).body.email).toBe(email);
  expect((await ask("/api/auth/me", { token: first })).body.code).toBe("no_account");
  const { rows } = await owner.query(sql`select user_id from users where email = ${email}`);
  const audited = await owner.query(sql`
    select action, actor from audit where entity = ${`user:${rows[0].user_id}`} and action = 'user.reset'`);
  expect(audited.rows).toContainEqual({ action: "user.reset", actor: "admin@demo.tributary.test" });
  expect((await reset(email)).status).toBe(204);
});

test("an unknown address is not found, no address is a fault, and no one resets oneself", async () => {
  expect((await reset("no.one@people.example")).status).toBe(404);
  const without = await ask("/api/auth/reset-user", { method: "DELETE", token: admin });
  expect([without.status, without.body.errors[0].pointer]).toEqual([400, "/email"]);
  const own = await reset("Admin@demo.tributary.test");
  expect([own.status, own.body.code]).toEqual([409, "self_reset"]);
});
