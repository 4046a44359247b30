// A backfill is applied once, whatever happens to its keeper, its rule and the jobs beside it; the
// same holds for the undo of an import.
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { asker } from "../support/ask.ts";
import { crediting } from "../support/builders.ts";
import { environmentOf, root, spawned, until } from "../support/e2e-product.ts";
import { freePort } from "../support/ingest.ts";
import { type JoinedProduct, joinProduct } from "../support/joined-product.ts";
import { startUpload } from "../support/upload-process.ts";

let product: JoinedProduct;
let admin: string;
let shop: { readonly id: number; readonly token: string };
let partners: readonly number[];
const ask = asker(() => product.stack.run.apps.api!.url);
const send = async (method: string, path: string, body?: object) => {
  const answer = await ask(path, { method, token: admin, body });
  expect(answer.status, answer.text).toBeLessThan(300);
  return answer.body;
};
const keepers: ChildProcess[] = [];

beforeAll(async () => {
  product = await joinProduct("backfills");
  await product.without("keeper");
  admin = await product.token("admin@demo.tributary.test");
  shop = product.client("casa-verde");
  const { links } = product.stack.run.demo as {
    links: readonly { readonly client_id: number; readonly partner_id: number }[];
  };
  partners = [...new Set(links.filter(({ client_id }) => client_id === shop.id).map(({ partner_id }) => partner_id))];
});
afterAll(async () => {
  for (const child of keepers) child.kill("SIGKILL");
  await product?.clear();
});

/** Starts a keeper outside of the supervisor, which would restart it with the same failpoint. */
const keeper = async (failpoints = "") => {
  const name = `keeper-${keepers.length}`;
  const log = join(product.stack.home, `${name}.hits`);
  const output = openSync(join(product.stack.home, "logs", `${name}.log`), "a");
  const own = { OPS_PORT: String(await freePort()), INSTANCE_NAME: name, POSTGRES_ADMIN_URL: undefined };
  const env = { ...environmentOf(product.stack.home), ...product.stack.env, ...own };
  const child = spawn(process.execPath, ["--conditions=faults", "dist/apps/keeper/main.js"], {
    cwd: root,
    env: { ...env, FAILPOINTS: failpoints, FAILPOINT_LOG: log },
    stdio: ["ignore", output, output],
  });
  closeSync(output);
  keepers.push(child);
  return {
    hits: () => readFileSync(log, "utf8"),
    died: new Promise((resolve) => child.once("exit", (_code, signal) => resolve(signal))),
  };
};

const ingest = async (events: readonly object[]): Promise<void> => {
  const answer = await fetch(`${product.ingestUrl}/ingest/batch`, {
    method: "POST",
    headers: { authorization: `Bearer ${shop.token}`, "content-type": "application/json" },
    body: JSON.stringify({ events }),
  });
  expect([answer.status, await answer.json()]).toMatchObject([200, { accepted: events.length }]);
};
const event = (t: string, name: string, coupon: string) => ({
  ...{ event_id: name, t, ts: Date.now(), cid: shop.id, did: `device-${name}` },
  ...(t === "page_view" && { url: "https://www.casa-verde.example/" }),
  props: {
    coupon,
    ...(t === "purchase" && {
      ...{ order_id: name, product_id: "maceta", quantity: 1, revenue: "1000.00", currency: "MXN" },
    }),
  },
});
const ruleFor = (partner: number, coupon: string) => ({
  ...{ name: coupon, status: "inactive", when: { field: "coupon", op: "eq", value: coupon } },
  ...crediting(partner),
});
const saved = async (partner: number, coupon: string): Promise<number> =>
  (await send("POST", "/api/rules", { client_id: shop.id, ...ruleFor(partner, coupon) })).id;
const ended = (job: string) =>
  until(`${job} has ended`, 90_000, async () => {
    const { body } = await ask(`/api/jobs/${job}`, { token: admin });
    expect(body.status).toBe("completed");
    return body;
  });
const held = (coupon: string) =>
  product.clickhouse<{ partner_id: number | null; version: number; n: number }>(
    `select partner_id, version, toInt32(count()) as n from events_current
      where client_id = ${shop.id} and JSONExtractString(props, 'coupon') = '${coupon}' group by 1, 2`,
  );
const earned = () =>
  product.rows<{ partner_id: number; entries: number; amount: number }>(`
    select partner_id, count(*)::int as entries, sum(amount_minor)::int as amount from ledger_entries
    where client_id = ${shop.id} group by 1`);

