// From a partner's link to the partner's commission, in a real browser on real servers: the demo
// shop of `npm start`, the link host, the pixel host, the pipeline and the ledger.
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { type DemoShop, openShop } from "../../tools/stack/shop/shop.ts";
import { launchChromium, USER_AGENT } from "../support/chromium.ts";
import { type Product, until } from "../support/e2e-product.ts";
import { joinProduct } from "../support/joined-product.ts";
import { pageErrors } from "../support/pixel-visit.ts";

const PATIENCE_MS = 60_000;

let product: Product;
let browser: Browser;
let shop: DemoShop;
let clientId: number;
let partnerId: number;
let code: string;
let context: BrowserContext;
let page: Page;
let errors: readonly string[];

beforeAll(async () => {
  [product, browser] = await Promise.all([joinProduct("visits"), launchChromium()]);
  ({ client_id: clientId, partner_id: partnerId, code } = product.link("verde-jardin"));
  const options = {
    clientId,
    pixelUrl: product.stack.run.apps.pixel!.url,
    clickhouseUrl: product.stack.env.CLICKHOUSE_URL!,
    postgresUrl: product.stack.env.POSTGRES_URL!,
  };
  // Each start of the demonstration does this; the later one has another port.
  const former = await openShop(options);
  await linkLeadsTo(former.url);
  await former.close();
  shop = await openShop(options);
  await linkLeadsTo(shop.url);
}, 600_000);
afterAll(async () => {
  await browser?.close();
  await shop?.close();
  await product?.clear();
}, 120_000);
afterEach(async () => {
  await context?.close();
  expect(errors).toEqual([]);
});

const open = async (init = ""): Promise<void> => {
  context = await browser.newContext({ userAgent: USER_AGENT });
  if (init !== "") await context.addInitScript(init);
  page = await context.newPage();
  errors = pageErrors(page);
};
const linkLeadsTo = (url: string) =>
  until(`the link leads to ${url}`, 20_000, async () => {
    const linkUrl = `${product.stack.run.apps.links!.url}/c/${code}`;
    const { headers } = await fetch(linkUrl, { redirect: "manual", headers: { "user-agent": USER_AGENT } });
    if (!headers.get("location")?.startsWith(url)) throw new Error(`it leads to ${headers.get("location")}`);
  });
const linkUrl = (): string => `${product.stack.run.apps.links!.url}/c/${code}?sub=newsletter`;
/** Browses from any page to a purchase of the lamp; resolves with its order id. */
const buyLamp = async (): Promise<string> => {
  await page.click("text=Garden lamp");
  await page.click("#add");
  await page.click("nav >> text=Cart");
  await page.click("#buy");
  const thanks = await page.textContent("#thanks");
  return /shop-\w+/.exec(thanks ?? "")![0];
};
const earned = (orderId: string) =>
  until(`a commission for ${orderId}`, PATIENCE_MS, async () => {
    const rows = await product.rows(`select entry.partner_id, entry.kind, entry.amount_minor::text as amount
      from ledger_entries entry join conversions using (client_id, conversion_id)
      where order_id = '${orderId}' and entry.partner_id is not null`);
    if (rows.length === 0) throw new Error("the ledger has none");
    return rows;
  });
const storedOf = (orderId: string) =>
  until(`the sale ${orderId}`, PATIENCE_MS, async () => {
    const rows = await product.clickhouse<Record<string, unknown>>(
      `select credit_status, credit_method, consent, did from events final where order_id = '${orderId}'`,
    );
    if (rows.length === 0) throw new Error("it is not stored");
    return rows;
  });

test("a visitor of a link browses, buys, and the partner's commission is in the ledger", async () => {
  await open();
  await page.goto(linkUrl());
  expect(page.url()).toMatch(/sub=newsletter.*svc_click_id=[\w-]{44}/);
  const orderId = await buyLamp();
  // 12 % of 499.00
  expect(await earned(orderId)).toEqual([{ partner_id: partnerId, kind: "earned", amount: "5988" }]);
  // Ledger and events are stored independently.
  await until("the shop shows it", PATIENCE_MS, async () => {
    expect(await page.textContent("#commissions")).toContain(orderId);
    expect(await page.textContent("#events")).toMatch(/purchase.*attributed: click/);
  });
}, 180_000);

test("Global Privacy Control takes analytics away, and not the partner's commission", async () => {
  await open("Object.defineProperty(navigator, 'globalPrivacyControl', { value: true })");
  await page.goto(linkUrl());
  const orderId = await buyLamp();
  expect(await earned(orderId)).toHaveLength(1);
  const [sale] = await storedOf(orderId);
  expect(Number(sale!.consent) & 0x05).toBe(0);
}, 180_000);

test("without cookies and storage a purchase on the landing page is credited", async () => {
  const refuse = "() => { throw new DOMException('denied', 'SecurityError') }";
  await open(`
    Object.defineProperty(document, 'cookie', { get: ${refuse}, set: ${refuse} });
    Object.defineProperty(window, 'localStorage', { get: ${refuse} });`);
  await page.goto(linkUrl());
  const orderId = `shop-nostore-${Date.now()}`;
  const props = { order_id: orderId, revenue: 100, currency: "MXN", product_id: "pot", quantity: 1 };
  await page.evaluate(`svc("event", "purchase", ${JSON.stringify(props)})`);
  expect(await earned(orderId)).toEqual([{ partner_id: partnerId, kind: "earned", amount: "1200" }]);
}, 180_000);

test("a visitor who comes without a link buys for no partner", async () => {
  await open();
  await page.goto(shop.url);
  const orderId = await buyLamp();
  expect((await storedOf(orderId)).map(({ credit_status: status }) => status)).toEqual(["unattributed"]);
}, 180_000);
