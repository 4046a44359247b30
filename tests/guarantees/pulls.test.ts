// Pulls of external sources, laws I1, C1 and C9: the keeper dies between publishing and counting, a
// source has pages, fails, is slow and repeats rows, and a window is pulled again. Each row is
// still one event. The order: (1) fetch; (2) the log; (3) identities, counts and place in one
// commit.
import { afterAll, beforeAll, expect, test } from "vitest";
import { keyringOf } from "../../infra/runtime/keyring.ts";
import { sealOfSource } from "../../modules/access/secrets/source-secrets.ts";
import { apps } from "../../modules/running/installation/product.ts";
import { type ArmedApp, armedApp } from "../support/armed-app.ts";
import { until } from "../support/e2e-product.ts";
import { type JoinedProduct, joinProduct } from "../support/joined-product.ts";
import { type SourceRow, type SourceServer, startSource } from "../support/source-server.ts";

const SOURCE = 72;
const HOUR_MS = 3_600_000;
let product: JoinedProduct;
let source: SourceServer;
let clientId: number;
const started: ArmedApp[] = [];

const began = Date.now();
const hoursAgo = (hours: number): string => new Date(began - hours * HOUR_MS).toISOString();
const row = (n: number, over: object = {}): SourceRow => ({
  ...{ event_time: hoursAgo(2), event: "af_purchase", order: `app-${n}`, device: `device-${n}`, item: "plan" },
  ...{ revenue: "10.50", currency: "USD" },
  ...over,
});
const bad = row(9, { revenue: "ten" });
/** Seven rows: one is repeated, one cannot be read. */
const install = row(3, { event: "install", order: undefined, revenue: undefined });
const rows = [row(1), row(2), install, row(4), bad, row(1), row(5)];
const mapping = {
  ...{ event_name: "event", value: "revenue", currency: "currency", ts: "event_time" },
  ...{ order_id: "order", did: "device", product_id: "item" },
};

beforeAll(async () => {
  product = await joinProduct("pulls");
  await product.without("keeper");
  clientId = product.client("aurora-music").id;
  source = await startSource();
  source.has(...rows);
  const keyring = keyringOf(product.stack.env.TRIBUTARY_SECRET!);
  const secret = sealOfSource("the credential", { sourceId: SOURCE, column: "pull_secret" }, keyring);
  const settings = JSON.stringify({ driver: "mmp", url: source.url });
  await product.rows("insert into outbound_networks (network, reason) values ('127.0.0.0/8', 'a source of the test')");
  await product.rows(`insert into sources (source_id, client_id, slug, name, kind, state, mapping, event_names, vault,
    pull, pull_secret) values (${SOURCE}, ${clientId}, 'measured', 'Measured', 'mmp', 'active',
    '${JSON.stringify(mapping)}', '{"af_purchase": "ext_purchase"}', 'unused', '${settings}', '${secret}')`);
}, 180_000);
afterAll(async () => {
  await Promise.all(started.map(({ kill }) => kill()));
  await source?.close();
  await product?.clear();
});

const keeper = async (failpoints = ""): Promise<ArmedApp> => {
  const one = await armedApp(product, "keeper", failpoints);
  started.push(one);
  return one;
};
const killedAt = async (failpoint: string): Promise<void> => {
  const one = await keeper(`${failpoint}=1`);
  expect([await one.died, one.hits()]).toEqual(["SIGKILL", expect.stringContaining("killed")]);
};
const trigger = (body: unknown, token?: string): Promise<Response> => {
  const known = (product.stack.run.demo as { admin_token: string }).admin_token;
  const headers = { authorization: `Bearer ${token ?? known}`, "content-type": "application/json" };
  return fetch(`${product.ingestUrl}/pull/trigger`, { method: "POST", headers, body: JSON.stringify(body) });
};
const started200 = async (body: unknown): Promise<string> => {
  const answer = await trigger(body);
  const said = (await answer.json()) as { note: string };
  expect([answer.status, said]).toEqual([200, { ok: true, status: "started", note: expect.any(String) }]);
  return said.note;
};
const windows = () =>
  product.rows(`select actor, state, rows::int, new::int, duplicate::int, errors::int, cursor, faults, failures
    from pulls where source_id = ${SOURCE} order by created_at desc`);
