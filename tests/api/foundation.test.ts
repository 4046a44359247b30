// The common behaviour of all routes of the platform API: idempotency keys, cursors, closed bodies,
// files, other origins, limits, the audit and its description.
import { parse } from "csv-parse/sync";
import { describe, expect, test } from "vitest";
import { openPool, sql, transaction } from "../../infra/postgres/sql.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { apiSuite } from "../support/api-suite.ts";

const PORTAL = "https://portal.example";
const { env, owner, tokens, ask, as, running, fresh } = apiSuite({ PORTAL_URL: `${PORTAL}/` });

const create = (body: unknown, key?: string, role = "admin") =>
  as(role, "/api/clients", { method: "POST", body, ...(key && { headers: { "idempotency-key": key } }) });
const clientsCalled = async (slug: string): Promise<number> =>
  (await owner.query(sql`select count(*)::int as n from clients where slug = ${slug}`)).rows[0].n;

describe("an Idempotency-Key", () => {
  test("is answered with the first answer, to the byte, and nothing is done again", async () => {
    const [key, slug] = [fresh("key"), fresh("shop")];
    const first = await create({ name: "Once", slug }, key);
    const second = await create({ name: "Once", slug }, key);
    expect([first.status, second.status]).toEqual([201, 201]);
    expect(second.text).toBe(first.text);
    expect(second.headers.get("location")).toBe(first.headers.get("location"));
    expect(await clientsCalled(slug)).toBe(1);
    const { rows } = await owner.query(sql`select 1 from audit where entity = ${`client:${first.body.id}`}`);
    expect(rows).toHaveLength(1);
  });

  test("of twenty requests at once is one client and twenty equal answers", async () => {
    const [key, slug] = [fresh("key"), fresh("shop")];
    const answers = await Promise.all(Array.from({ length: 20 }, () => create({ name: "Race", slug }, key)));
    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect([answers[0]!.status, await clientsCalled(slug)]).toEqual([201, 1]);
  });

  test("stands for one request: another body is refused", async () => {
    const [key, slug] = [fresh("key"), fresh("shop")];
    await create({ name: "One", slug }, key);
    const other = await create({ name: "Other", slug: fresh("shop") }, key);
    expect([other.status, other.body.code]).toEqual([409, "idempotency_conflict"]);
  });

  test("is free again after a request that did nothing", async () => {
    const [key, taken] = [fresh("key"), fresh("shop")];
    await create({ name: "First", slug: taken });
    expect((await create({ name: "Second", slug: taken }, key)).status).toBe(409);
    expect((await create({ name: "Second", slug: fresh("shop") }, key)).status).toBe(201);
  });

  test("is seen by a transaction that names its owner, and by no other", async () => {
    const pool = openPool(env.POSTGRES_URL!, { max: 1 });
    await create({ name: "Kept", slug: fresh("shop") }, fresh("key"));
    const seen = (owner_: string | null) =>
      transaction(pool, null, async (tx) => {
        if (owner_ !== null) await tx.query(sql`select set_config('app.owner', ${owner_}, true)`);
        return (await tx.query("select distinct owner from idempotency_keys")).rows.map(({ owner: one }) => one);
      });
    const { rows } = await owner.query("select owner from idempotency_keys limit 1");
    expect([await seen(null), await seen("user:0"), await seen(rows[0].owner)]).toEqual([[], [], [rows[0].owner]]);
    await pool.end();
  });

  test("has 1 to 128 visible characters", async () => {
    for (const key of ["x".repeat(129), "a b"])
      expect((await create({ name: "x", slug: fresh("s") }, key)).status).toBe(400);
  });

  test("whose first request does not end makes its twins wait 10 s, and others are served meanwhile", async () => {
    const [key, slug] = [fresh("key"), fresh("shop")];
    const holder = await owner.connect();
    try {
      await holder.query("begin");
      const { rows } = await holder.query(
        "select user_id from users where email = 'admin@demo.tributary.test' and removed_at is null",
      );
      await holder.query(sql`insert into idempotency_keys (owner, key, request)
        values (${`user:${rows[0].user_id}`}, ${key}, ${Buffer.alloc(32)})`);
      const began = performance.now();
      const twins = Array.from({ length: 12 }, () => create({ name: "Twin", slug }, key));
      await new Promise((resolve) => setTimeout(resolve, 500));
      expect((await as("viewer", "/api/clients?limit=1")).status).toBe(200);
      const answers = await Promise.all(twins);
      expect(performance.now() - began).toBeGreaterThan(9_900);
      expect(answers.map(({ status }) => status)).toEqual(Array(12).fill(503));
      expect(answers[0]!.headers.get("retry-after")).toBe("5");
    } finally {
      await holder.query("rollback");
      holder.release();
    }
    expect([(await create({ name: "Twin", slug }, key)).status, await clientsCalled(slug)]).toEqual([201, 1]);
  });
});

