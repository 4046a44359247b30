// Campaigns and their links: the platform API and the command line use the same use cases, so they
// refuse with the same words and have the same consequences.
import { describe, expect, test } from "vitest";
import { sql } from "../../../infra/postgres/sql.ts";
import { RefusalError } from "../../../modules/base/refusal.ts";
import { apiSuite } from "../../support/api-suite.ts";
import { type Case, type Shop, twoDoors } from "../../support/two-doors.ts";

const suite = apiSuite();
const { owner, send, read } = suite;
const { created, save, newShop, archived, refusesAlike } = twoDoors(suite);

const page = "https://shop.example/";
/** The campaign of each shop, by client. */
const campaigns = new Map<number, number>();
const idOf = ({ client }: Shop): number => campaigns.get(client)!;
const pathOf = (shop: Shop): string => `/api/campaigns/${idOf(shop)}`;

/** A shop with a draft, after this change. */
const draftAfter =
  (...steps: readonly ((shop: Shop) => Promise<unknown>)[]) =>
  async (): Promise<Shop> => {
    const shop = await newShop();
    const draft = { client_id: shop.client, name: "Spring", destination_url: page };
    campaigns.set(shop.client, (await created("/api/campaigns", draft)).id);
    for (const step of steps) await step(shop);
    return shop;
  };
const launched = (shop: Shop) => created(`${pathOf(shop)}/launch`, { partners: [shop.partner] });
const ended = (shop: Shop) => send("DELETE", pathOf(shop));
const paused = ({ partner }: Shop) => send("PATCH", `/api/partners/${partner}`, { status: "paused" });
const onOwnHosts = ({ client }: Shop) =>
  created(`/api/clients/${client}/pipeline/pixel-config`, { allowed_domains: ["shop.example"] });

const campaign = (patch: object): Pick<Case, "request" | "entry"> => ({
  request: (shop) => ["PATCH", pathOf(shop), patch],
  entry: (shop) => ["campaigns", { campaign_id: idOf(shop), ...patch }],
});
const newCampaign = (more: object): Pick<Case, "request" | "entry"> => {
  const body = ({ client: client_id }: Shop) => ({ client_id, name: "Another", destination_url: page, ...more });
  return { request: (shop) => ["POST", "/api/campaigns", body(shop)], entry: (shop) => ["campaigns", body(shop)] };
};
const ofNobody = [{ kind: "coupon", value: "A", partner_id: 2_000_000_000 }];

// Only the platform API has the refusals of a launch, `duplicate_item` of a list of partners, and
// budgets and plans, which the command line does not save.
const cases: readonly Case[] = [
  { code: "client_archived", given: draftAfter(archived("/api/clients/:client")), ...campaign({ name: "N" }) },
  { code: "client_archived", given: draftAfter(archived("/api/clients/:client")), ...newCampaign({}) },
  { code: "campaign_archived", given: draftAfter(ended), ...campaign({ name: "N" }) },
  { code: "invalid_transition", given: draftAfter(), ...campaign({ status: "active" }) },
  { code: "invalid_transition", given: draftAfter(), ...campaign({ status: "paused" }) },
  { code: "foreign_destination", given: draftAfter(onOwnHosts), ...campaign({ fallback_url: "https://x.example/" }) },
  {
    code: "foreign_destination",
    given: draftAfter(onOwnHosts),
    ...newCampaign({ destination_url: "https://x.example/" }),
  },
  { code: "partner_not_of_client", given: draftAfter(), ...campaign({ patterns: ofNobody }) },
  { code: "partner_not_of_client", given: draftAfter(), ...newCampaign({ patterns: ofNobody }) },
];

describe("a refusal is the same at both doors", () => {
  refusesAlike(cases);

  test("partner_inactive, at the place where each door names the partner", async () => {
    const shop = await draftAfter(paused)();
    const answer = await send("PATCH", pathOf(shop), { partner_ids: [shop.partner] });
    const link = { campaign_id: idOf(shop), partner_id: shop.partner, code: `code-${shop.client}` };
    const error = await save("links", link).catch((thrown: unknown) => thrown);
    if (!(error instanceof RefusalError)) throw error;
    const [{ code, path, message }] = error.refusals as [RefusalError["refusals"][number]];
    expect([answer.status, answer.body.errors]).toEqual([
      409,
      [{ pointer: "/partner_ids/0", code: "partner_inactive", detail: message }],
    ]);
    expect([code, path]).toEqual(["partner_inactive", "/links/0/partner_id"]);
  });
});

describe("the command line", () => {
  const auditOf = async (entity: string) =>
    (await owner.query(sql`select action from audit where entity = ${entity} order by audit_id`)).rows.map(
      ({ action }) => action,
    );

  test("says how a draft begins to run", async () => {
    const shop = await draftAfter()();
    const start = save("campaigns", { campaign_id: idOf(shop), status: "active" });
    await expect(start).rejects.toThrow("/campaigns/0/status: a campaign does not go from draft to active this way");
    await expect(start).rejects.toThrow("launch it over the platform API");
    const entry = { client_id: shop.client, name: "Summer", destination_url: page };
    await expect(save("campaigns", { ...entry, status: "active" })).rejects.toThrow("launch it over the platform API");
    const { saved } = await save("campaigns", { ...entry, status: "draft" });
    expect(saved[0]!.after).toMatchObject({ version: 1, record: { status: "draft" } });
    expect(await auditOf(`campaign:${saved[0]!.key}`)).toEqual(["campaign.created"]);
  });

  test("archives a campaign as the platform API does: it ends, and is archived once", async () => {
    const shop = await draftAfter(launched)();
    const campaign_id = idOf(shop);
    const { saved } = await save("campaigns", { campaign_id, archived: true });
    expect(saved[0]!.after.record).toMatchObject({ status: "ended", archived: true });
    await save("campaigns", { campaign_id, archived: true });
    const { body } = await read(pathOf(shop));
    expect(body).toMatchObject({ status: "ended", archived: true, version: 3 });
    expect(await auditOf(`campaign:${campaign_id}`)).toEqual([
      ...["campaign.created", "campaign.launched", "campaign.archived"],
    ]);
  });

  test("makes a link, takes it out of use and back, and the campaign has its next version each time", async () => {
    const shop = await draftAfter(launched)();
    const { version } = (await read(pathOf(shop))).body;
    const code = `vanity-${shop.client}`;
    const { saved } = await save("links", { campaign_id: idOf(shop), partner_id: shop.partner, code });
    const stale = await send("PATCH", pathOf(shop), { partner_ids: [], version });
    expect([stale.status, stale.body.code]).toEqual([409, "version_conflict"]);
    const link_id = Number(saved[0]!.key);
    const statusOf = async () =>
      (await read(pathOf(shop))).body.links.find((link: { code: string }) => link.code === code).status;
    await save("links", { link_id, status: "archived" });
    expect(await statusOf()).toBe("archived");
    await save("links", { link_id, status: "active" });
    expect(await statusOf()).toBe("active");
    await paused(shop);
    await save("links", { link_id, status: "archived" });
    await expect(save("links", { link_id, status: "active" })).rejects.toThrow("paused or archived");
    await expect(save("links", { link_id, code: "other" })).rejects.toThrow("cannot be changed once saved");
    expect(await auditOf(`link:${link_id}`)).toEqual([
      ...["link.created", "link.updated", "link.updated", "link.updated"],
    ]);
  });
});
