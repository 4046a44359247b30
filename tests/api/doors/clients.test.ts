// Clients and their segments: the platform API and the command line use the same use cases, so they
// refuse with the same words and have the same consequences.
import { describe, expect, test } from "vitest";
import { sql } from "../../../infra/postgres/sql.ts";
import { createToken } from "../../../modules/access/tokens/tokens.ts";
import { writeReference } from "../../../modules/catalog/reference/writer.ts";
import { apiSuite } from "../../support/api-suite.ts";
import { type Case, type Shop, twoDoors } from "../../support/two-doors.ts";

const suite = apiSuite();
const { pool, owner, send, read } = suite;
const { created, save, newShop, shopAfter, archived, refusesAlike } = twoDoors(suite);

const client = (patch: object): Pick<Case, "request" | "entry"> => ({
  request: (shop) => ["PATCH", `/api/clients/${shop.client}`, patch],
  entry: (shop) => ["clients", { client_id: shop.client, ...patch }],
});
const segment = (body: object): Pick<Case, "request" | "entry"> => ({
  request: (shop) => ["POST", `/api/clients/${shop.client}/segments`, body],
  entry: (shop) => ["segments", { client_id: shop.client, ...body }],
});
const slugOf = (shop: Shop): string => `taken-${shop.client}`;

const sold = ({ client: id }: Shop) =>
  owner.query(sql`
    insert into conversions (client_id, conversion_id, version, partner_id, event_id, cause_event_id, event_type,
      customer, occurred_at, value_minor, refunded_minor, currency, status, method,
      content_hash)
    select ${id}, 'cnv_x', 1, 1, gen_random_uuid(), gen_random_uuid(), 'purchase', 'x', now(), 1, 0, 'MXN',
      'credited', 'x', 'x'`);
/** With the six segments of every client this is the most that a client may have. */
const withManySegments = ({ client: client_id }: Shop) => {
  const segments = Array.from({ length: 194 }, (_, n) => ({ client_id, code: `S${n}`, name: `Segment ${n}` }));
  return writeReference(pool, "test", { segments });
};

// Only the platform API has `segment_exists`, because an entry of the command line with the code of
// a segment changes that segment, and `forbidden`, because an operator may do what an admin may.
const cases: readonly Case[] = [
  {
    code: "slug_taken",
    given: shopAfter((shop) => created("/api/clients", { name: "Taken", slug: slugOf(shop) })),
    request: (shop) => ["POST", "/api/clients", { name: "Another", slug: slugOf(shop) }],
    entry: (shop) => ["clients", { name: "Another", slug: slugOf(shop) }],
  },
  { code: "currency_in_use", given: shopAfter(sold), ...client({ currency: "USD" }) },
  { code: "confirmation_needed", given: newShop, ...client({ retention_months: 12 }) },
  { code: "invalid", given: newShop, ...client({ fraud: { review: 90 } }) },
  { code: "client_archived", given: shopAfter(archived("/api/clients/:client")), ...client({ name: "N" }) },
  {
    code: "client_archived",
    given: shopAfter(archived("/api/clients/:client")),
    ...segment({ code: "AB", name: "N" }),
  },
  {
    code: "client_archived",
    given: shopAfter(archived("/api/clients/:client")),
    request: (shop) => ["PATCH", `/api/clients/${shop.client}/segments/MX`, { name: "N" }],
    entry: (shop) => ["segments", { client_id: shop.client, code: "MX", name: "N" }],
  },
  { code: "too_many_segments", given: shopAfter(withManySegments), ...segment({ code: "AB", name: "N" }) },
];

describe("a refusal is the same at both doors", () => refusesAlike(cases));

describe("a client that is archived", () => {
  const doors = {
    "over the platform API": ({ client: id }: Shop) => send("DELETE", `/api/clients/${id}`),
    "by the command line": ({ client: client_id }: Shop) => save("clients", { client_id, status: "archived" }),
  };
  test.each(Object.entries(doors))("%s loses tokens and invitations, and its campaigns pause", async (_, archive) => {
    const shop = await newShop();
    const { client: client_id, partner } = shop;
    await createToken(pool, { kind: "ingest", label: "t", client_id });
    await created("/api/client-invitations", { email: `${client_id}@guest.example`, client_id });
    const campaign = { client_id, name: "Spring", destination_url: "https://shop.example/" };
    const { id: campaignId } = await created("/api/campaigns", campaign);
    await created(`/api/campaigns/${campaignId}/launch`, { partners: [partner] });
    await archive(shop);
    expect((await read(`/api/clients/${client_id}`)).body.status).toBe("archived");
    expect((await read(`/api/campaigns/${campaignId}`)).body.status).toBe("paused");
    const { rows } = await owner.query(sql`
      select (select count(*)::int from tokens where client_id = ${client_id} and revoked_at is null) as tokens,
        (select count(*)::int from invitations where client_id = ${client_id} and revoked_at is null) as invitations,
        (select action from audit where entity = ${`client:${client_id}`} order by audit_id desc limit 1) as action`);
    expect(rows).toEqual([{ tokens: 0, invitations: 0, action: "client.archived" }]);
  });

  test("comes back by its status at both doors", async () => {
    const back = shopAfter(archived("/api/clients/:client"));
    const [first, second] = [await back(), await back()];
    await send("PATCH", `/api/clients/${first.client}`, { status: "active" });
    await save("clients", { client_id: second.client, status: "active" });
    for (const { client: id } of [first, second]) expect((await read(`/api/clients/${id}`)).body.status).toBe("active");
  });
});

test("the command line makes no client that is archived from the start", async () =>
  await expect(save("clients", { name: "N", slug: "archived-from-the-start", status: "archived" })).rejects.toThrow(
    "/clients/0/status: a new client is active or paused",
  ));

test("a record has the days of all event types, and the audit what it was before", async () => {
  const { client: client_id } = await newShop();
  const rule = { rules: { ua_bot: { active: false } } };
  const { saved } = await save("clients", { client_id, hold_days: { purchase: 5 }, jurisdiction: "EU", fraud: rule });
  expect(saved[0]!.after.record).toMatchObject({ hold_days: { purchase: 5 }, jurisdiction: "EU" });
  expect(saved[0]!.after.record.hold_days).not.toHaveProperty("lead_submit");
  const { rows } = await owner.query(sql`
    select before, after from audit where entity = ${`client:${client_id}`} order by audit_id desc limit 1`);
  expect(rows).toMatchObject([
    {
      before: { hold_days: { purchase: 30, lead_submit: 0 }, jurisdiction: "MX", fraud: { review: 40, rules: {} } },
      after: { hold_days: { purchase: 5 }, jurisdiction: "EU", fraud: { review: 40, ...rule } },
    },
  ]);
});
