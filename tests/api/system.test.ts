// The platform API over HTTP: the order of checks, every role at every route, tokens that it must
// refuse, and alerts that are mailed once.
import { createHmac } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ServedRoute } from "../../apps/api/route.ts";
import { routesOf } from "../../apps/api/routes.ts";
import { demoUsers } from "../../infra/embedded/demo-users.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { createToken } from "../../modules/access/tokens/tokens.ts";
import { type UserChange, updateUser } from "../../modules/access/users/change.ts";
import { insertUser } from "../../modules/access/users/create.ts";
import { userByEmail, withUsers } from "../../modules/access/users/users.ts";
import { referenceNow } from "../../modules/catalog/clients/find-client.ts";
import { type RunningApi, startApi } from "../support/api.ts";
import { asker } from "../support/ask.ts";
import { sharedStack } from "../support/shared-stack.ts";

const { env, demo } = sharedStack();
const pool = openPool(env.POSTGRES_URL!, { max: 2 });
let running: RunningApi;
beforeAll(async () => {
  running = await startApi(env);
});
afterAll(async () => {
  await running.close();
  await pool.end();
});

const ask = asker(() => running.url);
const admin = () => running.token("admin@demo.tributary.test");
const service = demo.service_token as string;
const routes: readonly ServedRoute[] = await routesOf({} as never);
const placed = (path: string) => path.replace(/:\w+/g, "none");
const alert = (change: object = {}) => ({
  ...{
    service: "worker-chain",
    status: "down",
    reason: "test",
    timestamp: "2026-11-21T12:00:00.000Z",
    incident_id: `inc_test_${Date.now()}`,
  },
  ...change,
});

describe("who may call", () => {
  const users = routes.filter(({ auth }) => auth === "user");
  test.each(demoUsers)("$role", async ({ email, role }) => {
    const token = await running.token(email);
    for (const { method, path, roles } of users) {
      const { status, body } = await ask(placed(path), { method, token });
      const isAllowed = roles!.includes(role);
      expect(status === 403, `${method} ${path}: ${JSON.stringify(body)}`).toBe(!isAllowed);
      expect([200, 400, 403, 404]).toContain(status);
    }
    expect((await ask("/api/admin/system-alert", { method: "POST", token, body: alert() })).status).toBe(401);
  });

  test("without a good token public routes answer, and the others say 401 before anything else", async () => {
    for (const { method, path, auth } of routes) {
      for (const token of [undefined, "nonsense", demo.clients[0].ingest_token as string, demo.admin_token as string]) {
        const { status, headers, body } = await ask(placed(path), { method, token });
        // An invitation replaces a token. The test does not send what a public route needs.
        const isPublic = auth === "none" || auth === "invitation";
        // A signature replaces it too; tests/api/leads covers bad signatures.
        if (auth === "hmac") {
          expect([400, 401], `${method} ${path}`).toContain(status);
          continue;
        }
        expect(isPublic ? [200, 400] : [401], `${method} ${path}`).toContain(status);
        if (isPublic) continue;
        expect(headers.get("www-authenticate")).toMatch(/^Bearer realm=/);
        expect(body).toMatchObject({ code: "unauthorized", status: 401, request_id: headers.get("x-request-id") });
      }
    }
    expect((await ask("/api/system/health", { token: service })).status).toBe(401);
  });

  test("a user is what Postgres says at this moment: a demotion acts at once, a removal too", async () => {
    const email = `someone-${Date.now()}@demo.tributary.test`;
    const known = await referenceNow(pool);
    const token = await running.signed({ email, sub: email });
    const health = async () => {
      const { status, body } = await ask("/api/system/health", { token });
      return status === 200 ? status : `${status} ${body.code}`;
    };
    const change = (fields: UserChange) =>
      withUsers(pool, async (tx) => updateUser(tx, (await userByEmail(tx, email)).user_id, fields, known));
    expect(await health()).toBe("403 no_account");
    await withUsers(pool, (tx) => insertUser(tx, { email, name: "Someone", role: "admin" }, known));
    expect(await health()).toBe(200);
    await change({ role: "client_user", client_ids: [demo.clients[0].id] });
    expect(await health()).toBe("403 forbidden");
    await change({ status: "disabled" });
    expect(await health()).toBe("403 no_account");
  });
});

