// Tokens of senders over HTTP: shown once, visible to those who see their client or partner, and
// useless once revoked.
import { userInfo } from "node:os";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { sql } from "../../infra/postgres/sql.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { openTokens, type Tokens } from "../../modules/access/tokens/live-tokens.ts";
import { createToken } from "../../modules/access/tokens/tokens.ts";
import { writeReference } from "../../modules/catalog/reference/writer.ts";
import { apiSuite } from "../support/api-suite.ts";
import { spawned } from "../support/e2e-product.ts";
import { expectWithin, msOf } from "../support/quickest.ts";

const { env, demo, pool, owner, as } = apiSuite();
const own = demo.clients[0].id as number;
/** A client and a partner that no manager has. */
let foreign: { readonly client: number; readonly partner: number };
/** A partner of the manager's client. */
let partner: number;
let edge: Tokens;
beforeAll(async () => {
  const { idOf } = await writeReference(pool, "test", {
    clients: [{ client_id: -1, slug: `far-${Date.now().toString(36)}`, name: "Far" }],
    partners: [
      { partner_id: -1, name: "Far", email: "far@people.example", client_ids: [-1] },
      { partner_id: -2, name: "Near", email: "near@people.example", client_ids: [own] },
    ],
  });
  foreign = { client: idOf("clients", -1), partner: idOf("partners", -1) };
  partner = idOf("partners", -2);
  edge = openTokens(pool);
  await edge.ready;
});
afterAll(() => edge.close());

const create = (body: object, role = "admin", headers: Record<string, string> = {}) =>
  as(role, "/api/tokens", { method: "POST", body, headers });
const end = (id: number, role = "admin", headers: Record<string, string> = {}) =>
  as(role, `/api/tokens/${id}`, { method: "DELETE", headers });
const listed = async (query: string, role = "admin"): Promise<readonly Record<string, any>[]> =>
  (await as(role, `/api/tokens?limit=100&${query}`)).body.data;
const auditOf = async (id: number) =>
  (
    await owner.query(
      sql`select action, client_id, before, after from audit where entity = ${`token:${id}`} order by audit_id`,
    )
  ).rows;
/** Whether an edge knows the token. */
const isKnown = (token: string): boolean => edge.find(token) !== undefined;
const becomesKnown = (token: string): Promise<void> => expect.poll(() => isKnown(token)).toBe(true);

describe("a token", () => {
  test("is shown once: neither a repeat, nor the list, nor the audit has it", async () => {
    const key = `token-${Date.now()}`;
    const body = { kind: "ingest", client_id: own, label: "Shop", client_side: true, requests_a_minute: 250 };
    const first = await create(body, "admin", { "idempotency-key": key });
    const { token, ...row } = first.body;
    expect([first.status, first.headers.get("location")]).toEqual([201, `/api/tokens/${row.id}`]);
    expect(token).toMatch(/^trb_ingest_[A-Za-z0-9_-]{43}$/);
    expect(row).toEqual({
      ...{ id: expect.any(Number), prefix: token.slice(0, 15), kind: "ingest", client_id: own, partner_id: null },
      ...{ label: "Shop", client_side: true, requests_a_minute: 250, last_used_at: null },
      created_at: expect.stringMatching(/^\d{4}-.*Z$/),
    });
    await becomesKnown(token);
    expect(edge.find(token)).toMatchObject({ client_id: own, requests_a_minute: 250, client_side: true });
    const again = await create(body, "admin", { "idempotency-key": key });
    expect([again.status, again.body]).toEqual([201, { ...row, token: null, secrets: "shown_once" }]);
    expect(await listed(`client_id=${own}`)).toContainEqual({ ...row, last_used_at: null });
    expect(await auditOf(row.id)).toMatchObject([
      { action: "token.created", client_id: own, after: { kind: "ingest", prefix: row.prefix, label: "Shop" } },
    ]);
    for (const table of ["tokens", "audit", "idempotency_keys", "outbox"]) {
      const { rows } = await owner.query(sql`
        select 1 from ${{ text: table, values: [] }} kept where strpos(kept::text, ${token}) > 0`);
      expect(rows, table).toEqual([]);
    }
  });

  test("that is revoked is dead everywhere within a second, and is not found again", async () => {
    let id = 0;
    await expectWithin(1_000, async () => {
      const { body } = await create({ kind: "ingest", client_id: own });
      id = body.id;
      await becomesKnown(body.token);
      expect((await end(id)).status).toBe(204);
      return msOf(() => until("the token is dead", 30_000, () => expect(isKnown(body.token)).toBe(false)));
    });
    expect((await end(id)).status).toBe(404);
    expect((await listed(`client_id=${own}`)).map((row) => row.id)).not.toContain(id);
    expect((await auditOf(id)).map(({ action }) => action)).toEqual(["token.created", "token.revoked"]);
  });

  test("of twenty that revoke it at once is revoked by one", async () => {
    const { id } = (await create({ kind: "ingest", client_id: own })).body;
    const answers = await Promise.all(Array.from({ length: 20 }, () => end(id)));
    expect(answers.map(({ status }) => status).sort()).toEqual([204, ...Array(19).fill(404)]);
    expect(await auditOf(id)).toHaveLength(2);
  });

  test("of a partner takes the place of the one before, and is seen by who sees one of its clients", async () => {
    const first = (await create({ kind: "upload", partner_id: partner }, "manager")).body;
    const second = (await create({ kind: "upload", partner_id: partner }, "manager")).body;
    expect(second).toMatchObject({ kind: "upload", client_id: null, partner_id: partner, requests_a_minute: null });
    expect((await listed(`partner_id=${partner}`, "manager")).map(({ id }) => id)).toEqual([second.id]);
    await becomesKnown(second.token);
    expect(isKnown(first.token)).toBe(false);
    expect((await end(second.id, "manager")).status).toBe(204);
  });

  test("has no field but those of the contract, and is made for no archived owner", async () => {
    const good = { kind: "ingest", client_id: own };
    for (const body of [
      { ...good, token: "trb_ingest_chosen" },
      { ...good, sha256: "00" },
      { ...good, partner_id: partner },
      { ...good, requests_a_minute: 10_001 },
      { ...good, requests_a_minute: 0 },
      { kind: "admin" },
      { kind: "service", label: "x" },
      { kind: "upload", partner_id: partner, requests_a_minute: 5 },
    ])
      expect((await create(body)).status, JSON.stringify(body)).toBe(400);
    const { idOf } = await writeReference(pool, "test", {
      clients: [{ client_id: -1, slug: `old-${Date.now().toString(36)}`, name: "Old", status: "archived" }],
    });
    const old = await create({ kind: "ingest", client_id: idOf("clients", -1) });
    expect([old.status, old.body.code]).toEqual([409, "client_archived"]);
  });
});

