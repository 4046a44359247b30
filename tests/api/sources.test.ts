// External sources over the platform API, and the events of a new source at the edge.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { sql } from "../../infra/postgres/sql.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { writeReference } from "../../modules/catalog/reference/writer.ts";
import { checkSources } from "../../modules/running/installation/doctor/postgres-checks.ts";
import { apiSuite } from "../support/api-suite.ts";
import { command } from "../support/command.ts";
import { addedToLog, type RunningIngest, startIngest } from "../support/ingest.ts";

const { env, demo, pool, owner, send, read, fresh } = apiSuite();
const own = demo.clients[0].id as number;
/** A client that no manager has. */
let foreign: number;
let ingest: RunningIngest;
beforeAll(async () => {
  const far = { client_id: -1, slug: fresh("far"), name: "Far" };
  foreign = (await writeReference(pool, "test", { clients: [far] })).idOf("clients", -1);
  ingest = await startIngest(env);
  await ingest.ready();
});
afterAll(() => ingest.close());

const mapping = { event_name: "event", dedup_key: "id", value: "/sale/amount", currency: "sale.currency" };
const create = (more: object = {}, role = "admin", headers = {}) =>
  send(
    "POST",
    "/api/sources",
    { client_id: own, slug: fresh("net"), name: "A network", kind: "postback_network", mapping, ...more },
    role,
    headers,
  );
const change = (id: string, body: object, role = "admin") => send("PATCH", `/api/sources/${id}`, body, role);
const rotate = (id: string, headers = {}) => send("POST", `/api/sources/${id}/rotate-key`, {}, "admin", headers);
const faultOf = ({ status, body }: { readonly status: number; readonly body: any }) => [
  status,
  body.errors?.[0]?.pointer,
  body.errors?.[0]?.code,
];
const postback = async (url: string, payload: object) => {
  const answer = await fetch(`${ingest.url}${url}`, {
    method: "POST",
    body: JSON.stringify(payload),
    headers: { "content-type": "application/json" },
  });
  return { status: answer.status, body: (await answer.json()) as any };
};