/**
 * The failpoints of a keeper in the order of its effects; at the last one only the end of the job
 * is not recorded.
 */
const deaths = ["job-taken=1", "decisions-produced=2", "backfill-answered=1", "job-worked=1"];

test("killed at every step, with its rule edited and archived meanwhile, it is applied once", async () => {
  await ingest(Array.from({ length: 700 }, (_, n) => event("purchase", `sale-${n}`, "ABRIL")));
  await ingest(Array.from({ length: 600 }, (_, n) => event("page_view", `visit-${n}`, "ABRIL")));
  await product.quiet(60_000);
  const rule = await saved(partners[0]!, "ABRIL");
  const { job_id } = await send("POST", `/api/rules/${rule}/backfill`, { dry_run: false, trigger_recalc: true });
  for (const [n, death] of deaths.entries()) {
    const { hits, died } = await keeper(death);
    expect(await died, death).toBe("SIGKILL");
    expect(hits()).toContain(`${death.replace("=", " ")} killed`);
    if (n === 0) await send("PUT", `/api/rules/${rule}`, ruleFor(partners[1]!, "ABRIL"));
    if (n === 1) await send("DELETE", `/api/rules/${rule}`);
    // Ends the lease, as if a minute had passed.
    await product.rows(`update jobs set lease_until = now() - interval '1 second' where job_id = '${job_id}'`);
  }
  await keeper();
  // The work of five processes, counted once.
  expect(await ended(job_id)).toMatchObject({
    result: {
      ...{ rule_version: 1, evaluated: 1_300, matched: 1_300, decisions: 1_300, applied: 1_300, overtaken: 0 },
      ...{ waiting: 0, by_event_type: { page_view: 600, purchase: 700 }, commission_delta: "84000.00" },
      by_partner: [{ partner_id: null, matched: 1_300 }],
    },
  });
  const mails = await product.rows<{ facts: object }>(`select facts from mails where happening = 'backfill:${job_id}'`);
  expect(mails).toMatchObject([{ facts: { evaluated: 1_300, matched: 1_300, applied: 1_300, money: "84000.00 MXN" } }]);
  await product.quiet(60_000);
  expect(await held("ABRIL")).toEqual([{ partner_id: partners[0], version: 2, n: 1_300 }]);
  expect(await earned()).toEqual([{ partner_id: partners[0], entries: 700, amount: 700 * 12_000 }]);
}, 240_000);

test("two at once over the same events are one after the other, and the later one has the last word", async () => {
  await ingest(Array.from({ length: 300 }, (_, n) => event("page_view", `may-${n}`, "MAYO")));
  await ingest(Array.from({ length: 100 }, (_, n) => event("purchase", `may-sale-${n}`, "MAYO")));
  await product.quiet(60_000);
  const rules = [await saved(partners[0]!, "MAYO"), await saved(partners[1]!, "MAYO")];
  const asked = { dry_run: false, trigger_recalc: true };
  const jobs = await Promise.all(rules.map((rule) => send("POST", `/api/rules/${rule}/backfill`, asked)));
  const results = await Promise.all(jobs.map(async ({ job_id }) => (await ended(job_id)).result));
  await product.quiet(60_000);
  for (const result of results) expect(result).toMatchObject({ matched: 400, applied: 400, overtaken: 0 });
  const [last] = await product.rows<{ input: { rule: { then: { partner_id: number } } } }>(
    `select input from jobs where job_id in ('${jobs.map(({ job_id }) => job_id).join("', '")}')
      order by created_at desc limit 1`,
  );
  const winner = last!.input.rule.then.partner_id;
  expect(await held("MAYO")).toEqual([{ partner_id: winner, version: 3, n: 400 }]);
  const loser = partners.find((id) => id !== winner && rules.length === 2 && partners.slice(0, 2).includes(id))!;
  const sums = await earned();
  const of = (partner: number): number => sums.find(({ partner_id }) => partner_id === partner)?.amount ?? 0;
  expect(of(loser) - (loser === partners[0] ? 700 * 12_000 : 0)).toBe(0);
  expect(of(winner)).toBeGreaterThan(0);
}, 180_000);