describe("a request is closed", () => {
  const good = () => ({ name: "A", slug: fresh("shop") });
  test.each([
    [{ role: "admin" }, "/role"],
    [{ client_id: 1 }, "/client_id"],
    [{ id: 7 }, "/id"],
    [{ version: 9 }, "/version"],
    [{ created_at: "2020-01-01T00:00:00Z" }, "/created_at"],
    [{ status: "archived" }, "/status"],
    [{ attribution: { click_window_days: 30, role: "admin" } }, "/attribution/role"],
    [{ attribution: { click_window_days: 91 } }, "/attribution/click_window_days"],
    [{ attribution: { identity_link: "true" } }, "/attribution/identity_link"],
    [{ retention_months: "24" }, "/retention_months"],
    [{ retention_months: 1.5 }, "/retention_months"],
    [{ currency: "XXQ" }, "/currency"],
    [{ fallback_url: "javascript:alert(1)" }, "/fallback_url"],
    [{ fallback_url: "https://me:pass@shop.example/" }, "/fallback_url"],
    [{ name: "a\u202egnp.exe" }, "/name"],
    [{ name: "a\u0007" }, "/name"],
    [{ name: " \u00a0 " }, "/name"],
    [{ name: 7 }, "/name"],
    [{ slug: "ѕhop" }, "/slug"],
    [{ slug: "a\n" }, "/slug"],
    [{ hold_days: { "a b": 1 } }, "/hold_days/a b"],
    [{ hold_days: [1] }, "/hold_days"],
  ])("to %j, with its place", async (more, pointer) => {
    const { status, body } = await create({ ...good(), ...more });
    expect([status, body.errors?.map((one: { pointer: string }) => one.pointer)]).toEqual([400, [pointer]]);
  });

  test.each([
    ['{"name":"a","slug":"shop-dup","slug":"shop-dup2"}', "/slug"],
    ['{"__proto__":{"role":"admin"},"name":"a","slug":"shop-p"}', "/__proto__"],
    ['{"constructor":{"prototype":{}},"name":"a","slug":"shop-c"}', "/constructor"],
    [JSON.stringify({ name: "a\0", slug: "shop-nul" }), "/name"],
    ['{"name":"\\ud800","slug":"shop-s"}', "/name"],
  ])("to %s, with its place", async (body, pointer) => {
    const answer = await create(body);
    expect([answer.status, answer.body.errors[0].pointer.slice(0, pointer.length)]).toEqual([
      400,
      pointer.slice(0, answer.body.errors[0].pointer.length),
    ]);
  });

  test.each([
    ["[]", 400],
    ["null", 400],
    ['"x"', 400],
    ["{", 400],
    ["", 400],
    [`[${"1,".repeat(1_000_000)}1]`, 413],
    [`{"name":${"[".repeat(60)}${"]".repeat(60)},"slug":"deep"}`, 400],
    [`{"name":"a","slug":"many","hold_days":{${Array.from({ length: 1_100 }, (_, n) => `"e${n}":1`).join()}}}`, 400],
  ])("to a body like %.30s: %i", async (body, status) => {
    const answer = await create(body);
    expect([answer.status, answer.headers.get("content-type")]).toEqual([
      status,
      "application/problem+json; charset=utf-8",
    ]);
  });

  test.each([
    ["?limit=1&limit=2", "/limit"],
    ["?status=active&status=all", "/status"],
    ["?limit=0", "/limit"],
    ["?limit=101", "/limit"],
    ["?limit=1e1", "/limit"],
    ["?sort=slug", "/sort"],
    ["?sort=name;drop", "/sort"],
    ["?client_id=1", "/client_id"],
    ["?role=admin", "/role"],
    ["?__proto__=1", "/__proto__"],
    ["?format=csv", "/format"],
    ["?q=%00", "/q"],
  ])("to the query %s, with its place", async (query, pointer) => {
    const { status, body } = await as("admin", `/api/clients${query}`);
    expect([status, body.errors[0].pointer]).toEqual([400, pointer]);
  });

  test("to ids that are none: they are unknown ones", async () => {
    const unknown = await as("admin", "/api/clients/2000000000");
    for (const id of ["0", "-1", "01", "1.0", "1e3", "2147483648", "99999999999", "abc", "1%20", "%C3%A9"]) {
      const { status, body } = await as("admin", `/api/clients/${id}`);
      expect([status, body.code, body.detail], id).toEqual([404, "not_found", unknown.body.detail]);
    }
  });
});

