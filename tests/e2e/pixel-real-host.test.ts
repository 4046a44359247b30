// The browser's script against the real pixel host: privacy signals, a strict policy and a lost
// network, down to the record in the log.
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { maskInForce } from "../../domain/personal/consent.ts";
import { signalsIn } from "../../domain/personal/visitor.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { launchChromium, USER_AGENT } from "../support/chromium.ts";
import { openPixelHost, type PixelHost } from "../support/pixel-host.ts";
import { openVisit, pageErrors, snippet, type Visit } from "../support/pixel-visit.ts";

const PURCHASE = { order_id: "T-1", revenue: 120.5, product_id: "sku-1", quantity: 1 };
let browser: Browser;
let visit: Visit;
let host: PixelHost;
let context: BrowserContext;
let page: Page;
let errors: readonly string[];

beforeAll(async () => {
  visit = await openVisit();
  [host, browser] = await Promise.all([openPixelHost({ isBuilt: true }), launchChromium()]);
}, 600_000);
afterAll(async () => {
  await browser?.close();
  await host?.close();
  await visit?.close();
});
beforeEach(() => visit.reset());
afterEach(async () => {
  await context?.close();
  expect(errors).toEqual([]);
});

const pixelUrl = () => `http://px.${visit.domain}:${host.port}`;
const go = async (
  site: { readonly nonce?: string; readonly policy?: string } = {},
  browserSays: { readonly init?: string; readonly headers?: Record<string, string> } = {},
): Promise<void> => {
  const html = `<title>x</title>${snippet(pixelUrl(), "", site.nonce)}</head><body></body>`;
  visit.pages.set("/", { html, ...(site.policy && { headers: { "Content-Security-Policy": site.policy } }) });
  context = await browser.newContext({ userAgent: USER_AGENT, extraHTTPHeaders: browserSays.headers ?? {} });
  if (browserSays.init) await context.addInitScript(browserSays.init);
  page = await context.newPage();
  errors = pageErrors(page);
  await page.goto(visit.site);
  await page.waitForFunction("window.svc && svc.v === 1");
};
const svc = (...call: readonly unknown[]): Promise<void> => page.evaluate(`svc(...${JSON.stringify(call)})`);
/** Only events of this test's site, because an earlier page may still send. */
const mine = (t: string) => host.events.filter((event) => event.t === t && event.url?.includes(visit.domain));
const arrived = (t: string, count = 1) =>
  until(`${count} of ${t} arrived`, 30_000, () => expect(mine(t).length).toBeGreaterThanOrEqual(count));

test("under Do Not Track, which page and header say, the record says so too", async () => {
  const init = "Object.defineProperty(navigator, 'doNotTrack', { value: '1' })";
  await go({}, { init, headers: { DNT: "1" } });
  await arrived("page_view");
  expect(mine("page_view")[0]).toMatchObject({ warnings: expect.arrayContaining(["dnt"]) });
  expect(JSON.parse(mine("page_view")[0]!.props)).toMatchObject({ dnt: true });
});

test("under Global Privacy Control, which page and header say, no analytics and no export are in force", async () => {
  const init = "Object.defineProperty(navigator, 'globalPrivacyControl', { value: true })";
  await go({}, { init, headers: { "Sec-GPC": "1" } });
  await svc("event", "purchase", PURCHASE);
  await arrived("purchase");
  const purchase = mine("purchase")[0]!;
  expect(purchase).toMatchObject({ warnings: expect.arrayContaining(["gpc"]) });
  expect(JSON.parse(purchase.props)).toMatchObject({ gpc: true });
  expect(maskInForce(purchase.consent, signalsIn(purchase)) & 0x05).toBe(0);
});

test("a page that lets pictures through alone still brings its purchase", async () => {
  await go({ nonce: "n0", policy: `default-src 'none'; script-src 'nonce-n0'; img-src ${pixelUrl()}` });
  await svc("event", "purchase", PURCHASE);
  await arrived("purchase");
  expect(mine("purchase")[0]).toMatchObject({ order_id: "T-1", value_minor: 12_050n, source: "pixel" });
});

test("what happened offline arrives once the network is back, once, with the time at which it happened", async () => {
  await go();
  await arrived("page_view");
  await context.setOffline(true);
  const before = Date.now();
  await svc("event", "purchase", PURCHASE);
  await page.waitForTimeout(1_500);
  expect(mine("purchase")).toEqual([]);
  const after = Date.now();
  await context.setOffline(false);
  await arrived("purchase");
  expect(new Set(mine("purchase").map(({ event_id }) => event_id)).size).toBe(1);
  const { ts } = mine("purchase")[0]!;
  expect([ts >= before, ts < after]).toEqual([true, true]);
});
