// Each app has one login: the roles that it may take on, and the refusal of all others.
import type { PoolClient } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type AppLogin, appLogins, groupRoles } from "../../infra/postgres/logins.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";

let database: FreshDatabase;
beforeAll(async () => {
  database = await freshDatabase();
});
afterAll(() => database.drop());

/** Runs `work` as the login; its changes are rolled back. */
const asLogin = async <T>(login: string, work: (tx: PoolClient) => Promise<T>): Promise<T> => {
  const tx = await database.adminPool.connect();
  try {
    await tx.query(`begin; set local session authorization ${login}`);
    return await work(tx);
  } finally {
    await tx.query("rollback");
    tx.release();
  }
};
const asGroup = (login: string, group: string, statement: string): Promise<unknown> =>
  asLogin(login, async (tx) => {
    await tx.query(`set local role ${group}`);
    return tx.query(statement);
  });

describe.each(Object.keys(appLogins) as AppLogin[])("the login of %s", (app) => {
  const { role, groups } = appLogins[app];

  test("takes on the roles that it needs, and is refused every other", async () => {
    for (const group of groupRoles) {
      const taken = asGroup(role, group, "select 1");
      if (groups.includes(group)) await expect(taken, group).resolves.toBeDefined();
      else await expect(taken, group).rejects.toThrow(`permission denied to set role "${group}"`);
    }
    await expect(asGroup(role, "tributary_app", "select 1")).rejects.toThrow(/permission denied to set role/);
    await expect(asGroup(role, "tributary_owner", "select 1")).rejects.toThrow(/permission denied to set role/);
  });

  test("sees what an app sees, and nothing of its roles by accident", async () => {
    await asLogin(role, async (tx) => {
      expect((await tx.query("select * from memory_state limit 1")).rows).toBeDefined();
      expect((await tx.query("select 1 from clients")).rows).toEqual([]);
    });
    await expect(asLogin(role, (tx) => tx.query("select 1 from users"))).rejects.toThrow(/permission denied/);
    await expect(asLogin(role, (tx) => tx.query("select 1 from client_secrets"))).rejects.toThrow(/permission denied/);
    await expect(asLogin(role, (tx) => tx.query("create table mine (n int)"))).rejects.toThrow(/permission denied/);
  });
});

test("an edge knows tokens and the vault of recordings alone, and makes neither tokens nor users", async () => {
  const { role } = appLogins.ingest;
  const edge = (statement: string) => asGroup(role, "tributary_edge", statement);
  await expect(edge("select token_id, sha256 from tokens")).resolves.toBeDefined();
  await expect(edge("update tokens set last_used_at = now() where token_id = 0")).resolves.toBeDefined();
  await expect(edge("select recording_vault from client_secrets")).resolves.toBeDefined();
  await expect(
    edge("select kind, count(*) from dead_letters where state = 'parked' group by kind"),
  ).resolves.toBeDefined();
  for (const statement of [
    "update tokens set revoked_at = null",
    "insert into tokens (kind, sha256, label, revision) values ('admin', sha256('x'), 'x', 1)",
    "insert into users (email, name, role) values ('a@b.test', 'a', 'admin')",
    "select message from dead_letters",
    "update dead_letters set state = 'discarded'",
    "select hmac_secret from client_secrets",
    "select lead_vault from client_secrets",
    "update client_secrets set hmac_secret = 'x'",
  ])
    await expect(edge(statement), statement).rejects.toThrow(/permission denied/);
});

test("a login that was given more by hand has it taken back by the next migration", async () => {
  const { role } = appLogins.worker;
  await database.adminPool.query(`grant tributary_tokens to ${role}`);
  await expect(asGroup(role, "tributary_tokens", "select 1")).resolves.toBeDefined();
  await database.migrate();
  await expect(asGroup(role, "tributary_tokens", "select 1")).rejects.toThrow(/permission denied to set role/);
});
