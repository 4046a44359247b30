// Erasing a person on real stores: a canary is planted in every place that holds a visitor, and is
// in none afterwards; other people and all money stay as they were.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { Redis } from "ioredis";
import type pg from "pg";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { leadSubject } from "../../domain/ids.ts";
import type { SubjectKind } from "../../domain/personal/suppression.ts";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { type ErasurePorts, eraseSubject, previewErasure } from "../../modules/privacy/erasure/erase.ts";
import { type ErasureReport, stays } from "../../modules/privacy/erasure/report.ts";
import { subjectOf } from "../../modules/privacy/erasure/subject.ts";
import { openHistory } from "../../sinks/analytics/history.ts";
import { dayMs, noon } from "../support/builders.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";
import { sharedStack } from "../support/shared-stack.ts";
import { linesWith, VisitorWorld } from "../support/visitor-world.ts";

const { env, demo } = sharedStack();
const clickhouse = openClickhouse(env.CLICKHOUSE_URL!);
const redis = new Redis(env.REDIS_URL!);
let database: FreshDatabase;
let pool: pg.Pool;
beforeAll(async () => {
  database = await freshDatabase();
  pool = openPool(database.appUrl, { timeoutMs: 60_000 });
});
afterAll(async () => {
  redis.disconnect();
  await Promise.all([clickhouse.close(), pool.end()]);
  await database.drop();
});

/** A tenant for each case. */
let tenants = 700_000_000 + (Date.now() % 1_000_000) * 100;
let world: VisitorWorld;
beforeEach(() => {
  tenants += 1;
  world = new VisitorWorld({ pool, adminPool: database.adminPool, clickhouse, redis }, tenants);
});
const ports = (over: Partial<ErasurePorts> = {}): ErasurePorts => ({
  ...{ pool, clickhouse, redis, memoryPrefix: `${world.prefix}memory`, hintPrefix: `${world.prefix}hints` },
  untilKnown: async () => undefined,
  ...over,
});
const act = { actor: "ops@cli", role: "operator", request_id: "cli-1", ip: null };
const requestOf = (kind: SubjectKind, value: string) => ({
  ...{ clientId: world.client, subject: subjectOf(kind, value, world.identify) },
  ...{ reason: "request 17", act, now: noon + dayMs },
});
const erase = (kind: SubjectKind, value: string, over: Partial<ErasurePorts> = {}): Promise<ErasureReport> =>
  eraseSubject(ports(over), requestOf(kind, value));
const found = ({ places }: ErasureReport) => places.reduce((sum, place) => sum + place.found, 0);
const left = ({ places }: ErasureReport) => places.filter((place) => place.found !== place.erased);

test("an erased e-mail is in no store, nor is the device of its own, and the money is as it was", async () => {
  await world.plant();
  const [before, sums] = [await world.everything(), await world.money()];
  const own = [world.hashOf("ana@example.com"), world.did("phone"), "-phone", "lead-phone", "session-phone"];
  for (const canary of own.slice(0, 3)) expect(linesWith(before, canary).length).toBeGreaterThan(2);
  const report = await erase("email", " Ana@Example.com ");
  expect([report.devices, report.shared_devices]).toEqual([1, 1]);
  expect(left(report)).toEqual([]);
  for (const { place, found: rows } of report.places)
    if (!place.includes("source_payloads")) expect([place, rows]).toEqual([place, expect.any(Number)]);
  const after = await world.everything();
  expect(linesWith(after, ...own).filter((line) => !line.startsWith("recordings "))).toEqual([]);
  expect(linesWith(after, "session-phone")).toEqual([expect.not.stringContaining(world.did("phone"))]);
  expect(await world.money()).toEqual(sums);
  // Ben's rows are the same ones to the byte, those of the shared tablet among them.
  for (const bens of ["-laptop", world.did("laptop"), world.hashOf("ben@example.com"), "order-ben"])
    expect(linesWith(after, bens)).toEqual(linesWith(before, bens));
  const refund = linesWith(after, "order-ana").find((line) => line.includes('"t":"refund"'));
  expect(refund).toContain(String.raw`"props":"{\"reason\":\"other\",\"refunded_event_id\":null}"`);
  expect(refund).toContain(String.raw`"candidates":"[{\"method\":\"click\",\"reference\":\"erased\",`);
});

