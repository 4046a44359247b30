// Laws T2 and T3: a tenant sees only its own rows, checked in the catalog and under interleaved
// load on two connections.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { sql, transaction } from "../../infra/postgres/sql.ts";
import { keyringOf } from "../../infra/runtime/keyring.ts";
import { newClientSecret, saveClientSecret } from "../../modules/access/secrets/client-secrets.ts";
import { createToken } from "../../modules/access/tokens/tokens.ts";
import { writeReference } from "../../modules/catalog/reference/writer.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";

const keyring = keyringOf("pL3vQ9xT7mK1wZ8rN4sB6yD2hJ5cF0gA");
let database: FreshDatabase;
const clients: number[] = [];
/** Each row of client n has this name, so that a row of another tenant is recognised. */
const canary = (client: number): string => `Canary ${client}`;

beforeAll(async () => {
  database = await freshDatabase();
  const pool = database.pool();
  for (let n = 1; n <= 4; n += 1) {
    const { idOf } = await writeReference(pool, "test", {
      clients: [{ client_id: -1, slug: `client-${n}`, name: canary(n) }],
      partners: [
        { partner_id: -1, name: `${canary(n)} partner`, email: `partner-${n}@canary.example`, client_ids: [-1] },
      ],
      campaigns: [{ campaign_id: -1, client_id: -1, name: canary(n), destination_url: "https://shop.example/" }],
      links: [{ link_id: -1, campaign_id: -1, partner_id: -1, code: `canary-${n}` }],
      contracts: [
        {
          client_id: -1,
          partner_id: -1,
          event_type: "purchase",
          type: "percent",
          rate: n,
          effective_from: "2020-01-01",
        },
      ],
      rules: [
        {
          rule_id: -1,
          client_id: -1,
          name: canary(n),
          when: { field: "t", op: "eq", value: "x" },
          // biome-ignore lint/suspicious/noThenProperty: the wire name of what a rule does
          then: { partner_id: -1 },
        },
      ],
    });
    clients.push(idOf("clients", -1));
    await createToken(pool, { kind: "ingest", label: canary(n), client_id: idOf("clients", -1) });
    await saveClientSecret(pool, idOf("clients", -1), newClientSecret(), keyring);
  }
});
afterAll(() => database.drop());

const tenantTables = async (): Promise<readonly string[]> =>
  (
    await database.adminPool.query<{ name: string }>(sql`
      select distinct c.relname as name
      from pg_class c join pg_namespace n on n.oid = relnamespace join pg_attribute a on attrelid = c.oid
      where nspname = 'public' and relkind in ('r', 'p') and attname in ('client_id', 'client_ids', 'cid')
        and not attisdropped
      order by 1`)
  ).rows.map(({ name }) => name);