test("an import is undone once, wherever its keeper dies, and its counts and sums say so", async () => {
  for (const child of keepers) child.kill("SIGKILL");
  const [first, second] = partners as [number, number];
  const host = await startUpload({ env: product.stack.env } as never, "upload-undo");
  const row = (name: string, more: object = {}) => ({
    ...{ order_id: name, revenue: "1000.00", product_id: "maceta", quantity: 1, currency: "MXN" },
    ...{ ts: new Date().toISOString().slice(0, 10), ...more },
  });
  const rows = [
    ...Array.from({ length: 700 }, (_, n) => row(`undo-${n}`)),
    // A copy of a known sale without credit, which takes its credit.
    row("undo-known"),
    { t: "newsletter", ts: row("x").ts, did: "undo-reader" },
  ];
  await ingest([event("purchase", "undo-known", "JUNIO")]);
  await product.quiet(60_000);
  const before = await earned();
  const asked = { client_id: shop.id, partner_id: first, rows };
  const { import_id } = await send("POST", "/api/import/fast", asked);
  await until("its rows are in the log", 60_000, async () => {
    const { body } = await ask(`/api/imports/${import_id}`, { token: admin });
    expect(body).toMatchObject({ status: "completed", accepted: 702 });
  });
  await product.quiet(60_000);
  const moved = { client_id: shop.id, order_id: "undo-7", partner_id: second, reason: "it was theirs" };
  await send("POST", "/api/sales/reattribute", moved);
  await product.quiet(60_000);
  const withImport = await earned();
  expect(withImport).not.toEqual(before);

  const undo = () => send("POST", `/api/imports/${import_id}/undo`, { reason: "sent by mistake" });
  const { job_id } = await undo();
  expect(await undo()).toEqual({ job_id });
  for (const death of ["undo-decided=1", "undo-freed=1", "undo-answered=2", "job-worked=1"]) {
    const { hits, died } = await keeper(death);
    expect(await died, death).toBe("SIGKILL");
    expect(hits()).toContain(`${death.replace("=", " ")} killed`);
    await product.rows(`update jobs set lease_until = now() - interval '1 second' where job_id = '${job_id}'`);
  }
  await keeper();
  const counts = { taken_back: 700, uncredited: 0, copies: 0, decided: 1, no_sale: 1, not_stored: 0 };
  expect(await ended(job_id)).toMatchObject({
    result: { ...counts, sums: [{ currency: "MXN", amount: "700000.00" }] },
  });
  const shown = (await ask(`/api/imports/${import_id}`, { token: admin })).body;
  expect(shown).toMatchObject({
    undone_at: expect.any(String),
    undone: { ...counts, reason: "sent by mistake", sums: [{ currency: "MXN", amount: "700000.00" }] },
  });
  const again = await ask(`/api/imports/${import_id}/undo`, {
    method: "POST",
    token: admin,
    body: { reason: "again" },
  });
  expect(again).toMatchObject({ status: 409, body: { code: "already_undone", job_id } });
  await product.quiet(60_000);
  // The commission of the sale that a person moved stays.
  const amount = (sums: Awaited<ReturnType<typeof earned>>, partner: number): number =>
    sums.find(({ partner_id }) => partner_id === partner)?.amount ?? 0;
  const after = await earned();
  expect(amount(after, first)).toBe(amount(before, first));
  expect(amount(after, second)).toBe(amount(withImport, second));

  // The corrected file: the same rows are new, and earn once. The real sale of one counts, too.
  const correct = () => send("POST", "/api/import/fast", { ...asked, rows: rows.slice(0, 3) });
  expect(await correct()).toMatchObject({ accepted: 3, duplicate: 0 });
  expect(await correct()).toMatchObject({ accepted: 0, duplicate: 3 });
  await ingest([event("purchase", "undo-5", "JUNIO")]);
  await product.quiet(60_000);
  const corrected = await earned();
  expect(amount(corrected, first) - amount(after, first)).toBe(3 * 12_000);
  const sold = await product.rows<{ n: number }>(`
    select count(*)::int as n from product_sales where client_id = ${shop.id} and merged_into is null
      and order_id in ('undo-0', 'undo-1', 'undo-2', 'undo-3', 'undo-5')`);
  expect(sold).toEqual([{ n: 4 }]);

  const given = ["--client", String(shop.id), "--import", import_id, "--reason", "again", "--yes"];
  const env = { ...environmentOf(product.stack.home), ...product.stack.env };
  const { stdout } = await spawned([`${root}/dist/apps/cli/main.js`, "decide", "undo-import", ...given], env).done;
  expect(stdout).toContain("it is undone\n700 sales taken back\nMXN: 700000.00\n");
  expect(stdout).toContain("1 rows were credited by a person since, and stay so\n1 rows are no sales\n");
  await host.end();
}, 240_000);