test("no rule decides again about a row whose person is gone", async () => {
  await world.plant();
  const window = { from: noon - dayMs, to: noon + dayMs, event_types: ["purchase"] };
  const asked = {
    ...{ when: { field: "t", op: "eq", value: "purchase" }, rule_id: 1, after: undefined, limit: 100 },
    last: { ts: noon + dayMs, event_id: "f".repeat(36) },
  };
  const history = openHistory(clickhouse);
  const matched = () => history.matching(world.client, window as never, asked as never);
  expect(await matched()).toHaveLength(4);
  await erase("email", "ana@example.com");
  expect((await matched()).map(({ event }) => event.order_id).sort()).toEqual(["order-ben", "order-ben-tablet"]);
});

const command = async (input: string, ...args: readonly string[]) => {
  const child = spawn(process.execPath, ["dist/apps/cli/main.js", "erase", ...args], {
    env: { PATH: process.env.PATH, ...env },
  });
  let [stdout, stderr] = ["", ""];
  child.stdout.on("data", (text) => (stdout += text));
  child.stderr.on("data", (text) => (stderr += text));
  child.stdin.end(input);
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { code, stdout, stderr };
};

test("the command takes one subject, counts first, and never shows it", async () => {
  const slug = demo.clients?.[0]?.slug ?? "aurora-music";
  const why = ["--client", slug, "--reason", "request 17"];
  const shown = await command("carla@example.com\n", ...why, "--email", "-");
  expect([shown.code, shown.stderr]).toEqual([0, expect.stringContaining("nothing was erased; add --yes")]);
  expect(shown.stdout).toMatch(/`identity_edges` +0 +-/);
  expect(shown.stdout).toContain("for good: money is decided from them");
  expect(shown.stdout + shown.stderr).not.toContain("carla");
  const two = await command("", ...why, "--email", "a@b.example", "--did", "d");
  expect([two.code, two.stderr]).toEqual([2, expect.stringContaining("name one subject")]);
  const asked = ["--client", slug, "--reason", "Carla@example.com asked", "--email", "carla@example.com"];
  const named = await command("", ...asked);
  expect([named.code, named.stderr]).toEqual([2, expect.stringContaining("must not name the subject")]);
  const wrong = await command("", ...why, "--email", "carla");
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining("--email: this is no e-mail address")]);
  const erased = await command("", ...why, "--did", "a-device-that-was-never-seen", "--yes", "--json");
  expect([erased.code, erased.stderr]).toEqual([0, expect.stringContaining("waiting 10 s")]);
  expect(JSON.parse(erased.stdout).dry_run).toBe(false);
});

test("the page says in the same words what stays", () => {
  const page = readFileSync("docs/privacy.md", "utf8");
  for (const { where, until } of stays) expect(page).toContain(`| ${where} | ${until} |`);
});

test("a second run finds nothing, and a dry run counts the same and writes nothing", async () => {
  await world.plant();
  const before = await world.everything();
  const dry = await previewErasure(ports(), requestOf("email", "ana@example.com"));
  expect(await world.everything()).toBe(before);
  expect(
    (await database.adminPool.query("select from suppressions where client_id = $1", [world.client])).rowCount,
  ).toBe(0);
  const first = await erase("email", "ana@example.com");
  expect(first.places.map(({ found: rows }) => rows)).toEqual(dry.places.map(({ found: rows }) => rows));
  expect(found(first)).toBeGreaterThan(20);
  const after = await world.everything();
  const second = await erase("email", "ana@example.com");
  expect(found(second)).toBe(0);
  expect(await world.everything()).toBe(after);
});

test("an erasure that a crash has cut short is ended by the next run, its devices included", async () => {
  await world.plant();
  const crash = () => Promise.reject(new Error("the machine went down"));
  await expect(erase("email", "ana@example.com", { untilKnown: crash })).rejects.toThrow("the machine went down");
  expect(linesWith(await world.everything(), world.did("phone")).length).toBeGreaterThan(3);
  const report = await erase("email", "ana@example.com");
  expect([report.devices, left(report)]).toEqual([1, []]);
  expect(linesWith(await world.everything(), world.did("phone"), world.hashOf("ana@example.com"))).toEqual([]);
});

test("a device, an order and a lead are erased by their own ids", async () => {
  await world.plant();
  const sums = await world.money();
  await erase("did", "laptop");
  expect(linesWith(await world.everything(), world.did("laptop"))).toEqual([]);
  const ordered = await erase("order_id", "order-ana");
  expect(left(ordered)).toEqual([]);
  expect(linesWith(await world.everything(), "order-ana")).toEqual([]);
  await erase("client_lead_id", "lead-phone");
  expect(linesWith(await world.everything(), "lead-phone", leadSubject("lead-phone"))).toEqual([]);
  expect(linesWith(await world.everything(), world.did("phone")).length).toBeGreaterThan(3);
  expect(await world.money()).toEqual(sums);
});