describe("a token is refused", () => {
  test("whatever is wrong with it", async () => {
    const now = Math.floor(Date.now() / 1_000);
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
    const good = await running.signed({});
    expect((await ask("/api/system/health", { token: good })).status).toBe(200);
    const [head, claims, signature] = good.split(".") as [string, string, string];
    const key = await running.publicKey();
    const confused = `${part({ alg: "HS256", typ: "at+jwt", kid: key.kid })}.${claims}`;
    const publicKeyMac = createHmac("sha256", JSON.stringify(key)).update(confused).digest("base64url");
    const given = JSON.parse(Buffer.from(claims, "base64url").toString());
    const otherClaims = part({ ...given, email: "viewer@demo.tributary.test" });
    const bad: Readonly<Record<string, string>> = {
      "of another audience": await running.signed({ aud: "tributary-portal" }),
      "of another issuer": await running.signed({ iss: "https://elsewhere.example" }),
      expired: await running.signed({ exp: now - 31 }),
      "not valid yet": await running.signed({ nbf: now + 60 }),
      "an ID token": await running.signed({}, { typ: "JWT" }),
      "without a type": await running.signed({}, { typ: undefined }),
      "without a subject": await running.signed({ sub: undefined }),
      "of a subject that is too long": await running.signed({ sub: "x".repeat(256) }),
      "of an unknown key": await running.signed({}, { kid: "another" }),
      "not signed": `${part({ alg: "none", typ: "at+jwt" })}.${claims}.`,
      "signed with the public key as a secret": `${confused}.${publicKeyMac}`,
      "with other claims under its signature": `${head}.${otherClaims}.${signature}`,
    };
    for (const [what, token] of Object.entries(bad))
      expect((await ask("/api/system/health", { token })).status, what).toBe(401);
  });

  test("a good one of an unknown subject without a verified address is signed in, and has no account", async () => {
    const sub = `unknown-${Date.now()}`;
    for (const claims of [{ email_verified: false }, { email_verified: "true" }, { email: undefined }]) {
      const { status, body } = await ask("/api/system/health", { token: await running.signed({ sub, ...claims }) });
      expect([status, body.code]).toEqual([403, "no_account"]);
    }
  });
});

describe("the order of checks", () => {
  test("path, method, credential, type and size, role, body", async () => {
    expect((await ask("/api/nowhere")).status).toBe(404);
    expect((await ask("/api/Health")).status).toBe(404);
    expect((await ask("/api/health/")).status).toBe(404);
    const wrong = await ask("/api/system/health", { method: "DELETE" });
    expect([wrong.status, wrong.headers.get("allow")]).toEqual([405, "GET, HEAD, OPTIONS"]);
    const options = await ask("/api/admin/system-alert", { method: "OPTIONS" });
    expect([options.status, options.headers.get("allow")]).toEqual([204, "POST, OPTIONS"]);
    const post = (token: string | undefined, body: string, headers: Readonly<Record<string, string>> = {}) =>
      ask("/api/admin/system-alert", { method: "POST", token, body, headers });
    expect((await post(undefined, "x".repeat(300_000))).status).toBe(401);
    expect((await post(service, `"${"x".repeat(300_000)}"`)).status).toBe(413);
    expect((await post(service, "{}", { "content-type": "text/plain" })).status).toBe(415);
    expect((await post(service, "{")).body.code).toBe("bad_request");
    for (const body of [
      "[]",
      "null",
      "{}",
      '{"__proto__":{"a":1}}',
      `${"[".repeat(40)}${"]".repeat(40)}`,
      JSON.stringify({ a: "\0" }),
    ])
      expect((await post(service, body)).body.code).toBe("validation_failed");
    // The role is checked before the body, and the type before the role.
    const viewer = await running.token("viewer@demo.tributary.test");
    const retry = { method: "POST", token: viewer, body: "{" };
    expect((await ask("/api/dead-letters/none/retry", retry)).status).toBe(403);
    expect(
      (await ask("/api/dead-letters/none/retry", { ...retry, headers: { "content-type": "text/plain" } })).status,
    ).toBe(415);
    const token = await admin();
    expect((await ask("/api/dead-letters/none/discard", { method: "POST", token, body: {} })).body.code).toBe(
      "validation_failed",
    );
    expect(
      (await ask("/api/dead-letters/none/discard", { method: "POST", token, body: { reason: "gone" } })).status,
    ).toBe(404);
    expect((await ask("/api/dead-letters?limit=101", { token })).body.errors[0].pointer).toBe("/limit");
    expect((await ask("/api/dead-letters?order=x", { token })).status).toBe(400);
    expect((await ask("/api/dead-letters?kind=s2s&limit=1", { token })).body).toMatchObject({
      data: expect.any(Array),
    });
  });

  test("every answer has its request id and is never cached", async () => {
    const { headers } = await ask("/api/health", { headers: { "x-request-id": "mine-1" } });
    expect([headers.get("x-request-id"), headers.get("cache-control")]).toEqual(["mine-1", "no-store"]);
    const limited = await ask("/api/system/health", { token: await admin() });
    expect(limited.headers.get("ratelimit-policy")).toBe('"default";q=600;w=60');
  });
});