describe("a cursor", () => {
  test("goes on with its own list alone, and cannot be made or changed", async () => {
    for (const n of [1, 2, 3]) await create({ name: `Cursor ${n}`, slug: fresh("cursor") });
    const path = "/api/clients?q=cursor&sort=name&limit=1";
    const { body } = await as("admin", path);
    const cursor = body.next_cursor as string;
    expect((await as("admin", `${path}&cursor=${cursor}`)).status).toBe(200);
    expect((await as("admin", `${path.replace("limit=1", "limit=2")}&cursor=${cursor}`)).status).toBe(200);
    const bytes = Buffer.from(cursor, "base64url");
    const changed = Buffer.from(bytes);
    changed[changed.length - 2]! ^= 1;
    const place = Buffer.from(JSON.stringify(["", "0"]));
    const refused = [
      [path, changed.toString("base64url")],
      [path, bytes.subarray(0, -1).toString("base64url")],
      [path, `${cursor}=`],
      [path, Buffer.concat([bytes.subarray(0, 16), place]).toString("base64url")],
      [path, place.toString("base64url")],
      [path, "%27%3Bdrop%20table%20clients"],
      ["/api/clients?q=cursor&sort=-name", cursor],
      ["/api/clients?q=cursors&sort=name", cursor],
      ["/api/clients?sort=name", cursor],
      ["/api/jobs?limit=1", cursor],
    ];
    for (const [at, given] of refused) {
      const answer = await as("admin", `${at}&cursor=${given}`);
      expect([answer.status, answer.body.code, answer.body.errors[0].pointer], `${at} ${given}`).toEqual([
        400,
        "bad_cursor",
        "/cursor",
      ]);
    }
  });
});

