// `tributary reference` on a real Postgres: its output can be saved again, a preview saves nothing,
// and it refuses what the platform API refuses.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { saveRecords } from "../../apps/cli/commands/reference/save-records.ts";
import { sentencesOf } from "../../apps/cli/refusals.ts";
import { dayOf } from "../../domain/calendar.ts";
import { referenceOf } from "../../domain/reference/snapshot.ts";
import { sql, transaction } from "../../infra/postgres/sql.ts";
import { RefusalError } from "../../modules/base/refusal.ts";
import { type Kind, kinds, newestRecords } from "../../modules/catalog/reference/newest-records.ts";
import { rowsAfter } from "../../modules/catalog/reference/rows.ts";
import { writeReference } from "../../modules/catalog/reference/writer.ts";
import { spawned } from "../support/e2e-product.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";
import { sharedStack } from "../support/shared-stack.ts";

let database: FreshDatabase;
let pool: pg.Pool;
let ids: { client: number; partner: number; paused: number; campaign: number; link: number; rule: number };
const act = { actor: "ana@cli", role: "operator", request_id: "cli-test", ip: null };
const today = dayOf(Date.now());

beforeAll(async () => {
  database = await freshDatabase();
  pool = database.pool({ max: 4 });
  const partner = { client_ids: [-1], status: "active" as const };
  const saved = await writeReference(pool, "test", {
    clients: [{ client_id: -1, slug: "shop", name: "Shop" }],
    partners: [
      { partner_id: -1, name: "Blog", email: "blog@shop.example", ...partner },
      { partner_id: -2, name: "Paused", email: "paused@shop.example", ...partner, status: "paused" },
    ],
    campaigns: [
      { campaign_id: -1, client_id: -1, name: "Spring", status: "active", destination_url: "https://shop.example/" },
    ],
    links: [{ link_id: -1, campaign_id: -1, partner_id: -1, code: "spring-blog" }],
    contracts: [
      { partner_id: -1, client_id: -1, event_type: "purchase", type: "percent", rate: "10", effective_from: today },
    ],
    rules: [
      {
        ...{ rule_id: -1, client_id: -1, name: "Coupon", when: { field: "props.coupon", op: "eq", value: "A" } },
        // biome-ignore lint/suspicious/noThenProperty: the wire name of what a rule does
        then: { partner_id: -1 },
      },
    ],
  });
  ids = {
    ...{ client: saved.idOf("clients", -1), partner: saved.idOf("partners", -1), paused: saved.idOf("partners", -2) },
    ...{ campaign: saved.idOf("campaigns", -1), link: saved.idOf("links", -1), rule: saved.idOf("rules", -1) },
  };
});
afterAll(() => database.drop());

const save = (kind: Kind, entry: object, isSaved = true) => saveRecords(pool, kind, [entry], { act, isSaved });
const newest = async (kind: Kind, key: string | number) =>
  (await transaction(pool, null, (tx) => newestRecords(tx, kind, [String(key)])))[0]!;
const wrong = async (kind: Kind, entry: object): Promise<readonly string[]> => {
  try {
    await save(kind, entry, false);
    return [];
  } catch (error) {
    if (!(error instanceof RefusalError)) throw error;
    return sentencesOf(error).map((sentence) => sentence.split(":")[0]!);
  }
};

test("of every kind what is shown can be saved, and saving it changes nothing but its version", async () => {
  for (const kind of kinds) {
    const all = await transaction(pool, null, (tx) => newestRecords(tx, kind));
    expect(all.length, kind).toBeGreaterThan(0);
    const { key, record, version } = all[0]!;
    const id = { segments: {}, clients: { client_id: +key }, partners: { partner_id: +key } } as Record<string, object>;
    const own = id[kind] ?? { [`${kind.slice(0, -1)}_id`]: +key };
    const { saved } = await save(kind, { ...own, ...record, version }, false);
    expect(saved[0]!.after.record, kind).toEqual(record);
    expect((await newest(kind, key)).version, "a preview keeps nothing").toBe(version);
  }
});

test("a contract without an id is a new one, and again the next version of it; both are in the audit", async () => {
  const terms = {
    partner_id: ids.partner,
    client_id: ids.client,
    event_type: "install",
    type: "flat",
    amount: "50.00",
  };
  const first = (await save("contracts", { ...terms, effective_from: today })).saved[0]!;
  expect([first.isNew, first.after.version]).toEqual([true, 1]);
  const second = (await save("contracts", { ...terms, amount: "60.00", effective_from: today })).saved[0]!;
  expect([second.isNew, second.key, second.after.version]).toEqual([false, first.key, 2]);
  expect([second.before?.amount, second.after.record.amount]).toEqual(["50.00", "60.00"]);
  const { rows } = await database.adminPool.query(
    sql`select actor, role, action, client_id from audit where entity = ${`contract:${first.key}`} order by audit_id`,
  );
  const who = { actor: "ana@cli", role: "operator", client_id: ids.client };
  expect(rows).toEqual([
    { ...who, action: "contract.created" },
    { ...who, action: "contract.versioned" },
  ]);
});

test("a record that one save changes and archives is archived for stages and edges too", async () => {
  const partner = { name: "Leaving", email: "leaving@shop.example", client_ids: [ids.client] };
  const { key } = (await save("partners", partner)).saved[0]!;
  await save("partners", { partner_id: Number(key), name: "Gone", status: "archived" });
  const rows = await transaction(pool, null, async (tx) => {
    await tx.query("set local role tributary_reference");
    return rowsAfter(tx, 0);
  });
  const later = Date.now() + 60_000;
  const known = referenceOf(rows, later).at(later, later).partner(Number(key));
  expect(known).toMatchObject({ name: "Gone", status: "archived" });
});

