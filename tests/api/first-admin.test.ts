// The first admin of a separate installation, made with the commands of docs/operate.md only: no
// user of the demonstration exists or comes back.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readersOf } from "../../stream/topology.ts";
import { pipeline } from "../../topology.ts";
import { type RunningApi, startApi } from "../support/api.ts";
import { spawned } from "../support/e2e-product.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";
import { sharedStack } from "../support/shared-stack.ts";

let database: FreshDatabase;
let env: Readonly<Record<string, string>>;
let running: RunningApi;
const home = mkdtempSync(join(tmpdir(), "tributary-first-"));
beforeAll(async () => {
  database = await freshDatabase({ empty: true });
  const app = new URL(database.adminUrl);
  app.username = "tributary_app";
  app.password = database.appPassword;
  env = {
    ...sharedStack().env,
    POSTGRES_ADMIN_URL: database.adminUrl,
    POSTGRES_URL: app.href,
    TRIBUTARY_HOME: home,
    OBJECT_STORE_URL: pathToFileURL(join(home, "objects")).href,
  };
});
afterAll(async () => {
  await running?.close();
  await database.drop();
  rmSync(home, { recursive: true, force: true });
});

const tributary = async (...args: readonly string[]) => {
  const { code, stdout, stderr } = await spawned(["dist/apps/cli/main.js", ...args], { ...process.env, ...env }).done;
  return { code, stdout, stderr };
};
const inTables = async () =>
  (
    await database.adminPool.query(
      "select (select count(*)::int from users) as users, (select count(*)::int from tokens) as tokens",
    )
  ).rows[0];
const health = async (token: string) => {
  const answer = await fetch(`${running.url}/api/system/health`, { headers: { authorization: `Bearer ${token}` } });
  const body = (await answer.json()) as { readonly code?: string };
  return { status: answer.status, type: answer.headers.get("content-type")?.split(";")[0], code: body.code };
};

