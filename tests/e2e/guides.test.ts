// Runs what a reader types: each command and request of "The API in ten minutes", the samples of
// "Send events from your server", and every command that `tributary examples` prints.
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Answer, asker } from "../support/ask.ts";
import { type Product, until } from "../support/e2e-product.ts";
import { type Exchange, exchangesIn, shown } from "../support/exchanges.ts";
import { joinProduct } from "../support/joined-product.ts";
import { runSample, samplesOf } from "../support/page-samples.ts";
import { type SourceServer, startSource } from "../support/source-server.ts";

const PAGE = "docs/api-in-ten-minutes.md";
let product: Product;
let measured: SourceServer;
beforeAll(async () => {
  [product, measured] = await Promise.all([joinProduct(), startSource()]);
}, 180_000);
afterAll(async () => {
  // A paused source is not pulled, so the health report does not complain about it.
  await product?.rows("update sources set state = 'paused' where slug = 'measured'");
  await measured?.close();
  await product?.clear();
});

/** Values of earlier answers, by their names on the page. */
type Kept = Map<string, string>;
const nameIn = (text: string): string | undefined => /^\{(\w+)\}$/.exec(text)?.[1];
const keep = (kept: Kept, expected: unknown, got: any): void => {
  if (typeof expected === "string") {
    const name = nameIn(expected);
    if (name !== undefined && !kept.has(name)) kept.set(name, String(got));
  } else if (typeof expected === "object" && expected !== null)
    for (const [name, part] of Object.entries(expected)) keep(kept, part, got?.[name]);
};
/** Inserts earlier values into a later answer with their types: ids are numbers there. */
const withKept = (kept: Kept, expected: unknown): unknown => {
  if (typeof expected === "string") {
    const value = kept.get(nameIn(expected) ?? "");
    return value === undefined ? expected : /^\d+$/.test(value) ? Number(value) : value;
  }
  if (Array.isArray(expected)) return expected.map((part) => withKept(kept, part));
  if (typeof expected !== "object" || expected === null) return expected;
  return Object.fromEntries(Object.entries(expected).map(([name, part]) => [name, withKept(kept, part)]));
};
const filledFrom =
  (kept: Kept) =>
  (text: string): string =>
    text.replace(/\{(\w+)\}/g, (all, name) => kept.get(name) ?? all);

/** The tokens that the commands of the page print, by the role in the address. */
const tokensOfThePage = async (): Promise<Kept> => {
  const kept: Kept = new Map();
  for (const [, command] of readFileSync(PAGE, "utf8").matchAll(/^```console\nnpx tributary (.+)\n```$/gm)) {
    const { code, stdout, stderr } = await product.tributary(...command!.split(" ")).done;
    expect(code, stderr).toBe(0);
    kept.set(`${/--as (\w+)@/.exec(command!)![1]!}_token`, stdout.trim());
  }
  return kept;
};

/** Reads wait for earlier writes, and an event counts once however often it is sent. */
const mayBeRepeated = ({ method, path }: Exchange): boolean => method === "GET" || path.startsWith("/ingest/");

/** Names and amounts that only sold goods have. */
const SOLD = /1000\.00|"(value|revenue|gross|net|refunded|rate|aov|roas|product_id|quantity)"/;

const send = async (exchange: Exchange, kept: Kept): Promise<void> => {
  const { method, path, headers, body, status, answer } = exchange;
  const filled = filledFrom(kept);
  const isSale = path.startsWith("/ingest/");
  // The page says from when on its changes are in force.
  if (isSale) await sleep(Math.max(0, Date.parse(kept.get("in_force")!) - Date.now()));
  kept.set("now", String(Date.now()));
  const ask = asker(() => (isSale ? product.ingestUrl : product.stack.run.apps.api!.url));
  const { Authorization: bearer = "Bearer {admin_token}", ...more } = headers;
  const token = filled(bearer).split(" ")[1]!;
  const once = async (): Promise<void> => {
    const asked = { method, token, headers: more, ...(body !== undefined && { body: filled(body) }) };
    const got: Answer = await ask(filled(path), asked);
    expect(got.status, `${method} ${filled(path)}: ${got.text}`).toBe(status);
    const expected = JSON.parse(answer);
    const found = new Map(kept);
    keep(found, expected, got.body);
    expect(got.body, `${method} ${path}: ${got.text}`).toEqual(shown(withKept(found, expected)));
    for (const [name, value] of found) kept.set(name, value);
    if (token === kept.get("partner_token") && status === 200) expect(got.text).not.toMatch(SOLD);
  };
  await (mayBeRepeated(exchange) ? until(`${method} ${path} is answered as the page says`, 60_000, once) : once());
};

