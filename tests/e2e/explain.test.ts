// `tributary explain` on the whole product: a sale, its refund, a sale without a credited partner,
// and an id that was never sent.
import { afterAll, beforeAll, expect, test } from "vitest";
import { clickIdKey, mint } from "../../domain/click-id.ts";
import { forged } from "../support/builders.ts";
import { type Product, until } from "../support/e2e-product.ts";
import { joinProduct } from "../support/joined-product.ts";
import { browser } from "../support/link-host.ts";

let product: Product;
let client: { readonly id: number; readonly slug: string; readonly token: string };
let batch: string;
const at = Date.now() - 3_600_000;

const click = (code: string): string =>
  mint(
    product.link(code).link_id,
    at - 3_600_000,
    new Uint8Array(8),
    clickIdKey(product.stack.env.TRIBUTARY_SECRET!, 1),
  );
const sale = (order: string, more: object) => ({
  t: "purchase",
  ts: at,
  cid: client.id,
  did: `device of ${order}`,
  event_id: order,
  props: { order_id: order, revenue: "1000.00", currency: "MXN", product_id: "lamp", quantity: 1, coupon: "VERDE10" },
  ...more,
});

const send = async (events: readonly object[]): Promise<any> => {
  const answer = await fetch(`${product.ingestUrl}/ingest/batch`, {
    method: "POST",
    headers: { authorization: `Bearer ${client.token}`, "content-type": "application/json" },
    body: JSON.stringify({ events }),
  });
  return answer.json();
};

beforeAll(async () => {
  product = await joinProduct("explain");
  client = product.client("casa-verde");
  const refund = { order_id: "explained", amount: "250.00", currency: "MXN", reason: "item_returned" };
  const events = [
    sale("explained", { svc_click_id: click("verde-jardin") }),
    { ...sale("explained-refund", {}), t: "refund", ts: at + 60_000, did: "device of explained", props: refund },
    sale("nobodys", { svc_click_id: "forged", props: { ...sale("nobodys", {}).props, coupon: "NONE" } }),
  ];
  const said = (await send(events)) as { accepted: number; batch_id: string };
  expect(said).toMatchObject({ accepted: 3 });
  batch = said.batch_id;
  await product.quiet(60_000);
}, 180_000);
afterAll(() => product.clear());

const explain = async (...args: readonly string[]) => product.tributary("explain", ...args).done;
const json = async (...args: readonly string[]): Promise<any> => {
  const { code, stdout, stderr } = await explain(...args, "--json");
  if (code !== 0) throw new Error(stderr);
  return JSON.parse(stdout).events[0];
};

test("a sale: who was considered, by what it was decided, what it earned and what was taken back", async () => {
  const found = await until("the ledger has both entries", 20_000, async () => {
    const shown = await json("explained", "--client", client.slug);
    if (shown.entries.length < 2) throw new Error(`${shown.entries.length} entries`);
    return shown;
  });
  // The second version has the refunded amount.
  expect(found.versions[0]).toMatchObject({
    version: 2,
    credit_method: "click",
    sender_event_id: "explained",
    value_minor: "100000",
  });
  expect(found.versions[0].candidates.map(({ method, outcome }: any) => [method, outcome])).toEqual([
    ["click", "won"],
    ["rule", "lower_precedence"],
  ]);
  expect(found.order).toMatchObject({
    order_key: "o:explained",
    lines: [{ status: "credited", refunded_minor: "25000" }],
  });
  expect(found.conversions).toMatchObject([
    { status: "credited", version: 2, refunded_minor: "25000", reason: "item_returned" },
  ]);
  expect(found.entries.map(({ kind, amount_minor }: any) => [kind, amount_minor])).toEqual([
    ["earned", "12000"],
    ["reversal", "-3000"],
  ]);
  expect(found.contracts).toMatchObject([{ contract_id: found.entries[0].contract_id, type: "percent" }]);
  expect(found.rules).toHaveLength(1);
  expect(await json(found.event_id)).toEqual(found);
});

