// Each app has one login: the roles that it may take on, the refusal of all others, and every right
// that it has, as itself or by a role.
import { readFileSync } from "node:fs";
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
  const { role, base, groups } = appLogins[app];

  test("takes on the roles that it needs, and is refused every other", async () => {
    for (const group of groupRoles) {
      const taken = asGroup(role, group, "select 1");
      if (groups.includes(group)) await expect(taken, group).resolves.toBeDefined();
      else await expect(taken, group).rejects.toThrow(`permission denied to set role "${group}"`);
    }
    await expect(asGroup(role, "tributary_app", "select 1")).rejects.toThrow(/permission denied to set role/);
    await expect(asGroup(role, "tributary_owner", "select 1")).rejects.toThrow(/permission denied to set role/);
  });

  test("sees nothing of its roles by accident", async () => {
    const clients = asLogin(role, async (tx) => (await tx.query("select 1 from clients")).rows);
    if (base === "tributary_app" || app === "ingest") expect(await clients).toEqual([]);
    else await expect(clients).rejects.toThrow(/permission denied/);
    await expect(asLogin(role, (tx) => tx.query("select 1 from users"))).rejects.toThrow(/permission denied/);
    await expect(asLogin(role, (tx) => tx.query("select 1 from client_secrets"))).rejects.toThrow(/permission denied/);
    await expect(asLogin(role, (tx) => tx.query("create table mine (n int)"))).rejects.toThrow(/permission denied/);
  });
});

/**
 * Rights to tables that a login has as itself and by the roles that it may take on: `table right`,
 * and the columns where it has the right to some of them.
 */
const rightsOf = async (
  login: string,
  rights: readonly string[],
  db: Pick<PoolClient, "query"> = database.adminPool,
): Promise<readonly string[]> => {
  const { rows } = await db.query<{ held: string }>(
    `with roles as (select oid from pg_roles where pg_has_role($1, oid, 'SET')),
      whole as (
        select distinct c.oid, "right" from pg_class c, roles r, unnest($2::text[]) as "right"
        where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'v', 'm')
          and has_table_privilege(r.oid, c.oid, "right")),
      part as (
        select a.attrelid as oid, "right", string_agg(distinct a.attname, ', ' order by a.attname) as columns
        from pg_attribute a join pg_class c on c.oid = a.attrelid, roles r, unnest($2::text[]) as wanted ("right")
        where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'v', 'm') and a.attnum > 0
          and not a.attisdropped and "right" not in ('DELETE', 'TRUNCATE')
          and has_column_privilege(r.oid, a.attrelid, a.attnum, "right")
          and not exists (select from whole w where w.oid = a.attrelid and w."right" = wanted."right")
        group by 1, 2)
    select oid::regclass || ' ' || "right" as held from whole
    union all select oid::regclass || ' ' || "right" || ' (' || columns || ')' from part order by held`,
    [login, rights],
  );
  return rows.map(({ held }) => held);
};