const newest = async () => (await windows())[0];
const count = async (statement: string): Promise<number> => (await product.rows(statement))[0].count;
/** How often the log has each pulled event, by order, and an install by device. */
const inLog = async (): Promise<readonly number[]> => {
  const events = (await product.events("events.raw")).map(({ data }) => data);
  const isPulled = ({ source, client_id }: any) => source === "pull" && client_id === clientId;
  const pulled = events.filter(isPulled).map((event) => event.event_id as string);
  return [...new Set(pulled)].map((id) => pulled.filter((one) => one === id).length).sort();
};
const stored = async () => ({
  app_events: await count(
    `select count(*)::int as count from app_events where client_id = ${clientId} and source = 'pull'`,
  ),
  sales: await count(`select count(*)::int as count from product_sales where client_id = ${clientId}`),
  events: Number(
    (
      await product.clickhouse(
        `select count() as count from events final where client_id = ${clientId} and source = 'pull'`,
      )
    )[0].count,
  ),
});
const health = async () => (await (await fetch(`${product.ingestUrl}/health`)).json()) as Record<string, any>;

test("a keeper that dies before or after it has counted a page pulls on, and each row is one event", async () => {
  expect(await health()).toMatchObject({ last_pull_at: null, last_pull_stats: { rows: 0, errors: 0, window: null } });

  await killedAt("pull-published");
  expect([await inLog(), await newest()]).toEqual([
    [1, 1],
    expect.objectContaining({ actor: "schedule", state: "running", rows: 0, new: 0, cursor: null }),
  ]);

  await killedAt("pull-counted");
  // The page was published twice and counted once.
  expect([await inLog(), await newest()]).toEqual([
    [2, 2],
    expect.objectContaining({ state: "running", rows: 2, new: 2, duplicate: 0, cursor: "2" }),
  ]);

  source.troubles({ status: 500 }, "hangs up", { slowMs: 300 }, { status: 429 });
  const asked = source.asked.length;
  await keeper();
  await until("the window is pulled", 60_000, async () => expect(await newest()).toMatchObject({ state: "done" }));
  expect(source.asked.slice(asked).map(({ cursor }) => cursor)).toEqual(["2", "2", "2", "4", "4", "6"]);
  expect(source.asked.at(-1)).toMatchObject({ authorization: "Bearer the credential" });
  expect(await newest()).toMatchObject({ rows: 7, new: 5, duplicate: 1, errors: 1, failures: 0 });
  expect((await newest()).faults).toEqual([expect.objectContaining({ code: "bad_amount", field: "props.revenue" })]);
  expect(await inLog()).toEqual([1, 1, 1, 2, 2]);
  const expected = { app_events: 5, sales: 4, events: 5 };
  await until("every row is stored once", 60_000, async () => expect(await stored()).toEqual(expected));
}, 240_000);

test("health reports the last pull, and a window that is pulled again changes no count", async () => {
  await until("health knows the pull", 20_000, async () =>
    expect(await health()).toMatchObject({
      status: "degraded",
      last_pull_stats: { rows: 7, new: 5, duplicate: 1, errors: 1, window: { look_back_days: 1 } },
    }),
  );
  const first = Date.parse((await health()).last_pull_at);
  const [log, before] = [await inLog(), await stored()];
  expect(await started200({ from: hoursAgo(24 * 8), to: hoursAgo(1) })).toBe(
    "1 of 1 sources; longer than 3 days: pulled in steps of 3 days",
  );
  const asked = source.asked.length;
  await until("it is pulled again", 60_000, async () =>
    expect(await newest()).toMatchObject({ state: "done", rows: 7, new: 0, duplicate: 6, errors: 1 }),
  );
  const steps = source.asked.slice(asked).filter(({ cursor }) => cursor === null);
  expect(steps.map(({ from }) => from)).toEqual([hoursAgo(24 * 8), hoursAgo(24 * 5), hoursAgo(24 * 2)]);
  expect([await inLog(), await stored()]).toEqual([log, before]);
  await until("health has the newer one", 20_000, async () =>
    expect(Date.parse((await health()).last_pull_at)).toBeGreaterThan(first),
  );

  // An old window without a row is reported as one.
  await started200({ from: hoursAgo(24 * 60), to: hoursAgo(24 * 59) });
  const window = { from: expect.stringContaining(hoursAgo(24 * 60).slice(0, 16)), look_back_days: 0 };
  await until("health has the empty window", 60_000, async () =>
    expect(await health()).toMatchObject({ last_pull_stats: { rows: 0, new: 0, duplicate: 0, errors: 0 } }),
  );
  expect((await health()).last_pull_stats.window).toMatchObject({ ...window, to: expect.any(String) });
}, 180_000);