test("on a terminal it reads as sentences and tables", async () => {
  const { code, stdout } = await explain("explained");
  expect(code).toBe(0);
  for (const part of [
    `purchase explained of ${client.slug}`,
    /credited to {2}partner \d+ .+, campaign \d+ .+, by click on link \d+, 1\.0 h before it, window 30 days/,
    "lower_precedence: one before it",
    "Order as settle remembers it: o:explained",
    "120.00 MXN",
    "-30.00 MXN",
    "item_returned",
  ])
    expect(stdout).toMatch(part);
  expect(stdout.split("\n").every((line) => line === line.trimEnd())).toBe(true);
});

test("a refund shows what it took back, with its ledger lines, also after another refund of the order", async () => {
  const found = await json("explained-refund");
  expect(found).toMatchObject({ type: "refund", conversions: [{ order_id: "explained", status: "credited" }] });
  const own = (shown: any) => shown.entries.filter(({ entry_id }: any) => shown.taken_back.entries.includes(entry_id));
  expect(own(found)).toMatchObject([{ kind: "reversal", amount_minor: "-3000", reason: "item_returned" }]);
  const props = { order_id: "explained", amount: "100.00", currency: "MXN", reason: "other" };
  const second = { ...sale("explained-second", {}), t: "refund", ts: at + 90_000, did: "device of explained", props };
  expect((await send([second])).accepted).toBe(1);
  await until("the second refund is in the ledger", 30_000, async () =>
    expect(own(await json("explained-second"))).toMatchObject([{ kind: "reversal", amount_minor: "-1200" }]),
  );
  expect(own(await json("explained-refund")), "the first one took what it took").toEqual(own(found));
  const { stdout } = await explain("explained-refund");
  expect(stdout).toMatch(/What it took back\n {2}led_\w+ reversal: -30\.00 MXN for partner/);
  expect(stdout).toMatch(
    /What it took back[\s\S]*payable:partner[\s\S]*Ledger of its order, beside that[\s\S]*earned: 120\.00 MXN/,
  );
  const early = { ...props, order_id: "not-sold-yet", amount: "5.00" };
  expect((await send([{ ...second, event_id: "early-refund", did: "device of early", props: early }])).accepted).toBe(
    1,
  );
  await until("it waits", 30_000, async () =>
    expect((await json("early-refund")).taken_back).toEqual({ nothing: "waits_for_sale", entries: [] }),
  );
});

test("a sale that earns no commission says why", async () => {
  const { stdout } = await explain("nobodys", "--client", client.slug);
  expect(stdout).toContain("credited to  no partner: bad_click_id: the click id is not one of ours");
  expect((await json("nobodys")).entries).toEqual([]);
});

test("an order is explained by all of its events, and a batch by what became of them", async () => {
  const { code, stdout } = await explain("explained", "--order", "--json");
  expect([code, JSON.parse(stdout).events.map(({ type }: any) => type)]).toEqual([0, ["purchase", "refund", "refund"]]);
  const shown = await explain(batch);
  expect([shown.code, shown.stdout]).toEqual([0, expect.stringContaining("3 accepted, 0 rejected")]);
  const { events, stored } = JSON.parse((await explain(batch, "--json")).stdout);
  expect([events.length, stored]).toEqual([3, 3]);
  expect((await explain(forged(batch))).code).toBe(2);
});

test("what is said is the same after merges, and after its sink has read the log again", async () => {
  const before = await json("explained");
  expect(before.versions).toHaveLength(1);
  await product.clickhouse("optimize table events final");
  expect(await json("explained")).toEqual(before);
  const { code, stderr } = await product.tributary("rewind", "analytics", "--to", "earliest", "--yes").done;
  expect([code, stderr]).toEqual([0, expect.any(String)]);
  await product.quiet(60_000);
  expect(await json("explained")).toEqual(before);
});

test("a decision stands in the explanation, with who made it and why", async () => {
  const decide = ["decide", "take-back", "--client", client.slug, "--order", "explained", "--reason", "a test order"];
  expect((await product.tributary(...decide, "--yes").done).code).toBe(0);
  const { decisions } = await json("explained");
  expect(decisions).toMatchObject([{ kind: "take_back", reason: "a test order", by: expect.stringContaining("@cli") }]);
  const { stdout } = await explain("explained");
  expect(stdout).toMatch(/take_back.* by .*@cli: a test order/);
  expect(stdout).toMatch(/Version 1, before that: attributed, click\n[\s\S]*lower_precedence: one before it/);
});

