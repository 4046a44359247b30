// The platform API and `tributary decide` refuse the same decisions about sales.
import { randomUUID } from "node:crypto";
import { afterAll, describe, expect, test } from "vitest";
import { useCaseOf } from "../../../apps/cli/commands/money/decide.ts";
import { inWork, operatorAct } from "../../../apps/cli/work.ts";
import { encodeOutcome } from "../../../infra/avro/outcome.ts";
import { openClickhouse } from "../../../infra/clickhouse/client.ts";
import { decisionOnOrder } from "../../../processors/settle/decision-claim.ts";
import { order as memory } from "../../../processors/settle/memory.ts";
import { emptyOrder } from "../../../processors/settle/order.ts";
import { settle } from "../../../processors/settle/settle.ts";
import type { Claim } from "../../../schemas/generated.ts";
import type { Recorded } from "../../../stream/flow.ts";
import { topics } from "../../../topics.ts";
import { apiSuite } from "../../support/api-suite.ts";
import { recorded } from "../../support/builders.ts";
import { decide, refund, sale } from "../../support/money-builders.ts";
import { bytesOf } from "../../support/remembered.ts";
import { expectSame, thrownBy } from "../../support/two-doors.ts";

const { env, owner, pool, send, fresh } = apiSuite();
const clickhouse = openClickhouse(env.CLICKHOUSE_URL!);
afterAll(() => clickhouse.close());

interface Shop {
  readonly client: number;
  readonly slug: string;
  /** A partner of the client. */
  readonly partner: number;
  /** An order of the client, sold and settled. */
  readonly order: string;
}
const created = async (path: string, body: object): Promise<number> => {
  const answer = await send("POST", path, body);
  expect(answer.status, answer.text).toBe(201);
  return answer.body.id;
};
/** The order as settle remembers it after these claims. */
const settled = async (client: number, claims: readonly Recorded<Claim>[]): Promise<void> => {
  let state = emptyOrder;
  for (const claim of claims) {
    const outcome = settle(claim, state, null);
    if (outcome.kind !== "emit") throw new Error(`settle emits, this was a ${outcome.kind}`);
    state = outcome.state;
  }
  const key = `${client}:${claims[0]!.data.order_key}`;
  const [bytes] = bytesOf(memory, [key], emptyOrder, state);
  await pool.query(
    `insert into memory_state (stage, key, version, event_id, topic, partition, "offset", value)
     values ('settle', $1, 1, 'e', 'claims', 0, 0, $2)`,
    [key, bytes!.value],
  );
};
interface Sold {
  /** The credited partner, or null. */
  readonly credited?: number | null;
  readonly isRefunded?: boolean;
  /** A total and a line of it that are of another worth. */
  readonly isDisputed?: boolean;
  /** A person kept the total of the two. */
  readonly isTotalKept?: boolean;
  /** The sale is held for fraud. */
  readonly isHeld?: boolean;
}
const newShop = async (sold: Sold = {}): Promise<Shop> => {
  const { credited = null, isRefunded = false, isDisputed = false, isTotalKept = false, isHeld = false } = sold;
  const slug = fresh("s");
  const client = await created("/api/clients", { name: "A shop", slug });
  const partner = await created("/api/partners", {
    ...{ name: "A partner", email: `${fresh("p")}@partner.example`, client_ids: [client] },
  });
  const order = fresh("o");
  const of = { client_id: client, order_id: order };
  const total = sale({ ...of, partner: credited, product_id: null, value_minor: 150_00n });
  await settled(client, [
    sale({ ...of, partner: credited, ...(isHeld && { band: "review" as const }) }),
    ...(isRefunded ? [refund(of)] : []),
    ...(isDisputed || isTotalKept ? [total] : []),
    ...(isTotalKept ? [keptTotal(client, order)] : []),
  ]);
  return { client, slug, partner, order };
};
const keptTotal = (client: number, order: string): Recorded<Claim> => {
  const { data, at } = decide("release", { keep: "total" });
  const { decision } = data;
  return recorded(topics.claims, decisionOnOrder(client, order, decision!), { at });
};
const archived = async (path: string): Promise<void> => expect((await send("DELETE", path)).status).toBe(204);