test("what a trigger may not ask for is refused by its field", async () => {
  const [from, to] = [hoursAgo(2), hoursAgo(1)];
  for (const [body, status] of [
    [{ from: to, to: from }, 400],
    [{ from, to: from }, 400],
    [{ from: "yesterday", to }, 400],
    [{ from: 7, to }, 400],
    [{ from: "2026-11-01T00:00:00", to }, 400],
    [{ from: "6;drop table pulls", to }, 400],
    [{ from }, 400],
    [{}, 400],
    [[], 400],
    [{ from, to, more: 1 }, 400],
  ] as const) {
    const answer = await trigger(body);
    expect([JSON.stringify(body), answer.status]).toEqual([JSON.stringify(body), status]);
    expect((await answer.json()) as object).toMatchObject({ errors: expect.arrayContaining([expect.anything()]) });
  }
  expect((await trigger({ from, to }, product.client("aurora-music").token)).status).toBe(401);
  expect((await trigger({ from, to }, "wrong")).status).toBe(401);
});

test("while the pipeline is behind no source is asked, and an overlapping request is already running", async () => {
  await product.stack.stop("worker-chain");
  const views = Array.from({ length: 6_000 }, (_, n) => ({
    ...{ t: "page_view", ts: Date.now() - 60_000, cid: clientId, did: `late-${n}`, event_id: `late-${n}` },
    props: { url: "https://shop.example/" },
  }));
  const headers = {
    authorization: `Bearer ${product.client("aurora-music").token}`,
    "content-type": "application/json",
  };
  const sent = await fetch(`${product.ingestUrl}/ingest/batch`, {
    ...{ method: "POST", headers, body: JSON.stringify({ events: views }) },
  });
  expect((await sent.json()) as object).toMatchObject({ accepted: 6_000 });
  await until("the pipeline is behind", 60_000, async () =>
    expect((await health()).buffer_events).toBeGreaterThan(5_000),
  );
  const asked = source.asked.length;
  const window = { from: hoursAgo(12), to: hoursAgo(1) };
  expect(await started200(window)).toBe("1 of 1 sources");
  expect(await started200(window)).toBe("already running");
  expect(await started200({ from: hoursAgo(6), to: hoursAgo(5) })).toBe("already running");
  expect(await started200({ from: hoursAgo(6), to: hoursAgo(0.5) })).toMatch(/1 pull a window that overlaps first$/);
  // It was tried and left twice.
  const moved = async (): Promise<number> =>
    Number(
      (
        await product.rows(
          `select extract(epoch from max(moved_at)) as at from pulls where source_id = ${SOURCE} and state <> 'done'`,
        )
      )[0].at,
    );
  await until("it has been looked at", 30_000, async () => expect(await moved()).toBeGreaterThan(0));
  const once = await moved();
  await until("and again", 30_000, async () => expect(await moved()).toBeGreaterThan(once));
  expect(source.asked.length).toBe(asked);

  await product.stack.start(apps.find(({ name }) => name === "worker-chain")!);
  await until("it is pulled once the pipeline has caught up", 90_000, async () =>
    expect(await windows()).toSatisfy((all: any[]) => all.every(({ state }) => state === "done")),
  );
  expect(source.asked.length).toBeGreaterThan(asked);
}, 240_000);

test("a private address is refused unless an operator allows it, and health says that a pull failed", async () => {
  await product.rows("delete from outbound_networks");
  const asked = source.asked.length;
  await started200({ from: hoursAgo(3), to: hoursAgo(1) });
  await until("it is refused", 60_000, async () => expect((await newest()).failures).toBeGreaterThan(0));
  expect((await newest()).faults).toContainEqual(
    expect.objectContaining({ code: "source_failed", message: expect.stringContaining("is no public address") }),
  );
  expect(source.asked.length).toBe(asked);
  await until("health says so", 20_000, async () => {
    const { status, last_pull_stats: stats } = await health();
    expect([status, stats.errors > 0]).toEqual(["degraded", true]);
  });
  await product.rows("insert into outbound_networks (network, reason) values ('127.0.0.0/8', 'a source of the test')");
  // Each failure makes the wait longer.
  await product.rows(`update pulls set next_try_at = now() where source_id = ${SOURCE}`);
  await until("it is pulled once it is allowed", 60_000, async () =>
    expect(await newest()).toMatchObject({ state: "done", rows: 7, new: 0, errors: 1 }),
  );
}, 180_000);

test("a source that was not pulled for an hour is late, and a paused one is none", async () => {
  await product.rows(`update sources set last_pull_at = now() - interval '61 minutes',
    last_pull_stats = last_pull_stats || '{"errors": 0}' where source_id = ${SOURCE}`);
  await until("health is degraded by it", 20_000, async () => {
    const { status, last_pull_at: at } = await health();
    expect([status, Date.now() - Date.parse(at) > HOUR_MS]).toEqual(["degraded", true]);
  });
  await product.rows(`update sources set state = 'paused' where source_id = ${SOURCE}`);
  await until("it counts no more", 20_000, async () => expect(await health()).toMatchObject({ last_pull_at: null }));
  expect(await started200({ from: hoursAgo(3), to: hoursAgo(1) })).toBe("no source is active that could be pulled");
});