test("what was decided first stays, though a person decided since and the store has merged it away", async () => {
  await until("the decision is stored", 30_000, async () =>
    expect((await json("explained")).versions[0].credit_status).toBe("unattributed"),
  );
  await product.clickhouse("optimize table events final");
  const { versions, first_credit } = await json("explained");
  expect([versions.length, versions[0].candidates]).toEqual([1, expect.anything()]);
  expect(first_credit).toMatchObject({ credit: { status: "attributed", method: "click" }, value_minor: "100000" });
  expect(first_credit.credit.candidates.map(({ method, outcome }: any) => [method, outcome])).toEqual([
    ["click", "won"],
    ["rule", "lower_precedence"],
  ]);
});

test("an order that lies in the dead letters is said to, by its event and by its own name", async () => {
  await product.rows("alter table product_sales add constraint lost check (order_id <> 'lost') not valid");
  try {
    expect((await send([{ ...sale("sale-of-lost", {}), props: { ...sale("lost", {}).props } }])).accepted).toBe(1);
    const { letters } = await until("the letter is there", 60_000, async () => {
      const shown = await json("sale-of-lost");
      if (shown.letters.length < 1) throw new Error("no letter");
      return shown;
    });
    expect(letters).toMatchObject([{ state: "waiting", stage: "product-sales", code: "refused_by_store" }]);
    expect((await explain("sale-of-lost")).stdout).toMatch(/^Not all of it has come through[\s\S]*dl_\w+ +waiting/m);
    const order = await explain("lost", "--order", "--client", client.slug);
    expect([order.code, order.stdout]).toEqual([1, expect.stringContaining(letters[0].letter_id)]);
    expect(order.stderr).toContain(`no order lost is stored for ${client.slug}: it lies in the dead letters`);
    expect((await json("explained")).letters).toEqual([]);
  } finally {
    await product.rows("alter table product_sales drop constraint lost");
  }
  expect((await product.tributary("dlq", "retry", "--stage", "product-sales", "--yes").done).code).toBe(0);
  await until("it has come through", 60_000, async () => {
    const shown = await json("lost", "--order");
    if (shown.letters.length > 0) throw new Error(shown.letters[0].state);
  });
});

test("an id that was never sent and an unknown client are refused, with what to do", async () => {
  const unknown = await explain("never-sent");
  expect([unknown.code, unknown.stdout]).toEqual([1, ""]);
  expect(unknown.stderr).toContain("no event and no order never-sent is stored");
  expect((await explain("explained", "--client", "aurora-music")).code).toBe(1);
  expect((await explain("explained", "--client", "no-such-client")).code).toBe(2);
});

test("a visit to a tracking link, and the sale that brings its click id: credited, and paid", async () => {
  const { url } = product.link("verde-hogar");
  const visit = await fetch(url, { redirect: "manual", headers: { "user-agent": browser, cookie: "_svc_did=ana" } });
  expect(visit.status).toBe(302);
  const landed = new URL(visit.headers.get("location")!);
  expect(landed.origin).toBe("https://www.casa-verde.example");
  const svc_click_id = landed.searchParams.get("svc_click_id");
  const bought = {
    ...sale("from-a-link", { svc_click_id }),
    ...{ did: "ana", ts: Date.now(), url: landed.href },
    props: { ...sale("from-a-link", {}).props, coupon: "NONE" },
  };
  expect((await send([bought])).accepted).toBe(1);
  const found = await until("the ledger has the commission", 30_000, async () => {
    const shown = await json("from-a-link", "--client", client.slug);
    if (shown.entries.length < 1) throw new Error("no entry");
    return shown;
  });
  expect(found.versions[0]).toMatchObject({ credit_method: "click", click_id: svc_click_id });
  // 6.5 % of 1,000.00.
  expect(found.entries.map(({ kind, amount_minor }: any) => [kind, amount_minor])).toEqual([["earned", "6500"]]);
  const [click] = await until("the click is stored", 20_000, async () => {
    const rows = await product.clickhouse(
      `select t, source, credit_method, ip from events where client_id = ${client.id} and source = 'link'`,
    );
    if (rows.length === 0) throw new Error("no row");
    return rows;
  });
  expect(click).toEqual({ t: "click", source: "link", credit_method: "click", ip: "127.0.0.1" });
});