describe("an edge writes what it takes and no more", () => {
  const host = [
    ...["ingest_path_checks DELETE", "ingest_path_checks INSERT", "installation_secrets INSERT"],
    ...["secret_holders DELETE", "secret_holders INSERT", "secret_holders UPDATE"],
  ];
  const quotas = ["intake_usage INSERT", "intake_usage UPDATE (bytes, events, measured_at, refused, refused_at)"];
  const begun = "client_id, created_by, filename, import_id, partner_id, source, status";
  const worked = [
    ...["accepted", "bytes", "checkpoint", "duplicate", "error", "error_codes", "errors_erase_at", "errors_removed_at"],
    ...["fence", "file_removed_at", "file_sums", "finished_at", "heartbeat_at", "lease_until", "leased_by", "parts"],
    ...["rejected", "same_file_as", "sha256", "started_at", "status", "stored_sums", "total"],
  ].join(", ");
  const files = [
    ...["import_rows DELETE", "import_rows INSERT", "outbox INSERT"],
    ...[`imports INSERT (${begun})`, `imports UPDATE (${worked})`],
    ...["upload_parts INSERT", "upload_parts UPDATE (stored_at)"],
  ];
  const pages = [
    ...["client_secrets UPDATE (recording_vault)", "pixel_sightings DELETE", "pixel_sightings INSERT"],
    ...["pixel_sightings UPDATE", "recording_chunks INSERT", "recording_keys INSERT", "recordings INSERT"],
  ];
  const visits = "recordings UPDATE (bytes, chunks, consent, events, last_at)";
  /** Only the host of pixels: those of the release before count no senders. */
  const senders = ["recording_senders INSERT", "recording_senders UPDATE"];
  const requests = [
    ...["audit INSERT", "jobs INSERT", "postback_marks INSERT", "pulls INSERT", "replays INSERT"],
    ...["source_payloads DELETE", "source_payloads INSERT"],
    ...["source_payloads UPDATE (code, outcome, received_at)", "tokens UPDATE (last_used_at)"],
  ];
  const written: Readonly<Record<string, readonly string[]>> = {
    // As pixel and upload hosts of the release before, which log in as this one.
    ingest: [...host, ...quotas, ...files, ...pages, visits, ...requests],
    links: [...host, ...quotas],
    pixel: [...host, ...quotas, ...pages, ...senders, visits],
    upload: [...host, ...files],
  };
  test.each(Object.entries(written))("%s", async (app, expected) => {
    const { role } = appLogins[app as AppLogin];
    expect(await rightsOf(role, ["INSERT", "UPDATE", "DELETE", "TRUNCATE"])).toEqual([...expected].sort());
  });

  test("one release later ingest takes files and works none off, and stores nothing of pages", async () => {
    const [, later] = /### One release later[\s\S]*?```sql\n([\s\S]*?)```/.exec(
      readFileSync("docs/security.md", "utf8"),
    )!;
    const tx = await database.adminPool.connect();
    try {
      await tx.query("begin");
      await tx.query(later!);
      const queued = "bytes, error, finished_at, parts, same_file_as, sha256, status";
      expect(await rightsOf(appLogins.ingest.role, ["INSERT", "UPDATE", "DELETE", "TRUNCATE"], tx)).toEqual(
        [...host, ...quotas, `imports INSERT (${begun})`, `imports UPDATE (${queued})`, ...requests].sort(),
      );
      const read = await rightsOf(appLogins.ingest.role, ["SELECT"], tx);
      expect(read).toContain("imports SELECT");
      for (const table of [...["recordings", "recording_keys", "client_secrets"], ...["import_rows", "upload_parts"]])
        expect(read.filter((held) => held.startsWith(`${table} `))).toEqual([]);
      for (const app of ["pixel", "upload"] as const)
        expect(await rightsOf(appLogins[app].role, ["UPDATE", "DELETE"], tx)).toEqual(
          written[app]!.filter((held) => /UPDATE|DELETE/.test(held)).sort(),
        );
    } finally {
      await tx.query("rollback");
      tx.release();
    }
  });

  test("links, pixel and upload read no secret, token, money or letter", async () => {
    const read = async (app: AppLogin) =>
      (await rightsOf(appLogins[app].role, ["SELECT"])).map((held) => held.split(" ")[0]!);
    const reference = await read("links");
    for (const table of [
      "client_secrets",
      "tokens",
      "users",
      "jobs",
      "audit",
      "conversions",
      "memory_state",
      "sources",
    ])
      expect(reference).not.toContain(table);
    const beside = async (app: AppLogin) => (await read(app)).filter((table) => !reference.includes(table));
    expect(await beside("pixel")).toEqual([
      ...["client_secrets", "pixel_sightings", "recording_chunks", "recording_keys", "recording_senders"],
      "recordings",
    ]);
    expect(await beside("upload")).toEqual(["import_rows", "imports", "upload_parts", "uploads"]);
  });

  test.each([
    ["a pixel host", "pixel", "tributary_pixel"],
    ["one of the release before", "ingest", "tributary_edge"],
  ] as const)("%s makes the vault of a client's recordings, and can neither replace nor remove it", async (...of) => {
    const [, login, role] = of;
    const { adminPool } = database;
    await adminPool.query(`insert into client_secrets (client_id, hmac_secret) values (7, repeat('x', 40))
      on conflict (client_id) do update set recording_vault = null`);
    const saved = async (from: string, to: string) => {
      await adminPool.query(`update client_secrets set recording_vault = ${from} where client_id = 7`);
      return asLogin(appLogins[login].role, async (tx) => {
        await tx.query(`set local role ${role}; set local app.clients = '7'`);
        return (await tx.query(`update client_secrets set recording_vault = ${to} where client_id = 7`)).rowCount;
      });
    };
    expect([await saved("null", "'v1.y'"), await saved("'v1.y'", "'v1.z'"), await saved("'v1.y'", "null")]).toEqual([
      ...[1, 0, 0],
    ]);
    await adminPool.query("delete from client_secrets where client_id = 7");
  });

  test("of what is sealed under the secret, links and upload read nothing, and pixel what it seals", async () => {
    const { rows: columns } = await database.adminPool.query<{ at: string }>(
      `select attrelid::regclass || '.' || attname as at from pg_attribute join pg_class c on c.oid = attrelid
       where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and attname ~ '(^|_)(sealed|vault|secret)$'
         and not relispartition order by at`,
    );
    // A new sealed column must be listed here, and in docs/decisions/0066-edges-keep-the-secret.md.
    expect(columns.map(({ at }) => at)).toEqual([
      ...["client_secrets.hmac_secret", "client_secrets.lead_vault", "client_secrets.recording_vault"],
      ...["lead_keys.sealed", "lead_people.sealed", "payment_processors.sealed", "recording_keys.sealed"],
      ...["source_payloads.sealed", "sources.pull_secret", "sources.secret", "sources.vault"],
    ]);
    const read = async (app: AppLogin): Promise<readonly string[]> => {
      const { rows } = await database.adminPool.query<{ at: string }>(
        `select distinct at from unnest($2::text[]) as at, pg_roles r where pg_has_role($1, r.oid, 'SET')
           and has_column_privilege(r.oid, split_part(at, '.', 1), split_part(at, '.', 2), 'SELECT') order by at`,
        [appLogins[app].role, columns.map(({ at }) => at)],
      );
      return rows.map(({ at }) => at);
    };
    expect(await read("links")).toEqual([]);
    expect(await read("upload")).toEqual([]);
    expect(await read("pixel")).toEqual(["client_secrets.recording_vault", "recording_keys.sealed"]);
    // Nothing of leads, and no secret of a client.
    expect(await read("ingest")).toEqual([
      ...["client_secrets.recording_vault", "payment_processors.sealed", "recording_keys.sealed"],
      ...["sources.secret", "sources.vault"],
    ]);
  });

  test.each([
    ["upload", "tributary_upload"],
    ["ingest", "tributary_edge"],
  ] as const)("%s works an open import off, and notes of an ended one only what was removed", async (app, role) => {
    await database.adminPool.query(`
      insert into imports (import_id, client_id, partner_id, filename, source, status, created_by, finished_at)
      select 'imp_' || gen_random_uuid(), 7, 1, 'a.csv', 'put', status, 'test', ended
      from (values ('queued', null), ('completed', clock_timestamp())) as given (status, ended)`);
    const changed = (set: string, status: string) =>
      asLogin(appLogins[app].role, async (tx) => {
        await tx.query(`set local role ${role}`);
        return (await tx.query(`update imports set ${set} where status = '${status}'`)).rowCount;
      });
    expect(await changed("status = 'failed', finished_at = clock_timestamp(), error = 'x'", "queued")).toBe(1);
    expect(await changed("file_removed_at = clock_timestamp(), errors_erase_at = null", "completed")).toBe(1);
    for (const set of ["status = 'queued', finished_at = null", "accepted = 9, total = 9", "sha256 = null"])
      await expect(changed(set, "completed"), set).rejects.toThrow(/has ended/);
    for (const set of ["partner_id = 2", "client_id = 8", "mapping = '{}'", "created_by = 'x'", "undone_at = now()"])
      await expect(changed(set, "queued"), set).rejects.toThrow(/permission denied/);
    await database.adminPool.query("delete from imports where client_id = 7");
  });

  test("of what is announced, audited and asked for, only its own kind", async () => {
    const as = (app: AppLogin, statement: string) =>
      asLogin(appLogins[app].role, async (tx) => {
        await tx.query("set local app.clients = '7'");
        return tx.query(statement);
      });
    const outbox = (topic: string, client: number) =>
      `insert into outbox (topic, client_id, record) values ('${topic}', ${client}, '{}')`;
    const audit = (action: string) => `insert into audit (actor, role, action, client_id, entity, request_id)
      values ('token:1', 'token', '${action}', 7, 'rule:1', 'r')`;
    const job = (kind: string) => `insert into jobs (job_id, kind, client_id, key, input, created_by)
      values ('job_' || gen_random_uuid(), '${kind}', 7, 'k', '{}', 'token:1')`;
    await expect(as("upload", outbox("domain.changes", 7))).resolves.toBeDefined();
    await expect(as("ingest", audit("rule.backfill_started"))).resolves.toBeDefined();
    await expect(as("ingest", job("backfill"))).resolves.toBeDefined();
    for (const [app, statement] of [
      ["upload", outbox("domain.changes", 8)],
      ["upload", outbox("events.raw", 7)],
      ["ingest", outbox("reference.changes", 7)],
      ["ingest", audit("client.updated")],
      ["ingest", job("import_undo")],
    ] as const)
      await expect(as(app, statement), statement).rejects.toThrow(/row-level security/);
  });
});

