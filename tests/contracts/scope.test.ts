// The rows that a user sees (law T4): row-level security covers queries that forget their
// condition, and conditions cover tables without row-level security.
import type pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { everyRow, pageOfRows, type RowsQuery } from "../../infra/postgres/rows.ts";
import { sql, transaction } from "../../infra/postgres/sql.ts";
import { enterScope } from "../../modules/access/scope.ts";
import type { User } from "../../modules/access/users/users.ts";
import { auditRows } from "../../modules/base/audit/audit.ts";
import { jobRows } from "../../modules/base/jobs/jobs.ts";
import { clientRows } from "../../modules/catalog/clients/client-reads.ts";
import { writeReference } from "../../modules/catalog/reference/writer.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";

let database: FreshDatabase;
let pool: pg.Pool;
const clients: number[] = [];
let partner: number;
beforeAll(async () => {
  database = await freshDatabase();
  pool = database.pool();
  for (const slug of ["one", "two", "three", "gone"]) {
    const { idOf } = await writeReference(pool, "test", {
      clients: [{ client_id: -1, slug: `shop-${slug}`, name: slug, status: slug === "gone" ? "archived" : "active" }],
    });
    clients.push(idOf("clients", -1));
  }
  const [one, two] = clients as [number, number];
  const known = { name: "Both", email: "both@example.com", client_ids: [one, two] };
  const { idOf } = await writeReference(pool, "test", { partners: [{ partner_id: -1, ...known }] });
  partner = idOf("partners", -1);
  // The partner works for one client now, and keeps its rows of the other.
  await writeReference(pool, "test", { partners: [{ partner_id: partner, client_ids: [two] }] });
  for (const client of [null, ...clients]) {
    await database.adminPool.query(sql`
      insert into audit (actor, role, action, client_id, entity, request_id)
      values ('a@b.example', 'admin', 'client.tested', ${client}, 'x:1', 'r')`);
    if (client !== null)
      await database.adminPool.query(sql`insert into jobs (job_id, kind, client_id, key, input, created_by)
        values ('job_' || gen_random_uuid(), 'backfill', ${client}, 'k', '{}', 'a@b.example')`);
  }
});
afterAll(() => database.drop());

const user = (role: User["role"], client_ids: readonly number[] = [], partner_id: number | null = null): User => ({
  ...{ user_id: 1, email: "a@b.example", name: "A", locale: "es" },
  ...{ role, client_ids, partner_id, all_clients: role === "viewer" && client_ids.length === 0 },
});
/** The owners of the rows that plain selects without a condition return. */
const foundBy = (caller: User) =>
  transaction(pool, null, async (tx) => {
    const scope = await enterScope(tx, caller);
    const of = async (table: string) => {
      const { rows } = await tx.query<{ client_id: number | null }>(`select distinct client_id from ${table}`);
      return rows.map(({ client_id }) => client_id ?? 0).sort((a, b) => a - b);
    };
    return {
      scope: [...scope.clients],
      clients: await of("clients"),
      audit: await of("audit"),
      jobs: await of("jobs"),
    };
  });

describe("without a condition, row-level security alone shows", () => {
  test("an admin, and a viewer of all clients, every client and what belongs to none", async () => {
    for (const role of ["admin", "viewer"] as const)
      expect(await foundBy(user(role))).toEqual({ scope: clients, clients, audit: [0, ...clients], jobs: clients });
  });
  test("a manager, and a viewer with clients, those that are assigned", async () => {
    const own = [clients[1]!];
    for (const role of ["client_manager", "viewer"] as const)
      expect(await foundBy(user(role, own))).toEqual({ scope: own, clients: own, audit: own, jobs: own });
  });
  test("a manager without clients nothing, nor a viewer", async () => {
    for (const one of [user("client_manager"), { ...user("viewer"), all_clients: false }])
      expect(await foundBy(one)).toEqual({ scope: [], clients: [], audit: [], jobs: [] });
  });
  test("a client user its client, until that is archived", async () => {
    expect((await foundBy(user("client_user", [clients[2]!]))).clients).toEqual([clients[2]]);
    expect((await foundBy(user("client_user", [clients[3]!]))).clients).toEqual([]);
  });
  test("a partner every client that it ever worked for, of those that the user is bound to", async () => {
    expect((await foundBy(user("partner", [clients[1]!, clients[2]!], partner))).clients).toEqual([clients[1]]);
    expect((await foundBy(user("partner", [], partner))).clients).toEqual(clients.slice(0, 2));
    expect((await foundBy(user("partner", [], 999_999))).clients).toEqual([]);
  });
});

describe("without row-level security, the condition alone keeps to the clients of the caller", () => {
  const range = { from: 0, to: Date.now() + 60_000 };
  test.each<[string, RowsQuery, string]>([
    ["clients", clientRows({ status: "all" }), "created_at"],
    ["audit", auditRows(range), "-at"],
    ["jobs", jobRows({}), "-created_at"],
  ])("in the list of %s, as pages and as a file", async (_what, query, sort) => {
    // The owner of the tables sees every row of each table.
    const tx = await database.adminPool.connect();
    try {
      await tx.query("begin");
      expect((await tx.query("select 1 from clients")).rowCount).toBe(4);
      for (const own of [[clients[0]!], [clients[1]!, clients[2]!], []]) {
        const reading = { names: ["id", "client_id"], sort, clients: own };
        const { rows } = await pageOfRows(tx, query, reading, { limit: 100 });
        const ids = rows.map((row) => row.client_id ?? row.id).sort((a, b) => a - b);
        expect(ids).toEqual(own);
        let count = 0;
        for await (const some of everyRow(tx, query, reading, 1)) count += some.length;
        await tx.query("close every_row");
        expect(count).toBe(own.length);
      }
    } finally {
      await tx.query("rollback");
      tx.release();
    }
  });
});

test("a column that is not asked for is not in the statement", async () => {
  const asked: string[] = [];
  const tx = {
    query: async ({ text }: { text: string }) => {
      asked.push(text);
      return { rows: [] };
    },
  };
  const reading = { names: ["id", "name", "unknown"], sort: "name", clients: [1] };
  await pageOfRows(tx as never, clientRows({}), reading, { limit: 1 });
  expect(asked[0]).toContain(`as "name"`);
  for (const hidden of ["ingest_tokens", "tokens", "fallback_url", "unknown"]) expect(asked[0]).not.toContain(hidden);
});