describe("the audit", () => {
  test("is a file for spreadsheets: nothing in it becomes a formula, and no line breaks it", async () => {
    const entity = fresh("file");
    const evil = ['=cmd|"/c calc"!A1', "+1", "-1", "@x", "\t=1", "\r=1", 'plain "quoted", with\r\nlines', "ñandú €"];
    for (const action of evil)
      await owner.query(sql`insert into audit (actor, role, action, entity, request_id)
        values (${action}, 'admin', 'file.tested', ${entity}, 'r')`);
    for (const [path, headers] of [
      [`/api/audit?entity=${entity}&sort=at&format=csv`, {}],
      [`/api/audit?entity=${entity}&sort=at`, { accept: "text/csv" }],
    ] as const) {
      const token = tokens.admin!;
      const answer = await fetch(`${running().url}${path}`, {
        headers: { ...headers, authorization: `Bearer ${token}` },
      });
      const bytes = Buffer.from(await answer.arrayBuffer());
      expect(answer.headers.get("content-type")).toBe("text/csv; charset=utf-8");
      expect(answer.headers.get("content-disposition")).toMatch(
        /^attachment; filename="audit-all-all-\d{4}-\d\d-\d\d\.csv"$/,
      );
      expect([...bytes.subarray(0, 3)]).toEqual([0xef, 0xbb, 0xbf]);
      const rows = parse(bytes, { bom: true, columns: true, record_delimiter: "\r\n" }) as Record<string, string>[];
      expect(rows.map(({ actor }) => actor)).toEqual(
        evil.map((text) => (/^[=+\-@\t\r]/.test(text) ? `'${text}` : text)),
      );
      expect(rows[0]!.day).toMatch(/^\d{4}-\d\d-\d\d$/);
    }
    const limited = await as("admin", `/api/audit?entity=${entity}&format=csv&limit=1`);
    expect([limited.status, limited.body.errors[0].pointer]).toEqual([400, "/limit"]);
  });

  test("as a file is written three at a time; the next reader is asked to come again", async () => {
    const entity = fresh("slow");
    await owner.query(sql`insert into audit (actor, role, action, entity, request_id, after)
      select 'x', 'admin', 'file.tested', ${entity}, 'r', jsonb_build_object('pad', repeat('x', 2000))
      from generate_series(1, 20000)`);
    const open = (role = "admin") =>
      fetch(`${running().url}/api/audit?entity=${entity}&format=csv`, {
        headers: { authorization: `Bearer ${tokens[role]}` },
      });
    // One user writes two at a time.
    const readers = [await open(), await open(), await open("viewer")];
    const fourth = await open("viewer");
    expect([readers.map(({ status }) => status), fourth.status]).toEqual([[200, 200, 200], 503]);
    expect(fourth.headers.get("retry-after")).toBe("5");
    await Promise.all(readers.map(({ body }) => body!.cancel()));
    const isFree = async () => {
      const { status, body } = await open();
      await body!.cancel();
      return status;
    };
    await expect.poll(isFree, { timeout: 10_000 }).toBe(200);
  });

  test("as a file is one snapshot, and one that breaks off never ends politely", async () => {
    const entity = fresh("large");
    await owner.query(sql`insert into audit (actor, role, action, entity, request_id, after)
      select 'x', 'admin', 'file.tested', ${entity}, 'r', jsonb_build_object('n', n, 'pad', repeat('x', 2000))
      from generate_series(1, 20000) n`);
    const open = async () => {
      const answer = await fetch(`${running().url}/api/audit?entity=${entity}&format=csv`, {
        headers: { authorization: `Bearer ${tokens.admin}` },
      });
      return { status: answer.status, reader: answer.body!.getReader() };
    };
    const rest = async (reader: ReadableStreamDefaultReader<Uint8Array>): Promise<number> => {
      // A part may end between the two bytes of a line end.
      const parts: Uint8Array[] = [];
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return Buffer.concat(parts).toString("latin1").split("\r\n").length - 1;
        parts.push(value);
      }
    };
    const whole = await open();
    await owner.query(sql`delete from audit where entity = ${entity} and (after->>'n')::int % 2 = 0`);
    expect([whole.status, await rest(whole.reader)]).toEqual([200, 20_001]);
    const reading = `from pg_stat_activity
      where application_name = 'tributary-api-test-figures' and query like 'fetch % from every_row'`;
    // The last byte is sent before its transaction ends.
    await until("the whole file is over", 30_000, async () =>
      expect((await owner.query(`select pid ${reading}`)).rows).toEqual([]),
    );
    const cut = await open();
    const { value } = await cut.reader.read();
    expect(value!.length).toBeGreaterThan(0);
    const killed = await owner.query(`select pg_terminate_backend(pid) as done ${reading}`);
    expect(killed.rows).toEqual([{ done: true }]);
    await expect(rest(cut.reader)).rejects.toThrow();
    expect((await as("admin", `/api/audit?entity=${entity}&limit=1`)).status).toBe(200);
  });

  test("shows a viewer no address, and lets it find none", async () => {
    await create({ name: "Seen", slug: fresh("shop") });
    const { body } = await as("viewer", "/api/audit?action=client.created&limit=1");
    expect(body.data[0]).toMatchObject({ actor: "a***@demo.tributary.test", ip: "***" });
    expect((await as("admin", "/api/audit?action=client.created&limit=1")).body.data[0]).toMatchObject({
      actor: "admin@demo.tributary.test",
    });
    const asked = await as("viewer", "/api/audit?actor=admin@demo.tributary.test");
    expect([asked.status, asked.body.errors[0].pointer]).toEqual([400, "/actor"]);
  });

  test("is of a range of days of Mexico City", async () => {
    for (const [query, code] of [
      ["from=2026-02-01&to=2026-01-01", "bad_range"],
      ["from=2020-01-01&to=2026-01-01", "range_too_long"],
    ])
      expect((await as("admin", `/api/audit?${query}`)).body.code).toBe(code);
    expect((await as("admin", "/api/audit?from=2020-01-01&to=2020-01-31")).body.data).toEqual([]);
    expect((await as("admin", "/api/audit?from=2026-02-30")).status).toBe(400);
  });

  test("cannot be changed or deleted by what writes it", async () => {
    const pool = openPool(env.POSTGRES_URL!, { max: 1 });
    for (const statement of ["update audit set actor = 'x'", "delete from audit", "truncate audit"])
      await expect(pool.query(statement)).rejects.toThrow(/permission denied/);
    await pool.end();
  });
});

