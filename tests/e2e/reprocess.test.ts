// A rule is saved wrong, sales come, and the rule is corrected: one command shows the differences,
// and with --yes the ledger is right.
import { afterAll, beforeAll, expect, test } from "vitest";
import { openPool } from "../../infra/postgres/sql.ts";
import type { ReferenceChanges } from "../../modules/catalog/reference/entities.ts";
import { writeReference } from "../../modules/catalog/reference/writer.ts";
import { asker } from "../support/ask.ts";
import { crediting } from "../support/builders.ts";
import { environmentOf, spawned, until } from "../support/e2e-product.ts";
import { type Shop, shopOf } from "../support/e2e-shop.ts";
import { type JoinedProduct, joinProduct } from "../support/joined-product.ts";

let product: JoinedProduct;
let shop: Shop;
let partners: readonly number[];
let token: string;
beforeAll(async () => {
  product = await joinProduct("reprocess");
  shop = shopOf(product, "casa-verde");
  ({ partners } = shop);
  token = await product.token("admin@demo.tributary.test");
});
afterAll(() => product?.clear());
const ask = asker(() => product.stack.run.apps.api!.url);
const post = (path: string, body: object) => ask(path, { method: "POST", token, body });

/** Resolves when workers use the change. */
const saved = async (changes: ReferenceChanges) => {
  const pool = openPool(product.stack.env.POSTGRES_URL!, { max: 1 });
  const change = await writeReference(pool, "test", changes);
  await pool.end();
  await until("the change is in force", 30_000, async () =>
    expect(Date.now()).toBeGreaterThan(change.recorded_at + 500),
  );
  return change;
};
const visit = (n: number) => ({
  event_id: `visit-${n}`,
  t: "page_view",
  ts: Date.now(),
  cid: shop.id,
  did: `device-${n}`,
  url: "https://www.casa-verde.example/abril",
});
const earned = () =>
  product.rows<{ partner_id: number; amount: number }>(`
    select e.partner_id, sum(e.amount_minor)::int as amount
    from ledger_entries e join conversions c using (client_id, conversion_id)
    where c.client_id = ${shop.id} group by 1 having sum(e.amount_minor) <> 0 order by 1`);
const current = () =>
  product.clickhouse<{ id: string; version: number; partner_id: number | null; credit_method: string | null }>(
    "select sender_event_id as id, version, partner_id, credit_method from events_current where " +
      `client_id = ${shop.id} order by id`,
  );
const reprocess = (...args: readonly string[]) =>
  product.tributary("reprocess", "--from", "-1h", "--client", shop.slug, ...args).done;
/** Hashes of tables other than rollups, whose minutes may still wait. */
const hashes = async (): Promise<unknown> => {
  await product.quiet(30_000);
  const names = "events,conversions,ledger_entries,product_sales";
  return JSON.parse((await product.tributary("hash", "--json", "--tables", names).done).stdout).tables;
};

test("a run that cannot begin ends, with the reason", async () => {
  const env = { ...environmentOf(product.stack.home), POSTGRES_URL: "postgres://none@127.0.0.1:1/nothing" };
  const { child, done } = spawned(["dist/apps/cli/main.js", "reprocess", "--from", "-1h"], env);
  const late = setTimeout(() => child.kill("SIGKILL"), 40_000);
  expect(await done).toMatchObject({ code: 1, stderr: expect.stringContaining("ECONNREFUSED") });
  clearTimeout(late);
});

/** The id of the rule of these tests. */
let rule: number;