describe("the catalog", () => {
  test("every table with a client has row-level security, forced", async () => {
    const { rows } = await database.adminPool.query<{ relname: string }>(sql`
      select relname from pg_class
      where relname = any (${await tenantTables()}) and not (relrowsecurity and relforcerowsecurity)`);
    expect(rows).toEqual([]);
    expect(await tenantTables()).toEqual(
      expect.arrayContaining(["campaigns", "client_secrets", "clients", "partners", "tokens"]),
    );
  });
  test("whatever the application may write is checked on the way in as on the way out", async () => {
    const { rows } = await database.adminPool.query(sql`
      select tablename, policyname, cmd from pg_policies
      where schemaname = 'public' and 'tributary_app' = any (roles)
        and ((cmd <> 'INSERT' and coalesce(qual, 'true') = 'true')
          or (cmd not in ('SELECT', 'DELETE') and coalesce(with_check, qual, 'true') = 'true'))`);
    expect(rows).toEqual([]);
  });
  test("no policy reaches beyond the roles that were made for it", async () => {
    const { rows } = await database.adminPool.query(
      "select tablename, policyname from pg_policies where schemaname = 'public' and (roles && " +
        "array['public']::name[])",
    );
    expect(rows).toEqual([]);
  });
  test(
    "the application role owns nothing, does not bypass, truncate, refer, trigger or delete " + "reference rows",
    async () => {
      const owned = await database.adminPool.query(
        "select relname from pg_class where relowner = 'tributary_app'::regrole",
      );
      expect(owned.rows).toEqual([]);
      const role = await database.adminPool.query(
        "select rolsuper, rolbypassrls, rolcreatedb, rolcreaterole from pg_roles where rolname = 'tributary_app'",
      );
      expect(role.rows).toEqual([{ rolsuper: false, rolbypassrls: false, rolcreatedb: false, rolcreaterole: false }]);
      const { rows } = await database.adminPool.query(sql`
      select grantee, table_name, privilege_type from information_schema.role_table_grants
      where table_schema = 'public' and grantee like 'tributary\\_%' and grantee <> 'tributary_owner'
        and privilege_type in ('TRUNCATE', 'REFERENCES', 'TRIGGER', 'MAINTAIN')`);
      expect(rows).toEqual([]);
    },
  );
  test("reference rows are insert-only by grant", async () => {
    const tables = [
      "reference_changes",
      "clients",
      "segments",
      "partners",
      "campaigns",
      "links",
      "segment_commissions",
      "rules",
    ];
    const { rows } = await database.adminPool.query(sql`
      select table_name, string_agg(privilege_type, ',' order by privilege_type) as may
      from information_schema.role_table_grants
      where grantee = 'tributary_app' and table_name = any (${tables}) group by 1`);
    expect(rows).toHaveLength(tables.length);
    for (const row of rows) expect(row).toMatchObject({ may: "INSERT,SELECT" });
  });
  test("views ask with the rights of their reader, and keys between tenants' tables carry the tenant", async () => {
    const views = await database.adminPool.query(sql`
      select relname from pg_class c join pg_namespace n on n.oid = relnamespace
      where nspname = 'public' and relkind = 'v' and not coalesce('security_invoker=true' = any (reloptions), false)`);
    expect(views.rows).toEqual([]);
    const tables = await tenantTables();
    const { rows } = await database.adminPool.query(sql`
      select conname from pg_constraint k
      where contype = 'f' and conrelid::regclass::text = any (${tables}) and confrelid::regclass::text = any (${tables})
        and not exists (
          select 1 from pg_attribute where attrelid = conrelid and attnum = any (conkey) and attname = 'client_id')`);
    expect(rows).toEqual([]);
  });
});

describe("without tenants", () => {
  test("no table with a client shows the application a row", async () => {
    const pool = database.pool();
    for (const set of [null, []] as const)
      for (const table of await tenantTables()) {
        const count = await transaction(pool, set, async (tx) => {
          const { rows } = await tx
            .query<{ n: number }>(`select count(*)::int as n from "${table}"`)
            .catch((error: Error) => {
              // The secrets cannot even be queried.
              if (!/permission denied/.test(error.message)) throw error;
              return { rows: [{ n: 0 }] };
            });
          return rows[0]!.n;
        });
        expect([table, count]).toEqual([table, 0]);
      }
  });
  test("a connection forgets its tenants with the transaction", async () => {
    const pool = database.pool({ max: 1 });
    await transaction(pool, clients, async (tx) => expect((await tx.query("select 1 from clients")).rowCount).toBe(4));
    expect((await pool.query("select 1 from clients")).rowCount).toBe(0);
    await transaction(pool, clients, (tx) => tx.query("select 1 / 0")).catch(() => undefined);
    expect((await pool.query("select 1 from clients")).rowCount).toBe(0);
  });
  test("tokens are shown to their tenant and written by their role alone; secrets are read by theirs", async () => {
    const pool = database.pool();
    await transaction(pool, [clients[0]!], async (tx) =>
      expect((await tx.query("select label from tokens")).rows).toEqual([{ label: canary(1) }]),
    );
    for (const statement of [
      "update tokens set revoked_at = now()",
      "delete from tokens",
      "select * from client_secrets",
    ])
      await expect(transaction(pool, clients, (tx) => tx.query(statement))).rejects.toThrow(/permission denied/);
    const secrets = await transaction(pool, [clients[1]!], (tx) => tx.query("select client_id from client_secrets"), {
      role: "tributary_secrets",
    });
    expect(secrets.rows).toEqual([{ client_id: clients[1] }]);
  });
});