describe("a source", () => {
  test("is a draft until it is complete, and what it keeps sealed is shown to no one", async () => {
    const secret = "a secret of sixteen and more";
    const made = await create({ secret, mapping: { event_name: "event" } });
    expect([made.status, made.headers.get("location")]).toEqual([201, `/api/sources/${made.body.id}`]);
    expect(made.body).toMatchObject({
      ...{ id: expect.stringMatching(/^src_\d+$/), client_id: own, state: "draft", mode: null, version: 1 },
      ...{ has_secret: true, has_key: false, has_pull_secret: false, pull: null, constants: {}, allow_ips: [] },
    });
    const { id } = made.body;
    expect(faultOf(await change(id, { state: "active" }))).toEqual([400, "/mapping/dedup_key", "incomplete"]);
    const active = await change(id, { state: "active", mapping, version: 1 });
    expect([active.status, active.body.state, active.body.version], active.text).toEqual([200, "active", 2]);
    expect((await change(id, { name: "Other", version: 1 })).body.code).toBe("version_conflict");
    expect((await change(id, { state: "paused", secret: null })).body).toMatchObject({ has_secret: false });
    expect(faultOf(await change(id, { state: "draft" }))).toEqual([400, "/state", "bad_state"]);
    const { rows } = await owner.query(sql`select action, before, after from audit where entity = ${`source:${id}`}
      order by audit_id`);
    expect(rows.map(({ action }) => action)).toEqual(["source.created", "source.updated", "source.updated"]);
    expect(JSON.stringify([rows, made.text, (await read(`/api/sources?client_id=${own}`)).text])).not.toContain(secret);
  });

  test("is refused with the place of what is wrong", async () => {
    const path = (of: object) => create({ mapping: { ...mapping, ...of } });
    expect(faultOf(await path({ order_id: "a.__proto__.b" }))).toEqual([400, "/mapping/order_id", "bad_path"]);
    expect(faultOf(await path({ other: "a" }))).toEqual([400, "/mapping/other", "unknown_field"]);
    expect(faultOf(await create({ mode: "data_warehouse" }))).toEqual([400, "/mode", "bad_mode"]);
    expect(faultOf(await create({ kind: "property_relay" }))).toEqual([400, "/mode", "bad_mode"]);
    expect(faultOf(await create({ allow_ips: ["10.0.0.1/99"] }))).toEqual([400, "/allow_ips/0", "custom"]);
    expect(faultOf(await create({ state: "active" }))).toEqual([400, "/state", "unknown_field"]);
    expect((await create({ pull: { driver: "none", url: "https://x.example" } })).status).toBe(400);
    const slug = fresh("taken");
    expect((await create({ slug })).status).toBe(201);
    expect((await create({ slug })).body.code).toBe("slug_taken");
  });

  test("that anyone may send for is so by choice, and the doctor names it", async () => {
    const { id, slug } = (await create({ kind: "generic" })).body;
    const named = async () => {
      const { ok, detail } = await checkSources(env.POSTGRES_URL!);
      return [
        ok,
        detail
          .split("; ")
          .find((part) => part.includes(slug))
          ?.replace(/ (src_|no).*/s, ""),
      ];
    };
    expect(faultOf(await change(id, { state: "active", unsigned: false }))).toEqual([400, "/secret", "incomplete"]);
    expect((await change(id, { state: "active" })).body).toMatchObject({ unsigned: null, unsigned_money: false });
    // Sources of other tests are open too, so what it says of this one is looked at alone.
    expect(await named()).toEqual([false, "anyone can send sales in the name of"]);
    const free = await change(id, { unsigned: true });
    expect(free.body).toMatchObject({ unsigned: true, unsigned_money: false });
    const secret = "a secret of sixteen and more";
    expect((await change(id, { secret, unsigned: false })).body.has_secret).toBe(true);
    expect((await named())[1]).toBeUndefined();
    expect(faultOf(await change(id, { secret: null }))).toEqual([400, "/secret", "incomplete"]);
  });

  test("without a secret sends sales only once that is chosen, too", async () => {
    const { id, slug } = (await create({ kind: "generic", unsigned: true })).body;
    expect((await change(id, { state: "active" })).status).toBe(200);
    const path = `/postback/generic?client_id=${own}&source=${slug}`;
    const sale = { event: "ext_purchase", id: fresh("s"), sale: { amount: "9.50", currency: "MXN" } };
    const refused = await until("the source is known", 10_000, async () => {
      const answer = await postback(path, sale);
      if (answer.status === 404) throw new Error("not yet");
      return answer;
    });
    expect([refused.status, refused.body.errors[0].code]).toEqual([400, "unsigned_money"]);
    expect((await change(id, { unsigned_money: true })).status).toBe(200);
    await until("it may move money", 10_000, async () => expect((await postback(path, sale)).status).toBe(200));
  });

  test("is pulled from another host only with its credential given again", async () => {
    const pull = (url: string) => ({ driver: "mmp", url });
    const [own, other] = [pull("https://api.mmp.example/v1"), pull("https://thief.example/v1")];
    const asked = [400, "/pull_secret", "credential_needed"];
    const { id } = (await create({ pull: own, pull_secret: "a credential" })).body;
    expect((await change(id, { pull: pull("https://api.mmp.example/v2") })).body.has_pull_secret).toBe(true);
    for (const one of [other, pull("http://api.mmp.example/v1"), pull("https://api.mmp.example:8443/v1")])
      expect(faultOf(await change(id, { pull: one }, "manager")), one.url).toEqual(asked);
    // Nor in two steps.
    expect((await change(id, { pull: null }, "manager")).body.has_pull_secret).toBe(true);
    expect(faultOf(await change(id, { pull: other }, "manager"))).toEqual(asked);
    expect((await change(id, { pull: other, pull_secret: "another" })).body.has_pull_secret).toBe(true);
    expect((await change(id, { pull: own, pull_secret: null })).body.has_pull_secret).toBe(false);
  });

  test("belongs to its client: others neither see nor change it", async () => {
    const { id } = (await create({ client_id: foreign })).body;
    const seen = async (role: string) =>
      (await read(`/api/sources?client_id=${foreign}`, role)).body.data?.map((one: { id: string }) => one.id) ?? [];
    expect(await seen("admin")).toContain(id);
    expect(await seen("manager")).not.toContain(id);
    expect((await change(id, { name: "Mine" }, "manager")).status).toBe(404);
    expect((await create({ client_id: foreign }, "manager")).status).toBe(404);
    expect((await change(id, { name: "Mine" }, "viewer")).status).toBe(403);
    for (const role of ["partner", "client"]) expect((await read("/api/sources", role)).status).toBe(403);
  });
});