describe("what stages remember of money", () => {
  const tables = ["memory_state", "memory_outcome", "memory_mark"];
  const columns = `"offset", topic, partition`;
  const inserts = [
    `insert into memory_state (stage, key, version, event_id, value, ${columns})
      values ('s', 'k', 1, 'e', '', 1, 't', 0)`,
    `insert into memory_outcome (stage, event_id, outcome, ${columns}) values ('s', 'e', '', 1, 't', 0)`,
    `insert into memory_mark (stage, ${columns}) values ('s', 1, 't', 0)`,
  ];
  const updates = ["update memory_state set version = 2", `update memory_mark set "offset" = 2`];
  const changed = (login: string, statement: string) =>
    asLogin(login, async (tx) => (await tx.query(statement)).rowCount);
  beforeAll(async () => {
    for (const statement of inserts) await database.adminPool.query(statement.replace("'s'", "'kept'"));
  });

  test.each(["tributary_app_worker", "tributary_app_keeper", "tributary_app"])(
    "%s reads and writes it",
    async (login) => {
      for (const table of tables) expect(await changed(login, `select from ${table}`)).toBe(1);
      for (const statement of [...inserts, ...updates]) expect(await changed(login, statement)).toBe(1);
    },
  );
  test.each([
    ["tributary_app_api", "it", tables],
    ["tributary_app_ingest", "the orders alone", ["memory_state"]],
  ])("%s only reads %s", async (login, _, read) => {
    for (const table of tables)
      expect(await changed(login, `select from ${table}`), table).toBe(read.includes(table) ? 1 : 0);
    const { rows } = await asLogin(login, (tx) =>
      tx.query("select part from memory_load('kept', array['k'], array['e'], 't', 0)"),
    );
    expect(rows.map(({ part }) => `memory_${part}`).sort()).toEqual([...read].sort());
    for (const statement of inserts) await expect(changed(login, statement)).rejects.toThrow(/row-level|permission/);
    for (const statement of updates)
      expect(await changed(login, statement).catch(({ message }) => message)).toSatisfy(
        (result) => result === 0 || /permission denied/.test(String(result)),
      );
  });
  test.each(["tributary_app_links", "tributary_app_pixel", "tributary_app_upload"])("%s does not", async (login) => {
    for (const statement of [...tables.map((table) => `select from ${table}`), ...inserts, ...updates])
      await expect(changed(login, statement)).rejects.toThrow(/permission denied/);
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
    "select pull_secret from sources",
    "select * from sources",
    "update client_secrets set hmac_secret = 'x'",
  ])
    await expect(edge(statement), statement).rejects.toThrow(/permission denied/);
});

test("an edge of the release before works after the migration, without the rights of tributary_app", async () => {
  const { role } = appLogins.ingest;
  await database.adminPool.query(`grant tributary_app to ${role} with inherit true, set false`);
  await database.migrate();
  await expect(asLogin(role, (tx) => tx.query("select from conversions"))).rejects.toThrow(/permission denied/);
  // Pixels and uploads still log in as this one, and take on the role that they know.
  for (const statement of ["select from recordings", "select from imports", "select from uploads"])
    await expect(asGroup(role, "tributary_edge", statement)).resolves.toBeDefined();
});

test("a login that was given more by hand has it taken back by the next migration", async () => {
  const { role } = appLogins.worker;
  await database.adminPool.query(`grant tributary_tokens to ${role}`);
  await expect(asGroup(role, "tributary_tokens", "select 1")).resolves.toBeDefined();
  await database.migrate();
  await expect(asGroup(role, "tributary_tokens", "select 1")).rejects.toThrow(/permission denied to set role/);
});