describe("with tenants", () => {
  test("a row of another tenant cannot be written", async () => {
    const pool = database.pool();
    const copied = (to: number) =>
      transaction(pool, [clients[0]!], async (tx) => {
        await tx.query(sql`
          insert into campaigns select * from jsonb_populate_recordset(null::campaigns, (
            select jsonb_agg(to_jsonb(c)
              || jsonb_build_object('client_id', ${to}::int, 'campaign_id', 900, 'version', 1))
            from campaigns c))`);
      });
    await expect(copied(clients[1]!)).rejects.toThrow(/violates row-level security policy for table "campaigns"/);
    await copied(clients[0]!);
    const known = { name: "x", email: "x@canary.example" };
    const asPartner = (clientIds: readonly number[]) =>
      transaction(pool, [clients[0]!], (tx) =>
        tx.query(sql`insert into partners (partner_id, version, change_id, valid_from, name, email, status,
            client_ids, known_to, payout_currency, payout_min_amount)
          values (900, 1, 1, now(), ${known.name}, ${known.email}, 'active', ${clientIds}, ${clientIds}, 'MXN', 0)`),
      );
    await expect(asPartner([clients[0]!, clients[1]!])).rejects.toThrow(/row-level security/);
  });
  test("a partner is seen by each of its clients and by a client that it left, whose newest row says so", async () => {
    const pool = database.pool();
    const shared = await writeReference(pool, "test", {
      partners: [
        { partner_id: -1, name: "Shared", email: "shared@canary.example", client_ids: [clients[0]!, clients[1]!] },
      ],
    });
    const partnerId = shared.idOf("partners", -1);
    await writeReference(pool, "test", { partners: [{ partner_id: partnerId, client_ids: [clients[1]!] }] });
    const seen = (client: number) =>
      transaction(pool, [client], async (tx) =>
        (
          await tx.query(
            sql`select client_ids from partners where partner_id = ${partnerId} order by version desc limit 1`,
          )
        ).rows.map((row) => row.client_ids),
      );
    expect(await seen(clients[0]!)).toEqual([[clients[1]]]);
    expect(await seen(clients[1]!)).toEqual([[clients[1]]]);
    expect(await seen(clients[2]!)).toEqual([]);
  });

  test(
    "600 interleaved requests of four tenants on two connections, with errors, timeouts and cancels, " +
      "see nothing of each other",
    async () => {
      const pool = database.pool({ max: 2 });
      const failures: string[] = [];
      const request = async (n: number): Promise<void> => {
        const client = n % 4;
        const tenants = n % 7 === 0 ? [clients[client]!, clients[(client + 1) % 4]!] : [clients[client]!];
        const mine = new Set(tenants.map((id) => canary(clients.indexOf(id) + 1)));
        const isFaulty = n % 10 === 3;
        try {
          await transaction(pool, tenants, async (tx) => {
            const names = await tx.query<{ name: string; client_id: number }>("select name, client_id from clients");
            expect(new Set(names.rows.map(({ name }) => name))).toEqual(mine);
            if (isFaulty && n % 20 === 3) await tx.query("select 1 / 0");
            if (isFaulty && n % 60 === 13) {
              await tx.query("set local statement_timeout = '50ms'");
              await tx.query("select pg_sleep(5)");
            }
            if (isFaulty) throw new Error("the request was cancelled");
            const rules = await tx.query<{ name: string }>("select name from rules");
            expect(new Set(rules.rows.map(({ name }) => name))).toEqual(mine);
          });
          expect(isFaulty).toBe(false);
        } catch (error) {
          if (!isFaulty) throw error;
          failures.push((error as { code?: string }).code ?? (error as Error).message);
        }
        // The next transaction on the connection names no tenants and sees no rows.
        if (n % 5 === 0) expect((await pool.query("select 1 from campaigns")).rowCount).toBe(0);
      };
      const numbers = Array.from({ length: 600 }, (_, n) => n);
      const lane = async (): Promise<void> => {
        for (let n = numbers.shift(); n !== undefined; n = numbers.shift()) await request(n);
      };
      await Promise.all(Array.from({ length: 12 }, lane));
      // Each kind of fault happened: division by zero, statement timeout and cancel.
      const count = (kind: string): number => failures.filter((failure) => failure === kind).length;
      expect([count("22012"), count("57014"), count("the request was cancelled")]).toEqual([30, 10, 20]);
    },
  );
});