test("a wrong rule is seen through, set right by decisions, and set right once", async () => {
  const [good, wrong] = [partners[0]!, partners[1]!];
  const when = {
    any: [
      { field: "coupon", op: "eq", value: "ABRIL" },
      { field: "url.path", op: "eq", value: "/abril" },
    ],
  } as const;
  rule = (
    await saved({
      rules: [{ rule_id: -1, client_id: shop.id, name: "Abril", priority: 9, when, ...crediting(wrong) }],
    } as unknown as ReferenceChanges)
  ).idOf("rules", -1);
  await shop.send([shop.purchase("R-1", "ABRIL"), shop.purchase("R-2", "ABRIL"), shop.purchase("R-3"), visit(1)]);
  // 6.5 % of two sales of 1,000.00
  const before = [{ partner_id: wrong, amount: 13_000 }];
  await until("the wrong partner has earned", 30_000, async () => expect(await earned()).toEqual(before));
  await until("everything is stored", 30_000, async () => expect(await current()).toHaveLength(4));
  await saved({ rules: [{ rule_id: rule, ...crediting(good) }] } as unknown as ReferenceChanges);

  const shown = await reprocess();
  expect(shown.code, shown.stderr).toBe(0);
  expect(shown.stdout).toMatch(new RegExp(`rule partner ${wrong} +rule partner ${good} +2 +1`));
  expect(shown.stdout).toContain(`moved 2 from ${wrong} to ${good}`);
  expect(shown.stdout).toContain("purchase-R-1");
  expect(shown.stderr).toMatch(/^4 events and 3 orders of the window; to read: \d+ messages .*3 claims; 0 copies/m);
  expect(shown.stderr).toContain("nothing was written; --yes writes 3 decisions (2 about sales, 1 about other events)");
  expect(await earned()).toEqual(before);

  const written = await reprocess("--yes", "--json", "--reason", "rule Abril named the wrong partner");
  expect(written.code, written.stderr).toBe(0);
  const said = JSON.parse(written.stdout);
  expect(said.cost).toMatchObject({ events: 4, orders: 3, claims: 3, copies: 0 });
  expect(said).toMatchObject({ decisions: 3, written: { decisions: 3, applied: 3, overtaken: 0, waiting: 0 } });
  const moved = said.money.find(({ partner_id }: { partner_id: number }) => partner_id === good);
  expect(moved).toMatchObject({ commission: expect.stringMatching(/^\d+\.\d\d$/), currency: "MXN" });
  const gain = Math.round(Number(moved.commission) * 100);
  await until("the ledger is right", 30_000, async () =>
    expect(await earned()).toEqual([{ partner_id: good, amount: gain }]),
  );
  const rows = await until("the events show their second version", 30_000, async () => {
    const found = await current();
    expect(found.map(({ version }) => version)).toEqual([2, 2, 1, 2]);
    return found;
  });
  expect(rows.map(({ partner_id, credit_method }) => [partner_id, credit_method])).toEqual([
    [good, "rule"],
    [good, "rule"],
    [null, null],
    [good, "rule"],
  ]);

  const state = await hashes();
  const again = await reprocess("--yes", "--stage", "enrich");
  expect(again.code, again.stderr).toBe(0);
  expect(again.stdout).toContain("nothing differs");
  expect(await hashes()).toEqual(state);
  const operations = (await product.read<{ kind: string; phase: string; detail: string }>("operations"))
    .map((one) => one.event().data)
    .filter(({ kind }) => kind === "reprocess");
  expect(operations.map(({ phase }) => phase)).toEqual(["started", "succeeded"]);
  expect(operations[0]!.detail).toContain('"decisions":3');
}, 180_000);

const isOver = (id: string) =>
  until("the operation is over", 60_000, async () => {
    const { body } = await ask(`/api/operations/${id}`, { token });
    if (body.finished_at === null) throw new Error(JSON.stringify(body));
    return body;
  });

test("over the platform API a keeper compares, and writes what it found once, though it is killed", async () => {
  const [good, wrong] = [partners[0]!, partners[1]!];
  const before = await earned();
  expect(before).toMatchObject([{ partner_id: good }]);
  await saved({ rules: [{ rule_id: rule, ...crediting(wrong) }] } as unknown as ReferenceChanges);
  const asked = {
    ...{ move: "reprocess", from: new Date(Date.now() - 3_600_000).toISOString(), client_id: shop.id },
    reason: "it was right before",
  };
  const planned = await post("/api/operations/plan", asked);
  expect([planned.status, planned.body.problem, planned.body.nodes], planned.text).toEqual([200, null, ["attribute"]]);
  expect(planned.body.records).toBeGreaterThan(3);
  for (const [more, pointer] of [
    [{ client_id: 2_000_000_000 }, "/client_id"],
    [{ from: new Date(Date.now() + 60_000).toISOString() }, "/from"],
    [{ stage: "settle" }, "/stage"],
  ] as const)
    expect((await post("/api/operations/plan", { ...asked, ...more })).body.errors[0].pointer).toBe(pointer);

  const compared = await post("/api/operations", { plan_token: planned.body.plan_token });
  expect(compared.status, compared.text).toBe(202);
  const found = await isOver(compared.body.id);
  expect(found).toMatchObject({
    move: "reprocess",
    status: "completed",
    verdict: expect.stringContaining("nothing was"),
  });
  expect(found.difference).toMatchObject({ decisions: 3, about_sales: 2, closed_months: [], further_money: 0 });
  expect(found.difference.conversions.moved).toEqual([{ from_partner: good, to_partner: wrong, lines: 2 }]);
  expect(found.difference.money.map(({ partner_id }: { partner_id: number }) => partner_id).sort()).toEqual(
    [good, wrong].sort(),
  );
  expect(await earned()).toEqual(before);

  const { body: begun, status } = await post("/api/operations", { plan_token: found.plan_token });
  expect(status, JSON.stringify(begun)).toBe(202);
  await product.replaced("keeper", 60_000);
  const written = await isOver(begun.id);
  expect(written).toMatchObject({ status: "completed", difference: null, plan_token: null });
  await until("the ledger is as it was asked for", 30_000, async () =>
    expect(await earned()).toMatchObject([{ partner_id: wrong }]),
  );
  const again = await post("/api/operations", { plan_token: found.plan_token });
  expect([again.status, again.body.code, again.body.operation_id]).toEqual([409, "plan_used", begun.id]);
  const operations = (await product.read<{ operation_id: string; phase: string }>("operations"))
    .map((one) => one.event().data)
    .filter(({ operation_id }) => operation_id === begun.id);
  expect(operations.at(-1)!.phase).toBe("succeeded");
  expect(operations.filter(({ phase }) => phase === "succeeded")).toHaveLength(1);
}, 180_000);