test("every command and request of the page is answered as it says, from the token to the commission", async () => {
  const exchanges = exchangesIn(PAGE);
  expect(exchanges.length).toBeGreaterThan(15);
  const kept = await tokensOfThePage();
  expect([...kept.keys()]).toEqual(["admin_token", "partner_token"]);
  // Six hours after a month has begun in UTC, it has also begun in Mexico City.
  kept.set("month", new Date(Date.now() - 6 * 3_600_000).toISOString().slice(0, 7));
  for (const exchange of exchanges) await send(exchange, kept);
}, 240_000);

/** The number of stored events of each type, by source and over all clients. */
const storedKinds = async (): Promise<readonly string[]> => {
  const rows = await product.clickhouse<{ kind: string }>("select concat(source, ' ', t) as kind from events final");
  return rows.map(({ kind }) => kind).sort();
};

test("the samples of the page on sending store a purchase each, and once however often they run", async () => {
  const { id, token } = product.client("casa-verde");
  const env = { INGEST_URL: product.ingestUrl, INGEST_TOKEN: token, CLIENT_ID: String(id) };
  const { runnable } = samplesOf("docs/send-events.md");
  for (const sample of [...runnable, ...runnable])
    expect(await runSample(sample, env)).toMatchObject({ code: 0, stdout: expect.stringMatching(/accepted.*1/) });
  await until("the orders are counted", 60_000, async () => {
    const rows = await product.rows<{ order_id: string; copies: number }>(`
      select order_id, count(*)::int as copies from product_sales
      where client_id = ${id} and order_id between '1001' and '1004' group by 1 order by 1`);
    const orders = ["1001", "1002", "1003", "1004"].slice(0, runnable.length);
    expect(rows).toEqual(orders.map((order_id) => ({ order_id, copies: 1 })));
  });
}, 120_000);

/**
 * A pulled source on this machine: the only way of sending that needs more than the demonstration.
 */
const withPulledSource = async (): Promise<void> => {
  measured.has({ event_time: new Date().toISOString(), event: "install", device: "phone-1" });
  const mapping = { event_name: "event", ts: "event_time", did: "device" };
  await product.rows("insert into outbound_networks (network, reason) values ('127.0.0.1/32', 'a test')");
  await product.rows(`insert into sources (source_id, client_id, slug, name, kind, state, vault, mapping, pull)
    values (71, ${product.client("viento-travel").id}, 'measured', 'Measured', 'mmp', 'active', '',
      '${JSON.stringify(mapping)}', '${JSON.stringify({ driver: "mmp", url: measured.url })}')`);
};

test("every command that tributary examples prints works as it is pasted, and what it sends arrives", async () => {
  await withPulledSource();
  const before = await storedKinds();
  const { code, stdout, stderr } = await product.tributary("examples", "--json").done;
  expect(code, stderr).toBe(0);
  const examples = JSON.parse(stdout) as readonly { name: string; command: string }[];
  const answers: Record<string, string> = {};
  for (const { name, command } of examples) answers[name] = (await promisify(execFile)("sh", ["-c", command])).stdout;
  expect(answers).toEqual({
    batch: expect.stringContaining('"accepted":1,"rejected":0'),
    pixel: "204\n",
    link: expect.stringMatching(/^302 https:.*svc_click_id=/),
    stripe: expect.stringContaining('"status":"accepted"'),
    webhook: expect.stringContaining('"status":"accepted"'),
    external: expect.stringContaining('"status":"accepted"'),
    upload: expect.stringContaining('"status":"queued"'),
    pull: expect.stringContaining('"status":"started","note":"1 of 1 sources"'),
    lead: expect.stringContaining('"status":"created"'),
  });
  const sent = [
    ...["batch purchase", "pixel page_view", "link click", "postback:stripe purchase", "lead lead_submit"],
    ...["generic:demo-webhook purchase", "generic:demo-network install", "upload purchase", "pull install"],
  ];
  await until("all of it is stored", 90_000, async () =>
    expect(await storedKinds()).toEqual([...before, ...sent].sort()),
  );
}, 180_000);