test("a version that is not the newest is refused, and several are saved together or not at all", async () => {
  const before = await newest("rules", ids.rule);
  const stale = { rule_id: ids.rule, name: "Other", version: before.version + 1 };
  await expect(save("rules", stale)).rejects.toThrow(`/rules/0/version: it is version ${before.version} by now`);
  const entries = [
    { rule_id: ids.rule, name: "Other" },
    { rule_id: 999_999, name: "None" },
  ];
  await expect(saveRecords(pool, "rules", entries, { act, isSaved: true })).rejects.toThrow(
    "/rules/1/rule_id: nothing has the id 999999",
  );
  expect((await newest("rules", ids.rule)).record.name).toBe("Coupon");
});

describe("what the platform API refuses is refused", () => {
  test("of clients", async () => {
    const client_id = ids.client;
    expect(await wrong("clients", { client_id, retention_months: 12 })).toEqual(["clients[0].confirm_retention"]);
    expect(await wrong("clients", { client_id, retention_months: 12, confirm_retention: true })).toEqual([]);
    expect(await wrong("clients", { client_id, slug: "other" })).toEqual(["clients[0].slug"]);
    expect(await wrong("clients", { client_id, valid_from: "2020-01-01T00:00:00Z" })).toEqual([
      "clients[0].valid_from",
    ]);
  });
  test("of partners", async () => {
    const partner_id = ids.partner;
    expect(await wrong("partners", { partner_id, email: "PAUSED@shop.example" })).toEqual(["partners[0].email"]);
    expect(await wrong("partners", { partner_id, payout: { min_amount: "1.005" } })).toEqual([
      "partners[0].payout.min_amount",
    ]);
  });
  test("of campaigns and links", async () => {
    const campaign_id = ids.campaign;
    expect(await wrong("campaigns", { campaign_id, status: "draft" })).toEqual(["campaigns[0].status"]);
    const foreign = { campaign_id, destination_url: "javascript:alert(1)" };
    expect(await wrong("campaigns", foreign)).toContain("campaigns[0].destination_url");
    const link = { campaign_id, partner_id: ids.paused, code: "paused-1" };
    expect(await wrong("links", link)).toEqual(["links[0].partner_id"]);
    expect(await wrong("links", { ...link, partner_id: ids.partner, code: "spring-blog" })).toEqual(["links[0].code"]);
  });
  test("of contracts in a closed month, of an unknown segment and of an unknown field", async () => {
    const terms = { partner_id: ids.partner, client_id: ids.client, event_type: "purchase", type: "percent", rate: 5 };
    expect(await wrong("contracts", { ...terms, effective_from: "2024-01-01" })).toEqual([
      "contracts[0].effective_from",
    ]);
    const now = { ...terms, effective_from: today };
    expect(await wrong("contracts", { ...now, segment: "XX" })).toEqual(["contracts[0].segment"]);
    expect(await wrong("contracts", { ...now, comission: 5 })).toEqual(["contracts[0]"]);
  });
  test("of rules for a partner who has paused", async () => {
    // biome-ignore lint/suspicious/noThenProperty: the wire name of what a rule does
    const rule = { rule_id: ids.rule, then: { partner_id: ids.paused } };
    expect(await wrong("rules", rule)).toEqual(["rules[0].then.partner_id"]);
    expect(await wrong("rules", { ...rule, status: "inactive" })).toEqual([]);
  });
});

test("the command shows what would change, saves it with --yes, and says what is refused with exit 3", async () => {
  const folder = mkdtempSync(join(tmpdir(), "tributary-records-"));
  const env = { ...process.env, ...sharedStack().env, POSTGRES_URL: database.appUrl, TRIBUTARY_HOME: folder };
  const tributary = (...args: readonly string[]) => spawned(["dist/apps/cli/main.js", "reference", ...args], env).done;
  try {
    const list = await tributary("list", "rules", "--client", "shop");
    expect([list.code, list.stdout]).toEqual([0, expect.stringMatching(/^ *id .*\n-+.*\n *\d+ .*Coupon/)]);
    const file = join(folder, "rule.json");
    const { code, stdout } = await tributary("show", "rules", String(ids.rule));
    expect(code).toBe(0);
    writeFileSync(file, JSON.stringify({ ...JSON.parse(stdout), priority: 7 }));
    const preview = await tributary("save", "rules", file);
    expect([preview.code, preview.stdout]).toEqual([0, `rules ${ids.rule}\n  priority: 0 -> 7\n`]);
    expect(preview.stderr).toContain("nothing was saved yet");
    expect((await newest("rules", ids.rule)).record.priority).toBe(0);
    const saved = await tributary("save", "rules", file, "--yes", "--actor", "ana@shop.example");
    expect([saved.code, saved.stderr]).toEqual([0, expect.stringContaining("saved; it acts on what is received from")]);
    expect((await newest("rules", ids.rule)).record.priority).toBe(7);
    const again = await tributary("save", "rules", file, "--yes");
    expect([again.code, again.stderr]).toEqual([
      3,
      expect.stringContaining("rules[0].version: it is version 2 by now"),
    ]);
    writeFileSync(file, "{");
    expect((await tributary("save", "rules", file)).code).toBe(2);
    expect((await tributary("list", "orders")).stderr).toContain("orders is none of clients, segments, partners");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
