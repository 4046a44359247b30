// A sender asks for the result of a batch, on the whole product: stored events, earlier ones, and
// those still under way. No other sender sees it.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { clickIdKey, mint } from "../../domain/click-id.ts";
import { forged } from "../support/builders.ts";
import { type Product, until } from "../support/e2e-product.ts";
import { joinProduct } from "../support/joined-product.ts";

let product: Product;
let client: { readonly id: number; readonly slug: string; readonly token: string };
beforeAll(async () => {
  product = await joinProduct("receipts");
  client = product.client("casa-verde");
}, 180_000);
afterAll(() => product.clear());

let last = 0;
const event = (t: string, props: object, more: object = {}) => {
  last += 1;
  return {
    t,
    ts: Date.now() - 60_000,
    cid: client.id,
    did: `device-${last}`,
    event_id: `receipt-${last}`,
    props,
    ...more,
  };
};
const view = (more: object = {}) => event("page_view", { url: "https://www.casa-verde.example/" }, more);
const purchase = (order: string, more: object = {}) =>
  event("purchase", { order_id: order, revenue: "100.00", currency: "MXN", product_id: "lamp", quantity: 1 }, more);

const send = async (events: readonly object[], token = client.token): Promise<string> => {
  const answer = await fetch(`${product.ingestUrl}/ingest/batch`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify({ events }),
  });
  expect(answer.status).toBe(200);
  return ((await answer.json()) as { batch_id: string }).batch_id;
};
const ask = (path: string, { token = client.token, method = "GET" }: { token?: string | null; method?: string } = {}) =>
  fetch(`${product.ingestUrl}/ingest/receipts/${path}`, {
    method,
    headers: token === null ? {} : { authorization: `Bearer ${token}` },
  });
const receipt = async (path: string): Promise<any> => (await ask(path)).json();
const settled = (batch: string): Promise<any> =>
  until("nothing of the batch is in flight", 30_000, async () => {
    const found = await receipt(batch);
    if (found.events?.in_flight !== 0) throw new Error(JSON.stringify(found));
    return found;
  });
const counts = {
  stored: 0,
  duplicate: 0,
  attributed: 0,
  unattributed: 0,
  rejected_by_fraud: 0,
  in_flight: 0,
  withheld: 0,
};

test(
  "a batch sent again shows duplicates, whatever kind of events, and its first receipt stays as it " + "was",
  async () => {
    const clicked = mint(
      product.link("verde-jardin").link_id,
      Date.now() - 3_600_000,
      new Uint8Array(8),
      clickIdKey(product.stack.env.TRIBUTARY_SECRET!, 1),
    );
    const events = [
      view(),
      view(),
      purchase("r-1"),
      purchase("r-2", { svc_click_id: clicked }),
      view({ consent: 0 }),
      event("purchase", { order_id: "r-3" }),
    ];
    const first = await send([...events, events[0]!]);
    const expected = {
      batch_id: first,
      received_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      accepted: 6,
      rejected: 1,
      events: { ...counts, stored: 4, attributed: 1, unattributed: 3, duplicate: 1, withheld: 1 },
    };
    expect(await settled(first)).toEqual(expected);
    const second = await send(events);
    expect(await settled(second)).toMatchObject({
      accepted: 5,
      rejected: 1,
      events: { ...counts, duplicate: 4, withheld: 1 },
    });
    expect(await receipt(first)).toEqual(expected);

    expect((await receipt(`${first}?event_id=receipt-4`)).event).toMatchObject({
      event_id: "receipt-4",
      fate: "attributed",
      version: 1,
    });
    expect((await receipt(`${first}?event_id=receipt-3`)).event).toMatchObject({
      fate: "unattributed",
      reason: "no_click",
    });
    expect((await receipt(`${second}?event_id=receipt-1`)).event).toMatchObject({ fate: "duplicate" });
    expect((await receipt(`${second}?event_id=receipt-4`)).event).toMatchObject({ fate: "duplicate" });
    expect((await ask(`${first}?event_id=never-sent`)).status).toBe(404);
  },
);