type Kind = Parameters<typeof useCaseOf>[0];
type Options = Partial<Parameters<typeof useCaseOf>[2]>;

/** Runs the use case as the command does; its log refuses, so that nothing is decided. */
const commanded = (kind: Kind, { client, slug }: Shop, options: Options) => {
  const act = operatorAct("ana@cli");
  const useCase = useCaseOf(kind, { client_id: client }, { client: slug, reason: "x", ...options });
  const decide = () => Promise.reject(new Error("this was let through to the log"));
  return inWork(pool, act, (work) => useCase(work, { clickhouse, decide }), { idOf: () => randomUUID() });
};

interface Case {
  readonly code: string;
  readonly given?: Sold;
  readonly before?: (shop: Shop) => Promise<void>;
  readonly path: "assign" | "reattribute" | "refund";
  readonly kind: Kind;
  /** The fields of the body beside the order. */
  readonly body: (shop: Shop) => object;
  readonly options: (shop: Shop) => Options;
}
const assigned = (more: { readonly partner?: number; readonly campaign?: number } = {}) => ({
  ...({ path: "assign", kind: "assign" } as const),
  body: ({ partner }: Shop) => ({
    partner_id: more.partner ?? partner,
    ...(more.campaign !== undefined && { campaign_id: more.campaign }),
  }),
  options: ({ partner }: Shop) => ({
    partner: String(more.partner ?? partner),
    ...(more.campaign !== undefined && { campaign: String(more.campaign) }),
  }),
});
const refunded = (same: { readonly amount?: string; readonly currency?: string; readonly event_id?: string } = {}) => ({
  ...({ path: "refund", kind: "refund", body: () => same, options: () => same } as const),
});
const keptOf = (keep: "total" | "lines") => ({
  ...({ path: "reattribute", kind: "release", options: () => ({ keep }) } as const),
  body: () => ({ review: "release", keep }),
});
const UNKNOWN = 2_000_000_000;
const cases: readonly Case[] = [
  { code: "already_credited", given: { credited: 21 }, ...assigned() },
  { code: "partner_not_of_client", ...assigned({ partner: UNKNOWN }) },
  { code: "campaign_not_of_client", ...assigned({ campaign: UNKNOWN }) },
  {
    code: "partner_archived",
    before: ({ partner }) => archived(`/api/partners/${partner}`),
    ...assigned(),
  },
  { code: "client_archived", before: ({ client }) => archived(`/api/clients/${client}`), ...assigned() },
  { code: "client_archived", before: ({ client }) => archived(`/api/clients/${client}`), ...refunded() },
  {
    ...{ code: "client_archived", before: ({ client }: Shop) => archived(`/api/clients/${client}`) },
    ...{ path: "reattribute", kind: "reject", body: () => ({ review: "reject" }), options: () => ({}) },
  },
  {
    code: "no_review",
    ...{ path: "reattribute", kind: "release", body: () => ({ review: "release" }), options: () => ({}) },
  },
  {
    ...{ code: "required", given: { credited: 21, isDisputed: true } },
    ...{ path: "reattribute", kind: "release", body: () => ({ review: "release" }), options: () => ({}) },
  },
  { code: "not_allowed", given: { credited: 21, isHeld: true }, ...keptOf("total") },
  { code: "not_allowed", given: { credited: 21, isHeld: true }, ...keptOf("lines") },
  { code: "no_review", given: { credited: 21 }, ...keptOf("lines") },
  {
    ...{ code: "not_of_sale", given: { credited: 21, isTotalKept: true }, path: "refund", kind: "refund" },
    ...{ body: () => ({ product_id: "sku1" }), options: () => ({ product: "sku1" }) },
  },
  {
    ...{ code: "not_found", given: { credited: 21 }, path: "refund", kind: "refund" },
    ...{ body: () => ({ product_id: "sku9" }), options: () => ({ product: "sku9" }) },
  },
  {
    ...{ code: "partner_not_of_client", path: "reattribute", kind: "reattribute" },
    body: () => ({ partner_id: UNKNOWN }),
    options: () => ({ partner: String(UNKNOWN) }),
  },
  { code: "bad_amount", ...refunded({ amount: "0" }) },
  { code: "bad_amount", ...refunded({ amount: "1.005" }) },
  { code: "required", ...refunded({ currency: "MXN" }) },
  { code: "not_of_sale", ...refunded({ amount: "1.00", currency: "USD" }) },
  { code: "refund_exceeds", ...refunded({ amount: "100.01" }) },
  { code: "already_refunded", given: { isRefunded: true }, ...refunded() },
];

