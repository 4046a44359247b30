// The guide "The API in ten minutes": each of its commands is run and each of its requests is sent
// to the product, as the page says.
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Answer, asker } from "../support/ask.ts";
import { type Product, startProduct, until } from "../support/e2e-product.ts";
import { type Exchange, exchangesIn, shown } from "../support/exchanges.ts";

const PAGE = "docs/api-in-ten-minutes.md";
let product: Product;
beforeAll(async () => {
  product = await startProduct(undefined, ["identity"]);
}, 180_000);
afterAll(() => product?.clear());

/** Values of the answers so far, by the names that the page gives them. */
type Kept = Map<string, string>;
const nameIn = (text: string): string | undefined => /^\{(\w+)\}$/.exec(text)?.[1];
const keep = (kept: Kept, expected: unknown, got: any): void => {
  if (typeof expected === "string") {
    const name = nameIn(expected);
    if (name !== undefined && !kept.has(name)) kept.set(name, String(got));
  } else if (typeof expected === "object" && expected !== null)
    for (const [name, part] of Object.entries(expected)) keep(kept, part, got?.[name]);
};
/** What was kept stands in a later answer as it came: ids are numbers there. */
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

/** What is read follows what was sent, and an event counts once however often it is sent. */
const mayBeRepeated = ({ method, path }: Exchange): boolean => method === "GET" || path.startsWith("/ingest/");

/** No name and no amount of what was sold. */
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
  // Every month has begun in Mexico City when it has in UTC six hours later.
  kept.set("month", new Date(Date.now() - 6 * 3_600_000).toISOString().slice(0, 7));
  for (const exchange of exchanges) await send(exchange, kept);
}, 240_000);