describe("an own installation", () => {
  test("is made by migrate and seed without a user, a token or a client, and says what is missing", async () => {
    expect(await tributary("migrate", "apply")).toMatchObject({ code: 0 });
    for (let start = 0; start < 2; start += 1) {
      const { code, stdout } = await tributary("seed");
      expect([code, stdout]).toEqual([0, "no admin can come in: tributary users create <email> --role admin\n"]);
      expect(await inTables()).toEqual({ users: 0, tokens: 0 });
    }
    const { rows } = await database.adminPool.query("select from clients");
    expect(rows).toEqual([]);
  });

  test("hears from the doctor what is missing, and what is kept for good", async () => {
    const { stdout } = await tributary("doctor", "--json");
    const checks: readonly { readonly name: string }[] = JSON.parse(stdout);
    expect(checks.find(({ name }) => name === "users")).toMatchObject({
      ok: false,
      detail: "no admin can come in",
      cure: "tributary users create <email> --role admin",
    });
    expect(checks.find(({ name }) => name === "retention")).toMatchObject({
      ok: true,
      detail: expect.stringContaining("what settle remembers of them keep it for good"),
    });
    const { stdout: due } = await tributary("archive", "retention", "--dry-run", "--json");
    expect(JSON.parse(due)).toEqual({ clients: [], files: 0, records: 0, damaged: [] });
  });

  test("hears from the doctor which sinks no worker hosts", async () => {
    const hosting = async () => {
      const { stdout } = await tributary("doctor", "--json");
      return (JSON.parse(stdout) as readonly { readonly name: string }[]).find(({ name }) => name === "hosting");
    };
    expect(await hosting()).toMatchObject({ ok: true, detail: "no worker has joined yet" });
    const nodes = readersOf(pipeline).flatMap(({ name }) => (name === "consent" ? [] : name));
    await database.adminPool.query(
      "insert into group_hosting (group_name, topic, nodes, instance) values ('tributary.all', 'events.raw', $1, 'w')",
      [nodes],
    );
    expect(await hosting()).toMatchObject({ ok: false, detail: "no worker hosts consent" });
    await database.adminPool.query("update group_hosting set nodes = nodes || '{consent}'");
    expect(await hosting()).toMatchObject({ ok: true, detail: "every stage and sink" });
  });

  test("lets in the first admin, whom its own identity provider vouches for", async () => {
    running = await startApi(env);
    const token = await running.token("ana@shop.example");
    expect(await health(token)).toEqual({ status: 403, type: "application/problem+json", code: "no_account" });
    const by = ["--actor", "it@shop.example"];
    const made = await tributary("users", "create", "ana@shop.example", "--role", "admin", ...by);
    expect(made).toMatchObject({ code: 0, stdout: expect.stringContaining("ana@shop.example, admin, all clients") });
    expect((await health(token)).status).toBe(200);
    expect((await tributary("seed")).stdout).toBe("an admin can come in, and nothing of the demonstration is open\n");
  });

  test("knows a person by the subject: a new address changes nothing, and another subject is no one", async () => {
    const ana = { sub: "ana@shop.example" };
    expect((await health(await running.signed({ ...ana, email: "ana@new.example" }))).status).toBe(200);
    expect((await health(await running.signed({ ...ana, email_verified: false }))).status).toBe(200);
    const other = await running.signed({ sub: "other", email: "ana@shop.example" });
    expect(await health(other)).toMatchObject({ status: 403, code: "no_account" });
    await tributary("users", "reset", "ana@shop.example");
    expect((await health(other)).status).toBe(200);
    expect(await health(await running.signed({ ...ana, email: "ana@shop.example" }))).toMatchObject({ status: 403 });
  });

  test("disables and enables users, refuses the last admin, and names what is wrong with an option", async () => {
    await tributary("users", "create", "leo@shop.example", "--role", "viewer", "--name", "Leo");
    const token = await running.signed({ sub: "leo", email: "leo@shop.example" });
    expect((await health(token)).status).toBe(200);
    expect(await tributary("users", "disable", "leo@shop.example")).toMatchObject({ code: 0 });
    expect(await health(token)).toMatchObject({ status: 403, code: "no_account" });
    await tributary("users", "enable", "leo@shop.example");
    expect((await health(token)).status).toBe(200);
    expect(await tributary("users", "disable", "ana@shop.example")).toMatchObject({
      code: 3,
      stderr: expect.stringContaining("this is the last admin: make another one first"),
    });
    for (const [args, message] of [
      [["create", "ana", "--role", "admin"], "<email>: must be an e-mail address"],
      [["create", "a@b.example", "--role", "owner"], "--role: owner is none of admin, client_manager"],
      [["create", "a@b.example", "--role", "viewer", "--client", "nope"], "--client: there is no client nope"],
      [["create", "a@b.example", "--role", "client_user"], "--client: a client user belongs to one client"],
      [["create", "ana@shop.example", "--role", "admin"], "<email>: there is a user ana@shop.example already"],
      [["assign", "ana@shop.example"], "say what to change"],
      [["assign", "unknown@shop.example", "--role", "viewer"], "<email>: there is no user unknown@shop.example"],
      [["disable", "leo@shop.example", "--actor", "leo"], "--actor: must be an e-mail address"],
    ] as const)
      expect(await tributary("users", ...args)).toMatchObject({ code: 2, stderr: expect.stringContaining(message) });
    const { stdout } = await tributary("users", "list", "--json");
    const { data } = JSON.parse(stdout);
    expect(data.map(({ email, status }: { email: string; status: string }) => [email, status])).toEqual([
      ["ana@shop.example", "active"],
      ["leo@shop.example", "active"],
    ]);
  });

  test("has all of it in the audit, with who did it", async () => {
    const { stdout } = await tributary("operations", "--json");
    const { operations } = JSON.parse(stdout);
    const done = operations.filter(({ target }: { target: string }) => target === "ana@shop.example");
    const phases = done.map(({ kind, phase }: { kind: string; phase: string }) => `${kind} ${phase}`);
    expect(phases).toEqual(expect.arrayContaining(["user_create started", "user_create succeeded"]));
    expect(phases).toEqual(expect.arrayContaining(["user_reset succeeded", "user_disable refused"]));
    const [first] = done.filter(({ kind }: { kind: string }) => kind === "user_create");
    expect(first.actor).toMatch(/^it@shop\.example \(.+@cli\)$/);
  });

  test("that was a demonstration once says so, and its people never return", async () => {
    expect((await tributary("seed", "--demo")).code).toBe(0);
    const { users } = await inTables();
    expect(users).toBe(7);
    expect((await tributary("seed")).stdout).toContain(
      "admin@demo.tributary.test of the demonstration may come in: tributary users disable admin@demo.tributary.test",
    );
    for (const name of ["admin", "manager", "partner", "client", "viewer"])
      expect((await tributary("users", "disable", `${name}@demo.tributary.test`)).code, name).toBe(0);
    await tributary("seed", "--demo");
    expect((await inTables()).users).toBe(7);
    const { data } = JSON.parse((await tributary("users", "list", "--json")).stdout);
    expect(data.filter(({ status }: { status: string }) => status === "active")).toHaveLength(2);
    const { stdout } = await tributary("seed");
    expect(stdout).not.toContain("may come in");
    const live = stdout.split("\n").filter((line) => /^token \d+ of the demonstration is live/.test(line));
    // Three ingest tokens, an admin token, a service token, and one for each partner who uploads.
    expect(live).toHaveLength(5 + sharedStack().demo.upload_tokens.length);
  });
});
