// The drill of docs/runbooks/rotate-secrets.md on the whole product: under a new secret every
// device keeps its identity and signatures of the old secret stay valid, until the old secret is
// removed.
import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { clickIdKey, mint } from "../../domain/click-id.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { keyringOf } from "../../infra/runtime/keyring.ts";
import { clientSecretOf } from "../../modules/access/secrets/client-secrets.ts";
import { apps } from "../../modules/running/installation/product.ts";
import type { Operation } from "../../schemas/generated.ts";
import { environmentOf, type Product, root, spawned, startProduct, until } from "../support/e2e-product.ts";
import { freePort } from "../support/ingest.ts";

const NEW = randomBytes(32).toString("base64");
const WORKERS_FIRST = ["worker-chain", "worker-money", "keeper", "ingest"];
const running = apps
  .filter(({ name }) => WORKERS_FIRST.includes(name))
  .map((app) => ({ ...app, env: { LOG_LEVEL: "debug" } }));

let product: Product;
let old: string;
let client: { readonly id: number; readonly token: string };
beforeAll(async () => {
  product = await startProduct(running);
  old = product.stack.env.TRIBUTARY_SECRET!;
  client = product.client("casa-verde");
}, 180_000);
afterAll(() => product?.clear());

const clickOf = (secret: string): string => {
  const { links } = product.stack.run.demo as { links: { client_id: number; code: string; link_id: number }[] };
  const link = links.find((one) => one.client_id === client.id && one.code === "verde-jardin")!;
  return mint(link.link_id, Date.now() - 3_600_000, randomBytes(8), clickIdKey(secret, 1));
};
const headers = () => ({ authorization: `Bearer ${client.token}`, "content-type": "application/json" });
/** Returns the id of its batch. */
const sell = async (order: string, did: string, click: string): Promise<string> => {
  const props = { order_id: order, revenue: "100.00", currency: "MXN", product_id: "lamp", quantity: 1 };
  const event = {
    t: "purchase",
    ts: Date.now() - 60_000,
    cid: client.id,
    did,
    event_id: order,
    svc_click_id: click,
    props,
  };
  const answer = await fetch(`${product.stack.run.apps.ingest!.url}/ingest/batch`, {
    method: "POST",
    headers: headers(),
    body: JSON.stringify({ events: [event] }),
  });
  const said = (await answer.json()) as { accepted: number; batch_id: string };
  expect(said).toMatchObject({ accepted: 1 });
  await product.quiet(60_000);
  return said.batch_id;
};
const receipt = async (batchId: string): Promise<number> =>
  (await fetch(`${product.stack.run.apps.ingest!.url}/ingest/receipts/${batchId}`, { headers: headers() })).status;
const stored = async (order: string) => {
  const [row] = await product.clickhouse<{ did: string; credit_method: string | null; credit_reason: string | null }>(
    `select did, credit_method, credit_reason from events_current where order_id = '${order}'`,
  );
  return row!;
};
const secrets = async (list: string, ...args: readonly string[]): Promise<any> => {
  const env = { ...environmentOf(product.stack.home), TRIBUTARY_SECRET: list };
  const { code, stdout, stderr } = await spawned(["dist/apps/cli/main.js", "secrets", ...args, "--json"], env).done;
  expect({ code, stderr: code === 0 ? "" : stderr }).toEqual({ code: 0, stderr: "" });
  for (const value of [old, NEW]) expect(stdout + stderr).not.toContain(value);
  return JSON.parse(stdout);
};
const restarted = async (list: string): Promise<void> => {
  for (const name of WORKERS_FIRST) {
    await product.stack.stop(name);
    await product.stack.start({
      ...running.find((app) => app.name === name)!,
      env: { LOG_LEVEL: "debug", TRIBUTARY_SECRET: list },
    });
  }
};
const hmacSecret = async (list: string): Promise<string | undefined> => {
  const pool = openPool(product.stack.env.POSTGRES_URL!, { max: 1 });
  try {
    return await clientSecretOf(pool, client.id, keyringOf(list));
  } finally {
    await pool.end();
  }
};

