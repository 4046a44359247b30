// Rules: the platform API and the command line use the same use cases, so they refuse with the same
// words and have the same consequences.
import { describe, expect, test } from "vitest";
import { sql } from "../../../infra/postgres/sql.ts";
import { writeReference } from "../../../modules/catalog/reference/writer.ts";
import { apiSuite } from "../../support/api-suite.ts";
import { crediting } from "../../support/builders.ts";
import { type Case, type Shop, twoDoors } from "../../support/two-doors.ts";

const suite = apiSuite();
const { pool, owner, send, read } = suite;
const { created, save, newShop, shopAfter, archived, refusesAlike } = twoDoors(suite);

const when = { field: "coupon", op: "eq", value: "A" };
const ruleOf = ({ client: client_id, partner }: Shop, more: object = {}) => ({
  ...{ client_id, name: "Coupon", when, ...crediting(partner), ...more },
});
const newRule = (more: (shop: Shop) => object = () => ({})): Pick<Case, "request" | "entry"> => ({
  request: (shop) => ["POST", "/api/rules", ruleOf(shop, more(shop))],
  entry: (shop) => ["rules", ruleOf(shop, more(shop))],
});
/** The rule of each shop. */
const rules = new Map<number, number>();
const withRule = async (shop: Shop): Promise<void> =>
  void rules.set(shop.client, (await created("/api/rules", ruleOf(shop))).id);
const replacement: Pick<Case, "request" | "entry"> = {
  request: (shop) => {
    const { client_id: _, ...rule } = ruleOf(shop, { name: "Another" });
    return ["PUT", `/api/rules/${rules.get(shop.client)}`, rule];
  },
  entry: (shop) => ["rules", { rule_id: rules.get(shop.client), name: "Another" }],
};
const withManyRules = ({ client: client_id, partner }: Shop) =>
  writeReference(pool, "test", {
    rules: Array.from({ length: 500 }, (_, n) => ({
      ...{ rule_id: -1 - n, client_id, name: `Rule ${n}`, when, ...crediting(partner) },
    })),
  });
const paused = ({ partner }: Shop) => send("PATCH", `/api/partners/${partner}`, { status: "paused" });
const another = 2_000_000_000;

const cases: readonly Case[] = [
  { code: "client_archived", given: shopAfter(archived("/api/clients/:client")), ...newRule() },
  { code: "partner_not_of_client", given: newShop, ...newRule(() => crediting(another)) },
  { code: "partner_inactive", given: shopAfter(paused), ...newRule() },
  { code: "too_many_rules", given: shopAfter(withManyRules), ...newRule() },
  { code: "unknown", given: newShop, ...newRule(({ partner }) => crediting(partner, another)) },
  {
    code: "client_archived",
    given: shopAfter(async (shop) => {
      await withRule(shop);
      await archived("/api/clients/:client")(shop);
    }),
    ...replacement,
  },
  {
    code: "partner_inactive",
    given: shopAfter(async (shop) => {
      await withRule(shop);
      await paused(shop);
    }),
    ...replacement,
  },
  {
    code: "rule_archived",
    given: shopAfter(async (shop) => {
      await withRule(shop);
      await archived(`/api/rules/${rules.get(shop.client)}`)(shop);
    }),
    ...replacement,
  },
];

describe("a refusal is the same at both doors", () => refusesAlike(cases));

describe("a rule that is archived", () => {
  const doors = {
    "over the platform API": (rule_id: number) => send("DELETE", `/api/rules/${rule_id}`),
    "by the command line": (rule_id: number) => save("rules", { rule_id, archived: true }),
  };
  test.each(Object.entries(doors))("%s is switched off too, and once", async (_, archive) => {
    const shop = await newShop();
    await withRule(shop);
    const id = rules.get(shop.client)!;
    await archive(id);
    await archive(id);
    expect((await read(`/api/rules/${id}`)).body).toMatchObject({ status: "inactive", archived: true, version: 2 });
    const { rows } = await owner.query(sql`select action from audit where entity = ${`rule:${id}`} order by audit_id`);
    expect(rows.map(({ action }) => action)).toEqual(["rule.created", "rule.archived"]);
  });

  test("and was active all the same is switched off by the next time", async () => {
    const { client, partner } = await newShop();
    const rule = { rule_id: -1, client_id: client, name: "Coupon", when, ...crediting(partner), archived: true };
    const rule_id = (await writeReference(pool, "test", { rules: [rule] })).idOf("rules", -1);
    expect((await read(`/api/rules/${rule_id}`)).body).toMatchObject({ status: "active", archived: true });
    await save("rules", { rule_id, archived: true });
    expect((await read(`/api/rules/${rule_id}`)).body).toMatchObject({ status: "inactive", archived: true });
  });

  test("takes no change by the command line, and can be one from the start", async () => {
    const shop = await newShop();
    const { saved } = await save("rules", ruleOf(shop, { archived: true }));
    expect(saved[0]!.after.record).toMatchObject({ archived: true, status: "inactive" });
    const rule_id = Number(saved[0]!.key);
    for (const change of [{ archived: false }, { status: "active" }, { archived: true, priority: 3 }])
      await expect(save("rules", { rule_id, ...change })).rejects.toThrow("this rule is archived");
  });
});