describe("a decision is refused the same at both doors", () => {
  test.each(cases)("$kind: $code", async ({ code, given, before, path, kind, body, options }) => {
    const shop = await newShop(given);
    await before?.(shop);
    const { order, client: client_id } = shop;
    const answer = await send("POST", `/api/sales/${path}`, { client_id, order_id: order, reason: "x", ...body(shop) });
    const thrown = await thrownBy(() => commanded(kind, shop, { order, ...options(shop) }));
    expectSame(code, answer, thrown);
    const { rows } = await owner.query("select from audit where entity = $1", [`order:${client_id}:${order}`]);
    expect(rows).toEqual([]);
  });

  test("an order that is unknown, and one that is named with an event of it", async () => {
    const shop = await newShop();
    const about = { client_id: shop.client, partner_id: shop.partner, reason: "x" };
    const options = { partner: String(shop.partner) };
    const unknown = await send("POST", "/api/sales/assign", { ...about, order_id: "none" });
    expectSame("not_found", unknown, await thrownBy(() => commanded("assign", shop, { ...options, order: "none" })));
    for (const named of [{}, { order: "x", event: "y" }]) {
      const ids = "order" in named ? { order_id: named.order, event_id: named.event } : {};
      const answer = await send("POST", "/api/sales/assign", { ...about, ...ids });
      expectSame("one_of", answer, await thrownBy(() => commanded("assign", shop, { ...options, ...named })));
    }
    const both = { event_id: "y", product_id: "z" };
    const answer = await send("POST", "/api/sales/refund", { client_id: shop.client, reason: "x", ...both });
    const thrown = await thrownBy(() => commanded("refund", shop, { event: "y", product: "z" }));
    expectSame("one_of", answer, thrown);
  });

  test("only the command line decides for a sale that is still to come, when that is asked for", async () => {
    const shop = await newShop();
    const options = { partner: String(shop.partner), order: fresh("coming"), waitForSale: true };
    for (const kind of ["assign", "reattribute", "take_back", "release", "reject"] as const)
      await expect(commanded(kind, shop, options), kind).rejects.toThrow("this was let through to the log");
    await expect(commanded("refund", shop, options)).rejects.toThrow("there is nothing of this id");
  });

  test("a refund of a product behind a kept total says what can be given back", async () => {
    const shop = await newShop({ credited: 21, isTotalKept: true });
    const { client: client_id, order: order_id } = shop;
    const asked = { client_id, order_id, product_id: "sku1", reason: "x" };
    const { status, body } = await send("POST", "/api/sales/refund", asked);
    expect([status, body.errors[0].pointer, body.detail]).toEqual([
      ...[400, "/product_id", expect.stringContaining("give back an amount of the order")],
    ]);
  });

  test("a release whose answer was lost is repeated with what it kept", async () => {
    const shop = await newShop({ credited: 21, isHeld: true });
    const decision_id = randomUUID();
    const useCase = useCaseOf(
      "release",
      { client_id: shop.client },
      {
        ...{ client: shop.slug, order: shop.order, reason: "x", keep: "total" },
      },
    );
    const again = () =>
      inWork(pool, operatorAct("ana@cli"), (work) => useCase(work, { clickhouse, decide: async () => undefined }), {
        ...{ idOf: () => decision_id, isSaved: false },
      });
    await expect(again()).rejects.toThrow("leave keep out");
    await pool.query(
      `insert into memory_outcome (stage, event_id, topic, partition, "offset", outcome)
       values ('settle', $1, 'claims', 0, 0, $2)`,
      [decision_id, encodeOutcome({ dropped: null, messages: [] })],
    );
    await expect(again()).resolves.toMatchObject({ outcomes: [{ decision_id }] });
  });
});
// Only the platform API has `client_id_required`, because a command names its client, and
// `required` of a partner, which a command cannot omit.
