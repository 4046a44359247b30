// Partners and contracts: the platform API and the command line use the same use cases, so they
// refuse with the same words and have the same consequences.
import { describe, expect, test } from "vitest";
import { dayOf } from "../../../domain/calendar.ts";
import { sql } from "../../../infra/postgres/sql.ts";
import { apiSuite } from "../../support/api-suite.ts";
import { type Case, type Shop, twoDoors } from "../../support/two-doors.ts";

const suite = apiSuite();
const { owner, send, read, fresh } = suite;
const { created, save, newShop, shopAfter, archived, refusesAlike } = twoDoors(suite);

const today = dayOf(Date.now());
const [year, month] = today.split("-").map(Number) as [number, number];
const nextMonth = dayOf(Date.UTC(year, month, 15)).slice(0, 7);

const terms = ({ client: client_id }: Shop, more: object = {}) => ({
  ...{ client_id, event_type: "purchase", type: "percent", rate: "10", effective_from: today, ...more },
});

/** The shop has an approved plan for next month, with its partner at 10 %. */
const withApprovedPlan = async (): Promise<Shop> => {
  const shop = await newShop();
  await created(`/api/partners/${shop.partner}/segment-commissions`, terms(shop));
  const key = { client_id: shop.client, year: Number(nextMonth.slice(0, 4)), month: Number(nextMonth.slice(5)) };
  const line = { partner_id: shop.partner, segment: null, budget: "100.00", target_conversions: 1, rate: "10" };
  const { version } = await created("/api/planner/save", { ...key, lines: [line] });
  await created("/api/planner/approve", { ...key, version });
  return shop;
};
const contract = (more: object): Pick<Case, "request" | "entry"> => ({
  request: (shop) => ["POST", `/api/partners/${shop.partner}/segment-commissions`, terms(shop, more)],
  entry: (shop) => ["contracts", { ...terms(shop, more), partner_id: shop.partner }],
});
const partner = (patch: (shop: Shop) => object): Pick<Case, "request" | "entry"> => ({
  request: (shop) => ["PATCH", `/api/partners/${shop.partner}`, patch(shop)],
  entry: (shop) => ["partners", { partner_id: shop.partner, ...patch(shop) }],
});

const cases: readonly Case[] = [
  { code: "month_approved", given: withApprovedPlan, ...contract({ rate: "25" }) },
  { code: "month_closed", given: newShop, ...contract({ effective_from: "2024-01-01" }) },
  { code: "partner_archived", given: shopAfter(archived("/api/partners/:partner")), ...contract({}) },
  { code: "client_archived", given: shopAfter(archived("/api/clients/:client")), ...contract({}) },
  {
    code: "partner_archived",
    given: shopAfter(archived("/api/partners/:partner")),
    ...partner(() => ({ name: "N" })),
  },
  { code: "bad_amount", given: newShop, ...partner(() => ({ payout: { min_amount: "1.005" } })) },
  { code: "unknown", given: newShop, ...partner(({ client }) => ({ client_ids: [client, 2_000_000_000] })) },
  {
    code: "email_in_use",
    given: async () => {
      const shop = await newShop();
      const email = `${shop.partner}@taken.example`;
      await created("/api/partners", { name: "Other", email, client_ids: [shop.client] });
      return shop;
    },
    ...partner(({ partner: id }) => ({ email: `${id}@taken.example` })),
  },
];

describe("a refusal is the same at both doors", () => refusesAlike(cases));

describe("a partner that leaves a client", () => {
  const doors = {
    "over the platform API": ({ partner: id }: Shop, client_ids: readonly number[]) =>
      send("PATCH", `/api/partners/${id}`, { client_ids }),
    "by the command line": ({ partner: partner_id }: Shop, client_ids: readonly number[]) =>
      save("partners", { partner_id, client_ids }),
  };
  test.each(Object.entries(doors))("%s loses its links there, and its contracts end", async (_, leave) => {
    const shop = await newShop();
    const { client, partner: id } = shop;
    const other = (await created("/api/clients", { name: "Another", slug: fresh("s") })).id;
    await created(`/api/partners/${id}/segment-commissions`, terms(shop));
    const campaign = { client_id: client, name: "Spring", destination_url: "https://shop.example/" };
    const { id: campaignId } = await created("/api/campaigns", campaign);
    await created(`/api/campaigns/${campaignId}/launch`, { partners: [id] });
    await leave(shop, [other]);
    const { rows: contracts } = await owner.query(sql`
      select status, effective_to from segment_commissions where partner_id = ${id} order by version desc limit 1`);
    expect(contracts[0].status === "archived" || contracts[0].effective_to === today).toBe(true);
    const { rows: links } = await owner.query(sql`
      select distinct on (link_id) status from links where partner_id = ${id} order by link_id, version desc`);
    expect(links).toEqual([{ status: "archived" }]);
    const { body } = await read(`/api/partners/${id}`);
    expect(body.client_ids).toEqual([other]);
  });
});

test("a partner is archived by the command line as by the platform API", async () => {
  const { partner: id } = await newShop();
  await save("partners", { partner_id: id, status: "archived" });
  expect((await read(`/api/partners/${id}`)).body.status).toBe("archived");
  const { rows } = await owner.query(sql`select action from audit where entity = ${`partner:${id}`} order by audit_id`);
  expect(rows.at(-1)).toEqual({ action: "partner.archived" });
});