test("its key opens its address once it is active, until another key takes its place", async () => {
  const { id } = (await create()).body;
  const headers = { "idempotency-key": fresh("key") };
  const first = (await rotate(id, headers)).body;
  expect(first).toEqual({
    key: expect.stringMatching(/^[\w-]{43}$/),
    url: `/postback/external/${id}?key=${first.key}`,
  });
  expect((await rotate(id, headers)).body).toEqual({ key: null, url: null, secrets: "shown_once" });
  await change(id, { state: "active" });
  const order = fresh("order");
  const sale = { event: "signup", id: order, sale: { amount: "12.50", currency: "MXN" } };
  const added = await addedToLog({ env, demo }, async () => {
    await until("the edge knows it", 20_000, async () => expect((await postback(first.url, sale)).status).toBe(200));
    expect((await postback(first.url, sale)).body.status).toBe("duplicate");
  });
  expect(added.filter(({ dedup_key }) => dedup_key === order)).toMatchObject([
    { client_id: own, custom_name: "signup", source: expect.stringMatching(/^generic:net-/) },
  ]);
  const second = (await rotate(id)).body;
  await until("the former key is dead", 20_000, async () => expect((await postback(first.url, sale)).status).toBe(401));
  await until("the other opens", 20_000, async () => expect((await postback(second.url, sale)).status).toBe(200));
}, 90_000);

test("a draft mapping is tried on what a source really sent, side by side, and nothing is written", async () => {
  // The draft keeps the event names that are saved.
  const { id } = (await create({ event_names: { "opt-in": "signup" } })).body;
  const { url } = (await rotate(id)).body;
  await change(id, { state: "active" });
  const order = fresh("tried");
  await until("the edge takes it", 20_000, async () =>
    expect((await postback(url, { event: "opt-in", id: order, mail: "ana@shop.example", nr: 7 })).status).toBe(200),
  );
  const draft = { ...mapping, order_id: "nr", partner_param: "mail", value: "mail.amount" };
  const tried = (body: object) => send("POST", `/api/sources/${id}/try`, body);
  const results = await until("its payload is kept", 20_000, async () => {
    const { body, text } = await tried({ mapping: draft });
    expect(body.results?.length, text).toBeGreaterThan(0);
    return body.results;
  });
  expect(results[0]).toMatchObject({
    ...{ outcome: "mapped", field: null, differs: ["partner_param", "order_id"] },
    event: { event_name: "signup", dedup_key: order, order_id: "7", partner_param: "***" },
  });
  const { body } = await tried({ mapping: { ...mapping, dedup_key: "sale.id" } });
  expect(body.results[0]).toMatchObject({ outcome: "refused", field: "dedup_key", path: "sale.id", event: null });
  expect((await read(`/api/sources?client_id=${own}&sort=-created_at`)).body.data[0].mapping).toEqual(mapping);
}, 60_000);

test("the command line saves, shows, tries and opens a source as the platform API does", async () => {
  const sources = (args: readonly string[], input?: object) =>
    command(env, ["sources", ...args], input && JSON.stringify(input));
  const slug = fresh("cli");
  const given = { client_id: own, slug, name: "By hand", kind: "generic", mapping };
  const preview = await sources(["save", "-"], given);
  expect([preview.code, preview.stderr]).toEqual([0, expect.stringContaining("nothing was saved yet")]);
  const incomplete = await sources(["save", "-", "--yes"], { ...given, mapping: {}, state: "active" });
  expect([incomplete.code, incomplete.stderr]).toEqual([3, expect.stringContaining("/mapping/event_name")]);
  const wrong = await sources(["save", "-"], { ...given, mapping: { event_name: "a..b" } });
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining("/mapping/event_name: a step of a dot path")]);
  const saved = await sources(["save", "-", "--yes"], { ...given, state: "active" });
  const id = /src_\d+/.exec(saved.stderr)?.[0] ?? "";
  expect(saved.code, saved.stderr).toBe(0);
  expect((await sources(["list"])).stdout).toContain(slug);
  const address = (await sources(["rotate", id])).stdout.trim();
  const sale = { event: "signup", id: fresh("by-hand"), nr: 7 };
  await until("the edge knows it", 20_000, async () => expect((await postback(address, sale)).status).toBe(200));
  const draft = { mapping: { ...mapping, order_id: "nr" } };
  await until("its payload is kept", 20_000, async () => {
    const { stdout, stderr } = await sources(["try", id, "-"], draft);
    expect(stdout, stderr).toMatch(/order_id +- +7 +differs/);
  });
  const { id: shownId, ...shown } = JSON.parse((await sources(["show", id])).stdout);
  expect(shownId).toBe(id);
  const again = await sources(["save", "-", "--yes"], { id, name: shown.name, state: "paused" });
  expect([again.code, again.stdout], again.stderr).toEqual([0, expect.stringContaining('state: "active" -> "paused"')]);
  const none = await sources(["show", "src_999999"]);
  expect([none.code, none.stderr]).toEqual([2, expect.stringContaining("tributary sources list")]);
}, 120_000);