describe("the own account", () => {
  test.each(["admin", "manager", "partner", "client", "viewer"])("%s reads and changes it", async (role) => {
    const { status, body } = await as(role, "/api/auth/me");
    expect(status).toBe(200);
    expect(body).toMatchObject({ email: `${role}@demo.tributary.test`, locale: expect.stringMatching(/^(es|en)$/) });
    expect(body.permissions).toContain("GET /api/auth/me");
    expect(body.permissions.includes("POST /api/clients")).toBe(role === "admin");
    expect(body.client_ids === null).toBe(["admin", "viewer"].includes(role));
    const changed = await as(role, "/api/auth/me", { method: "PATCH", body: { locale: "en" } });
    expect([changed.status, changed.body]).toEqual([200, { ...body, locale: "en" }]);
    expect((await as(role, "/api/auth/me", { method: "PATCH", body: { locale: "es", name: body.name } })).body).toEqual(
      { ...body, locale: "es" },
    );
    for (const more of [{ role: "admin" }, { client_ids: [1] }, { partner_id: 1 }, { email: "x@y.example" }])
      expect((await as(role, "/api/auth/me", { method: "PATCH", body: more })).body.errors[0].pointer).toBe(
        `/${Object.keys(more)[0]}`,
      );
    const { rows } = await owner.query(
      sql`select after, client_id from audit where entity = ${`user:${body.id}`} order by audit_id desc limit 1`,
    );
    expect(rows[0]).toEqual({ after: { name: "redacted", locale: "es" }, client_id: null });
  });
});

describe("other origins", () => {
  test("only pages of the portal may read answers and send writes", async () => {
    for (const origin of [PORTAL, "https://evil.example", `${PORTAL}.evil.example`, "null"]) {
      const isPortal = origin === PORTAL;
      const answer = await as("admin", "/api/auth/me", { headers: { origin } });
      expect(answer.headers.get("access-control-allow-origin")).toBe(isPortal ? PORTAL : null);
      expect(answer.headers.get("access-control-allow-credentials")).toBeNull();
      expect(answer.headers.get("vary")).toContain("Origin");
      const preflight = await ask("/api/clients/1", { method: "OPTIONS", headers: { origin } });
      expect([preflight.status, preflight.headers.get("access-control-allow-methods")]).toEqual([
        204,
        isPortal ? "GET, HEAD, PATCH, DELETE, OPTIONS" : null,
      ]);
    }
    const refused = await ask("/api/clients", { headers: { origin: PORTAL } });
    expect([refused.status, refused.headers.get("access-control-allow-origin")]).toEqual([401, PORTAL]);
  });
});