test("the way into the log is shown with its history", async () => {
  const { status, body } = await ask("/api/system/ingest-path", { token: await admin() });
  expect(status).toBe(200);
  expect(Object.keys(body)).toEqual(expect.arrayContaining(["state", "since", "checked_at", "instances", "history"]));
});

test("health has the fields of the specification", async () => {
  const { status, body } = await ask("/api/health");
  expect(status).toBe(200);
  expect(body).toEqual({
    ...{
      status: expect.stringMatching(/^(ok|degraded)$/),
      version: expect.any(String),
      uptime_sec: expect.any(Number),
    },
    ...{ analytics_store: "ok", cache_store: "ok", relational_store: "ok" },
  });
  const { body: detailed } = await ask("/api/system/health", { token: await admin() });
  expect(detailed.probes.map(({ name }: { name: string }) => name)).toEqual([
    "analytics_store",
    "cache_store",
    "object_store",
    "relational_store",
  ]);
  // The log is not one of the four stores of the interface, and is listed beside them.
  expect(detailed.event_log).toMatchObject({ name: "event_log", state: expect.any(String) });
});

describe("a system alert", () => {
  const send = (body: object, token = service) => ask("/api/admin/system-alert", { method: "POST", token, body });
  const mailsOf = (id: string) => running.mails().filter((mail) => mail.includes(id));

  test("is mailed once an incident, status and severity, however many send it at once", async () => {
    const down = alert();
    const answers = await Promise.all(Array.from({ length: 8 }, () => send(down)));
    const { alert_id } = answers[0]!.body;
    expect(alert_id).toMatch(/^alr_\d+$/);
    expect(answers.map(({ status, body }) => [status, body])).toEqual(
      Array.from({ length: 8 }, () => [202, { alert_id, incident_id: down.incident_id, mailed: true }]),
    );
    expect(mailsOf(down.incident_id)).toHaveLength(1);
    await send({ ...down, severity: "critical" });
    await send({ ...down, status: "recovered", duration: "2 min 12 s" });
    await send({ ...down, status: "recovered", duration: "3 min" });
    const mails = mailsOf(down.incident_id);
    expect(mails.map((mail) => /^Subject: (.*)\r?$/m.exec(mail)?.[1])).toEqual([
      "[Tributary] worker-chain is down",
      "[Tributary] CRITICAL: worker-chain is down",
      "[Tributary] worker-chain has recovered after 2 min 12 s",
    ]);
  });

  test("is in the audit once an incident, status and severity, with who sent it", async () => {
    const down = alert();
    const answers = await Promise.all(
      [down, down, { ...down, status: "recovered", duration: "1 min" }].map((one) => send(one)),
    );
    const audit = await ask(`/api/audit?entity=incident:${down.incident_id}&sort=at`, { token: await admin() });
    const kept = ({ alert_id }: { alert_id: string }, status: string) => ({
      ...{ alert_id, service: "worker-chain", status, severity: "normal", reason: "test" },
    });
    const rows = audit.body.data.map(({ action, role, client_id, after }: any) => ({ action, role, client_id, after }));
    const said = { action: "alert.received", role: "service", client_id: null };
    expect(rows).toHaveLength(2);
    expect(rows).toEqual(
      expect.arrayContaining([
        { ...said, after: kept(answers[0]!.body, "down") },
        { ...said, after: kept(answers[2]!.body, "recovered") },
      ]),
    );
  });

  test("of a stranger brings no header of its own", async () => {
    const given = alert({ reason: "a\r\nBcc: victim@elsewhere.example\r\n\r\nx" });
    expect((await send(given)).status).toBe(202);
    const [mail] = mailsOf(given.incident_id);
    expect(mail!.split(/\r?\n\r?\n/)[0]).not.toContain("Bcc");
    expect((await send(alert({ service: "a\r\nBcc: x@y.example" }))).body.errors[0].pointer).toBe("/service");
  });

  test("is taken with a service token alone, and a revoked one is none", async () => {
    const made = await createToken(pool, { kind: "service", label: "api test" });
    await expect.poll(async () => (await send(alert(), made.token)).status, { timeout: 10_000 }).toBe(202);
    expect((await send(alert(), demo.admin_token as string)).status).toBe(401);
  });
});