test("a later event of the person stays, and each erasure is in the audit without its subject", async () => {
  await world.plantEvents("phone", "ana@example.com", "order-ana");
  await eraseSubject(ports(), { ...requestOf("did", "phone"), now: noon - 1 });
  expect(linesWith(await world.everything(), world.did("phone")).length).toBeGreaterThan(3);
  await erase("email", "ana@example.com");
  const { rows } = await database.adminPool.query(
    "select action, t::text as row from audit t where client_id = $1 order by audit_id",
    [world.client],
  );
  expect(rows.map(({ action }) => action)).toEqual([
    ...["erase.requested", "erase.completed", "erase.requested", "erase.completed"],
  ]);
  expect(rows.some(({ row }) => /ana@|phone"/.test(row))).toBe(false);
});

test("a stranger's view under the id of another's order takes nothing from it", async () => {
  await world.plantEvents("laptop", "ben@example.com", "order-ben");
  const before = linesWith(await world.everything(), world.did("laptop"));
  expect(before.length).toBeGreaterThan(5);
  await world.plantViewsUnderIdsOf("laptop", "stranger");
  expect(linesWith(await world.everything(), world.did("stranger")).length).toBeGreaterThan(3);
  const report = await erase("did", "stranger");
  expect(left(report)).toEqual([]);
  const after = await world.everything();
  expect(linesWith(after, world.did("stranger"))).toEqual([]);
  expect(linesWith(after, world.did("laptop"))).toEqual(before);
});

test("what comes in the meantime changes no count of what was erased, and what was on its way goes too", async () => {
  await world.plant();
  const edges = ({ places }: ErasureReport) => places.find(({ place }) => place === "`identity_edges`")!;
  const coming = async () => {
    // An event of before, of a worker that did not know the list yet, and new ones.
    await world.plantEvents("second-phone", "ana@example.com", "order-on-its-way");
    await world.plantEvents("phone", "ana@example.com", "order-new", noon + 2 * dayMs);
  };
  const report = await erase("email", "ana@example.com", { untilKnown: coming });
  expect(edges(report)).toMatchObject({ found: 3, erased: 3 });
  const choices = report.places.find(({ place }) => place.includes("consent_changes"))!;
  expect(choices).toMatchObject({ found: 1, erased: 1 });
  const { rows } = await database.adminPool.query(
    "select did from identity_edges where client_id = $1 and identifier = $2",
    [world.client, world.hashOf("ana@example.com")],
  );
  expect(rows).toEqual([{ did: world.did("phone") }]);
});

test("a stranger's lead under a device that a server uses does not make that device his", async () => {
  // The server's order and views of customer 17, then a page's lead with the stranger's address.
  await world.plantEvents("customer17", null, "order-17", noon, { client_side: false });
  await world.plantEvents("customer17", "stranger@example.com", "order-made-up", noon + 1_000);
  // A phone of the stranger's own, and one that the server itself says is his.
  await world.plantEvents("own-phone", "stranger@example.com", "order-own");
  await world.plantEvents("own-tablet", "stranger@example.com", "order-tablet", noon, { client_side: false });
  const sums = await world.money();
  const ofCustomer = async () =>
    linesWith(await world.everything(), world.did("customer17")).filter((line) => line.includes("order-17"));
  const before = await ofCustomer();
  expect(before.length).toBeGreaterThan(1);
  const report = await erase("email", "stranger@example.com");
  expect([report.devices, report.shared_devices]).toEqual([2, 1]);
  const claimed = report.device_uses.filter(({ is_claimed }) => is_claimed);
  expect(claimed).toEqual([{ did: world.did("customer17"), events: 16, sales: 8, is_claimed: true }]);
  expect(await ofCustomer()).toEqual(before);
  const after = await world.everything();
  expect(
    linesWith(after, world.hashOf("stranger@example.com"), world.did("own-phone"), world.did("own-tablet")),
  ).toEqual([]);
  expect(await world.money()).toEqual(sums);
});

test("a placeholder that many share and what is malformed are refused", () => {
  for (const [kind, value] of [
    ["email", "ana"],
    ["phone", "ring me"],
    ["did", "guest"],
    ["order_id", "n/a"],
    ["client_lead_id", ""],
  ] as const)
    expect(() => subjectOf(kind, value, world.identify)).toThrow(`/${kind}`);
});