describe("a PATCH", () => {
  test("may be called a merge-patch, and nothing else", async () => {
    for (const [type, status] of [
      ["application/merge-patch+json", 200],
      ["application/json", 200],
      ["application/json-patch+json", 415],
      ["text/plain", 415],
    ] as const) {
      const headers = { "content-type": type };
      const answer = await as("client", "/api/auth/me", { method: "PATCH", body: { locale: "es" }, headers });
      expect([type, answer.status]).toEqual([type, status]);
    }
    const posted = await as("admin", "/api/clients", {
      method: "POST",
      body: { name: "x", slug: fresh("shop") },
      headers: { "content-type": "application/merge-patch+json" },
    });
    expect(posted.status).toBe(415);
  });
});

describe("jobs", () => {
  test("are shown to those who see their client, and a foreign one is an unknown one", async () => {
    const { body: own } = await as("manager", "/api/clients?limit=1");
    const foreign = (await create({ name: "Foreign", slug: fresh("shop") })).body.id;
    const add = async (client: number) =>
      (
        await owner.query(sql`
          insert into jobs (job_id, kind, client_id, key, input, created_by)
          values ('job_' || gen_random_uuid(), 'backfill', ${client}, ${fresh("k")}, '{}', 'ana@example.com')
          returning job_id`)
      ).rows[0].job_id as string;
    const [mine, hidden] = [await add(own.data[0].id), await add(foreign)];
    const { status, body } = await as("manager", `/api/jobs/${mine}`);
    expect([status, body]).toEqual([
      200,
      {
        ...{ id: mine, kind: "backfill", client_id: own.data[0].id, status: "queued", result: null, error: null },
        ...{ progress: { done: 0, total: null }, created_by: "ana@example.com", finished_at: null },
        created_at: expect.stringMatching(/Z$/),
      },
    ]);
    expect((await as("viewer", `/api/jobs/${mine}`)).body.created_by).toBe("a***@example.com");
    const headers = { "x-request-id": "same" };
    const unknown = `job_${"0".repeat(8)}-0000-4000-8000-${"0".repeat(12)}`;
    const [one, other] = [
      await as("manager", `/api/jobs/${hidden}`, { headers }),
      await as("manager", `/api/jobs/${unknown}`, { headers }),
    ];
    expect([one!.status, one!.text.replace(hidden, "N")]).toEqual([404, other!.text.replace(unknown, "N")]);
    const listed = async (role: string) =>
      (await as(role, "/api/jobs?kind=backfill&limit=100")).body.data.map(({ id }: { id: string }) => id);
    expect(await listed("manager")).toContain(mine);
    expect(await listed("manager")).not.toContain(hidden);
    expect(await listed("admin")).toEqual(expect.arrayContaining([mine, hidden]));
    expect((await as("manager", `/api/jobs?client_id=${foreign}`)).body.data).toEqual([]);
    for (const role of ["partner", "client"]) expect((await as(role, `/api/jobs/${mine}`)).status).toBe(403);
  });

  test("say money as decimals with its currency, also in the undo of an import, which stores minor units", async () => {
    const counts = { taken_back: 2, uncredited: 0, copies: 0, decided: 0, no_sale: 0, not_stored: 0 };
    const kept = JSON.stringify({ ...counts, sums: { MXN: "129950", CLP: "500" } });
    const { rows } = await owner.query(sql`
      insert into jobs (job_id, kind, client_id, key, input, created_by, status, result, finished_at)
      select 'job_' || gen_random_uuid(), 'import_undo', client_id, ${fresh("k")}, '{}', 'ana@example.com', 'completed',
        ${kept}::jsonb, clock_timestamp() from clients limit 1 returning job_id`);
    const sums = [
      { currency: "CLP", amount: "500" },
      { currency: "MXN", amount: "1299.50" },
    ];
    const { body } = await as("admin", `/api/jobs/${rows[0].job_id}`);
    expect(body.result).toEqual({ ...counts, sums });
    const { data } = (await as("admin", "/api/jobs?kind=import_undo&limit=100")).body;
    expect(data.find(({ id }: { id: string }) => id === rows[0].job_id).result.sums).toEqual(sums);
  });
});