test("a secret takes the place of another: no device is lost, and what the old one signed ends with it", async () => {
  const { hmac_secret: pushes } = (
    product.stack.run.demo as { clients: { id: number; hmac_secret: string }[] }
  ).clients.find(({ id }) => id === client.id)!;
  // Under the old secret: one sale, and one that a store refuses and that waits as a dead letter.
  await product.rows("alter table product_sales add constraint drill check (order_id <> 'drill-letter')");
  const oldClick = clickOf(old);
  const oldBatch = await sell("drill-before", "device-1", oldClick);
  await sell("drill-letter", "device-2", clickOf(old));
  const before = await stored("drill-before");
  expect(before).toMatchObject({ credit_method: "click" });
  expect(await receipt(oldBatch)).toBe(200);
  await until("the letter is indexed", 60_000, async () =>
    expect(await product.rows("select state from dead_letters where stage = 'product-sales'")).toHaveLength(1),
  );
  await product.rows("update dead_letters set next_attempt_at = now() + interval '1 hour'");
  expect(await secrets(old, "show")).toMatchObject({ step: "begin" });

  // Both secrets are valid, and the new one signs.
  const both = `${NEW},${old}`;
  expect((await secrets(both, "rotate")).next).toContain(
    "still without it: ingest, keeper, worker-chain, worker-money",
  );
  await restarted(both);
  const due = await secrets(both, "rotate");
  expect(due).toMatchObject({ step: "reseal", secrets: [{ sealed: 0 }, { sealed: expect.any(Number) }] });
  const { sealed } = due.secrets[1];
  expect(sealed).toBeGreaterThan(0);
  expect(await secrets(both, "rotate", "--yes")).toMatchObject({ step: "wait", resealed: sealed });
  expect(await secrets(both, "rotate", "--yes")).toMatchObject({ step: "wait", resealed: 0 });
  const said = (await product.read<Operation>("operations")).map(({ event }) => event().data);
  const resealed = said.filter(({ kind, phase }) => kind === "secrets_reseal" && phase === "succeeded");
  expect(resealed.map(({ detail }) => JSON.parse(detail))).toEqual([{ resealed: sealed }, { resealed: 0 }]);
  const newBatch = await sell("drill-during", "device-1", oldClick);
  await sell("drill-new-click", "device-1", clickOf(NEW));
  for (const order of ["drill-during", "drill-new-click"])
    expect(await stored(order)).toMatchObject({ did: before.did, credit_method: "click" });
  expect([await receipt(oldBatch), await receipt(newBatch)]).toEqual([200, 200]);
  expect(await hmacSecret(both)).toBe(pushes);
  await product.rows("alter table product_sales drop constraint drill");
  const env = { ...environmentOf(product.stack.home), TRIBUTARY_SECRET: both };
  const retried = await spawned(["dist/apps/cli/main.js", "dlq", "retry", "--code", "refused_by_store", "--yes"], env)
    .done;
  expect(retried.code, retried.stderr).toBe(0);
  await until("the letter came through", 60_000, async () =>
    expect(await product.rows("select state from dead_letters where stage = 'product-sales'")).toEqual([
      { state: "reprocessed" },
    ]),
  );
  expect(
    await product.rows("select partner_id is not null as credited from product_sales where order_id = 'drill-letter'"),
  ).toEqual([{ credited: true }]);

  // The old secret no longer verifies: its click ids and receipts are invalid, while devices and
  // sealed secrets stay.
  const retired = `${NEW},pepper:${old}`;
  await restarted(retired);
  const clickOfOld = clickOf(old);
  await sell("drill-after", "device-1", clickOfOld);
  await sell("drill-after-new", "device-1", clickOf(NEW));
  expect(await stored("drill-after")).toMatchObject({ did: before.did, credit_reason: "bad_click_id" });
  expect(await stored("drill-after-new")).toMatchObject({ did: before.did, credit_method: "click" });
  expect([await receipt(oldBatch), await receipt(newBatch)]).toEqual([404, 200]);
  expect(await hmacSecret(retired)).toBe(pushes);
  expect(await stored("drill-before"), "what was decided stays").toEqual(before);

  // Without the pepper no process starts, because it would make a new identity of each device.
  const [port, opsPort] = [await freePort(), await freePort()];
  const alone = spawned([`${root}/dist/apps/ingest/main.js`], {
    ...environmentOf(product.stack.home),
    ...product.stack.env,
    POSTGRES_ADMIN_URL: undefined,
    PORT: String(port),
    OPS_PORT: String(opsPort),
    INSTANCE_NAME: "without-pepper",
    TRIBUTARY_SECRET: NEW,
  });
  const ended = await alone.done;
  expect([ended.code, ended.stdout.includes("identifiers of this installation are hashed under")]).toEqual([1, true]);
  expect(await product.rows("select 1 from secret_holders where instance = 'without-pepper'")).toEqual([]);
}, 280_000);

const valuesIn = (file: string): readonly string[] =>
  Object.values(JSON.parse(readFileSync(join(product.stack.home, file), "utf8")) as Record<string, string | object>)
    // The passwords of logins are one level deeper.
    .flatMap((value) => (typeof value === "string" ? value : Object.values(value as Record<string, string>)));

test("no secret of the stack is in a log of it, nor in what status and doctor print", async () => {
  const { home, run } = product.stack;
  const hidden = [...valuesIn("secrets.json"), NEW, run.control.token];
  const leaks = (text: string, values: readonly string[]) => values.filter((value) => text.includes(value)).length;
  const commands = ["status", "status --json", "doctor"];
  const printed = await Promise.all(commands.map((line) => product.tributary(...line.split(" ")).done));
  for (const [n, { stdout, stderr }] of printed.entries()) expect(leaks(stdout + stderr, hidden), commands[n]).toBe(0);
  expect(printed[1]!.stdout, "it was there to be printed").toContain(":[redacted]@127.0.0.1:");
  const logs = readdirSync(join(home, "logs"));
  expect(logs).toEqual(expect.arrayContaining(["ingest.log", "worker-chain.log", "keeper.log", "postgres.log"]));
  for (const log of logs) {
    const text = readFileSync(join(home, "logs", log), "utf8");
    expect(leaks(text, [...hidden, ...valuesIn("demo-secrets.json")]), log).toBe(0);
  }
  expect(readFileSync(join(home, "logs", "ingest.log"), "utf8")).toContain('"level":"debug"');
});