describe("on the command line", () => {
  const tributary = async (...args: readonly string[]) => {
    const { code, stdout, stderr } = await spawned(["dist/apps/cli/main.js", ...args], { ...process.env, ...env }).done;
    expect(code, stderr).toBe(0);
    return stdout;
  };

  test("every change leaves an audit row with the account that made it, and never the token", async () => {
    const { token, token_id } = JSON.parse(await tributary("tokens", "create", "--client", String(own), "--json"));
    await tributary("tokens", "limit", String(token_id), "--requests-a-minute", "600");
    await tributary("tokens", "revoke", String(token_id));
    const { body } = await as("admin", `/api/audit?entity=token:${token_id}&sort=at`);
    const actor = `${userInfo().username}@cli`;
    expect(body.data).toMatchObject([
      { action: "token.created", actor, client_id: own, after: { kind: "ingest", client_id: own } },
      { action: "token.limited", actor, before: { requests_a_minute: 100 }, after: { requests_a_minute: 600 } },
      { action: "token.revoked", actor, before: { kind: "ingest", requests_a_minute: 600 } },
    ]);
    expect(JSON.stringify(body)).not.toContain(token);
    const again = await spawned(["dist/apps/cli/main.js", "tokens", "revoke", String(token_id)], {
      ...process.env,
      ...env,
    }).done;
    expect([again.code, again.stderr.includes("there is no live token")]).toEqual([1, true]);
  }, 60_000);
});

describe("by role", () => {
  test("a manager sees and ends those of its clients; a foreign one is an unknown one, byte for byte", async () => {
    const { token_id: ofClient } = await createToken(pool, { kind: "ingest", label: "far", client_id: foreign.client });
    const { token_id: ofPartner } = await createToken(pool, {
      kind: "upload",
      label: "far",
      partner_id: foreign.partner,
    });
    const { token_id: operators } = await createToken(pool, { kind: "admin", label: "far" });
    const seen = (await listed("", "manager")).map(({ id }) => id);
    expect(seen.length).toBeGreaterThan(0);
    const same = { "x-request-id": "same" };
    const unknown = await end(2_000_000_000, "manager", same);
    expect(unknown.status).toBe(404);
    for (const id of [ofClient, ofPartner, operators]) {
      expect(seen).not.toContain(id);
      const hidden = await end(id, "manager", same);
      expect(hidden.status).toBe(404);
      expect(hidden.text.replaceAll(`/${id}`, "/N")).toBe(unknown.text.replaceAll("/2000000000", "/N"));
    }
    for (const [foreignBody, unknownBody] of [
      [
        { kind: "ingest", client_id: foreign.client },
        { kind: "ingest", client_id: 2_000_000_000 },
      ],
      [
        { kind: "upload", partner_id: foreign.partner },
        { kind: "upload", partner_id: 2_000_000_000 },
      ],
    ] as const) {
      const [hidden, none] = [await create(foreignBody, "manager", same), await create(unknownBody, "manager", same)];
      expect([hidden.status, hidden.text]).toEqual([404, none.text]);
    }
    // An admin sees both, but never tokens of operators.
    const all = (await listed("sort=-created_at")).map(({ id }) => id);
    expect(all).toEqual(expect.arrayContaining([ofClient, ofPartner]));
    expect(all).not.toContain(operators);
    for (const id of [ofClient, ofPartner]) expect((await end(id)).status).toBe(204);
    expect((await end(operators)).status).toBe(404);
  });

  test("more requests than usual are given by an admin", async () => {
    const body = { kind: "ingest", client_id: own, requests_a_minute: 101 };
    const refused = await create(body, "manager");
    expect([refused.status, refused.body.errors[0].pointer]).toEqual([403, "/requests_a_minute"]);
    expect((await create({ ...body, requests_a_minute: 100 }, "manager")).status).toBe(201);
  });

  test("others are refused", async () => {
    for (const role of ["partner", "client", "viewer"])
      for (const [method, path] of [
        ["GET", "/api/tokens"],
        ["POST", "/api/tokens"],
        ["DELETE", "/api/tokens/1"],
      ] as const)
        expect((await as(role, path, { method })).status, `${role} ${method}`).toBe(403);
  });
});