describe("limits", () => {
  test("sixty files a minute, and other requests go on", async () => {
    const email = `${fresh("files")}@people.example`;
    const user = { email, name: "Files", role: "viewer", all_clients: true };
    expect((await as("admin", "/api/users", { method: "POST", body: user })).status).toBe(201);
    const token = await running().signed({ sub: email, email });
    const statuses = new Map<number, number>();
    for (let n = 0; n < 62; n += 1) {
      const { status, headers } = await ask("/api/audit?entity=none&format=csv", { token });
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      if (status === 429) expect(Number(headers.get("retry-after"))).toBeLessThanOrEqual(5);
    }
    expect(Object.fromEntries(statuses)).toEqual({ 200: 60, 429: 2 });
    expect((await ask("/api/clients?limit=1", { token })).status).toBe(200);
    await owner.query(sql`delete from users where email = ${email}`);
  });
});

describe("the description", () => {
  test("names every route that is served, with its roles and what they are shown", async () => {
    const { status, body, headers } = await ask("/openapi.json");
    expect([status, body.openapi, headers.get("cache-control")]).toEqual([200, "3.1.0", "public, max-age=300"]);
    const patch = body.paths["/api/clients/{id}"].patch;
    expect(Object.keys(patch["x-roles"])).toEqual(["admin", "client_manager"]);
    expect(patch["x-roles"].admin.fields).toContain("ingest_tokens");
    expect(patch["x-roles"].client_manager.fields).not.toContain("ingest_tokens");
    expect(patch.requestBody.content["application/json"].schema.additionalProperties).toBe(false);
    expect(patch.responses["409"].description).toContain("version_conflict");
    const successes = (path: string): readonly string[] =>
      Object.keys(body.paths[path].post.responses).filter((code) => code.startsWith("2"));
    expect(successes("/api/rules/{id}/backfill")).toEqual(["200", "202"]);
    expect(successes("/api/clients/{id}/relo-budgets")).toEqual(["200", "201"]);
    expect(body.paths["/api/audit"].get.parameters.map(({ name }: { name: string }) => name)).toEqual(
      expect.arrayContaining(["actor", "from", "sort", "limit", "cursor", "format"]),
    );
    const operations = Object.values(body.paths).flatMap((path) => Object.values(path as Record<string, any>));
    expect(new Set(operations.map(({ operationId }) => operationId)).size).toBe(operations.length);
    for (const [path, methods] of Object.entries(body.paths as Record<string, Record<string, any>>))
      for (const { parameters } of Object.values(methods))
        expect(
          parameters.filter((one: { in: string }) => one.in === "path").map(({ name }: { name: string }) => name),
        ).toEqual([...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name));
    const references = [...JSON.stringify(body).matchAll(/"\$ref":"#([^"]*)"/g)].map(([, pointer]) => pointer!);
    for (const pointer of new Set(references))
      expect(
        pointer
          .split("/")
          .slice(1)
          .reduce((at, part) => at?.[part], body),
        pointer,
      ).toBeDefined();
    const { body: me } = await as("admin", "/api/auth/me");
    for (const permission of me.permissions) {
      const [method, path] = permission.split(" ");
      expect(body.paths[path.replace(/:(\w+)/g, "{$1}")], permission).toHaveProperty(method.toLowerCase());
    }
  });

  test("is a page without scripts and without anything from elsewhere", async () => {
    const { status, text, headers } = await ask("/docs");
    expect([status, headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
    expect(headers.get("content-security-policy")).toMatch(/^default-src 'none'; style-src 'unsafe-inline'/);
    expect(text).toContain("PATCH /api/clients/{id}");
    expect(text).not.toMatch(/<script|<link|src=|@import|url\(|href="http/i);
  });
});