test("a second copy of a sale is a duplicate that names the first", async () => {
  const sale = purchase("copied");
  const batch = await send([sale, purchase("copied")]);
  expect((await settled(batch)).events).toEqual({ ...counts, stored: 1, unattributed: 1, duplicate: 1 });
  // Two devices are two partitions, so either event may have come first.
  const both = await Promise.all(
    [last - 1, last].map(async (n) => (await receipt(`${batch}?event_id=receipt-${n}`)).event),
  );
  expect(both.toSorted((a, b) => (a.fate < b.fate ? -1 : 1))).toMatchObject([
    { fate: "duplicate", merged_into: expect.stringMatching(/^[0-9a-f-]{36}$/) },
    { fate: "unattributed", merged_into: null },
  ]);
});

test("what is accepted and not yet through is in flight", async () => {
  product.stack.kill("worker-chain", "SIGSTOP");
  let batch: string;
  try {
    batch = await send([view(), purchase("waiting")]);
    expect((await receipt(batch)).events).toEqual({ ...counts, in_flight: 2 });
    expect((await receipt(`${batch}?event_id=receipt-${last}`)).event).toEqual({
      event_id: `receipt-${last}`,
      fate: "in_flight",
    });
  } finally {
    product.stack.kill("worker-chain", "SIGCONT");
  }
  expect((await settled(batch)).events).toEqual({ ...counts, stored: 2, unattributed: 2 });
});

test("an event of a page is found in its own batch, also under the id of a server's", async () => {
  const made = await product.tributary("tokens", "create", "--client", client.slug, "--client-side", "--json").done;
  const { token } = JSON.parse(made.stdout);
  const [sale, seen] = [purchase("of-a-server"), view()];
  const ofServer = await send([sale]);
  await settled(ofServer);
  const ofPage = await send([{ ...sale, props: { ...sale.props, order_id: "of-a-page" } }, seen], token);
  expect((await settled(ofPage)).events).toEqual({ ...counts, stored: 2, unattributed: 2 });
  const event = { event_id: sale.event_id, fate: "unattributed", merged_into: null };
  expect((await receipt(`${ofPage}?event_id=${sale.event_id}`)).event).toMatchObject(event);
  expect((await receipt(`${ofServer}?event_id=${sale.event_id}`)).event).toMatchObject(event);
  expect((await receipt(`${ofPage}?event_id=${seen.event_id}`)).event).toMatchObject({ fate: "unattributed" });
  const again = await send([{ ...sale, props: { ...sale.props, order_id: "of-a-page" } }], token);
  expect((await settled(again)).events).toEqual({ ...counts, duplicate: 1 });
  expect((await receipt(`${again}?event_id=${sale.event_id}`)).event).toMatchObject({ fate: "duplicate" });
});

describe("who asks for something else", () => {
  test("gets the same answer for a forged, a foreign and a malformed id", async () => {
    const batch = await send([view()]);
    expect((await ask(forged(batch))).status).toBe(404);
    expect((await ask("bat_x")).status).toBe(404);
    expect((await ask(batch, { token: product.client("aurora-music").token })).status).toBe(404);
    expect((await ask(batch)).status).toBe(200);
  });
  test("without a token, with a wrong method or question, is refused in this order", async () => {
    const unknown = await ask("bat_x", { token: null });
    expect([unknown.status, unknown.headers.get("content-type")]).toEqual([
      401,
      expect.stringContaining("application/problem+json"),
    ]);
    const posted = await ask("bat_x", { token: null, method: "POST" });
    expect([posted.status, posted.headers.get("allow")]).toEqual([405, "GET, HEAD, OPTIONS"]);
    expect((await ask("bat_x", { method: "OPTIONS" })).status).toBe(204);
    expect((await ask("bat_x?event_id=a%20b")).status).toBe(400);
    expect((await ask("bat_x?event_id=a&event_id=b")).status).toBe(400);
    expect((await fetch(`${product.ingestUrl}/ingest/receipts/`)).status).toBe(404);
  });
});
