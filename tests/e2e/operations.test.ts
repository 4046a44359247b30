// A rewind over the platform API of a whole installation with workers, from plan to verdict: the
// API is killed right after its answer and the keeper in the middle, and nothing ends twice.
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { randomFrom } from "../../infra/runtime/random.ts";
import type { Operation } from "../../schemas/generated.ts";
import { asker } from "../support/ask.ts";
import { eventsOf, type Load, newSeed, openJournal, startLoad } from "../support/e2e-load.ts";
import { until } from "../support/e2e-product.ts";
import { type JoinedProduct, joinProduct } from "../support/joined-product.ts";

const PATIENCE_MS = 90_000;
let product: JoinedProduct;
let load: Load;
let token: string;
const ask = asker(() => product.stack.run.apps.api!.url!);

beforeAll(async () => {
  product = await joinProduct("operations");
  token = await product.token("admin@demo.tributary.test");
  const random = randomFrom(newSeed("operations"));
  const { id } = product.client("aurora-music");
  load = startLoad({
    url: product.ingestUrl,
    tokens: await product.tokens(id, 4),
    next: eventsOf(random, "operations", id),
    random,
    journal: openJournal(join(product.stack.home, "operations.journal")),
    batch: 20,
    pauseMs: 300,
  });
  await until("events are stored", PATIENCE_MS, async () => {
    const [found] = await product.clickhouse<{ n: string }>(`select count() as n from events where client_id = ${id}`);
    if (Number(found?.n) < 500) throw new Error(`${found?.n} are`);
  });
});
afterAll(() => product?.clear());

const post = (path: string, body: object) => ask(path, { method: "POST", token, body });
const idsStored = async (): Promise<ReadonlySet<string>> =>
  new Set(
    (await product.clickhouse<{ id: string }>("select distinct toString(event_id) as id from events")).map(
      ({ id }) => id,
    ),
  );
const reading = { move: "rewind", target: "analytics", from: "earliest", reason: "rows were lost" };

test("rows that were lost are back, although the API and the keeper are killed on the way", async () => {
  const before = await idsStored();
  const clickhouse = openClickhouse(product.stack.env.CLICKHOUSE_URL!, { timeoutMs: 60_000 });
  const { id: client } = product.client("aurora-music");
  await clickhouse.command({
    query: `alter table events delete where client_id = ${client} and cityHash64(event_id) % 3 = 0`,
    clickhouse_settings: { mutations_sync: "2" },
  });
  await clickhouse.close();
  const left = await idsStored();
  expect([...before].some((id) => !left.has(id))).toBe(true);

  const planned = await post("/api/operations/plan", reading);
  expect(planned.body.problem, planned.text).toBeNull();
  expect(planned.body.records).toBeGreaterThan(0);
  const asked = await post("/api/operations", { plan_token: planned.body.plan_token });
  expect(asked.status, asked.text).toBe(202);
  const killed = await product.replaced("api", PATIENCE_MS);
  expect(killed.is).not.toBe(killed.was);
  const { id } = asked.body;
  await until("the group is held for it", PATIENCE_MS, async () => {
    const [row] = await product.rows(`select is_held from moves where operation_id = '${id}'`);
    if (row?.is_held !== true) throw new Error(JSON.stringify(row));
  });
  // The keeper may be in any step.
  const keeper = await product.replaced("keeper", PATIENCE_MS);
  expect(keeper.is).not.toBe(keeper.was);

  const ended = await until("the move is over", PATIENCE_MS, async () => {
    const { body } = await ask(`/api/operations/${id}`, { token });
    if (body?.status !== "completed") throw new Error(JSON.stringify(body));
    return body;
  });
  expect(ended.partitions.every(({ at, to }: { at: number; to: number }) => at === to)).toBe(true);
  await load.stop();
  await product.quiet(PATIENCE_MS);
  const after = await idsStored();
  expect([...before].filter((one) => !after.has(one))).toEqual([]);
  const said = (await product.read<Operation>("operations")).map(({ event }) => event().data);
  const own = said.filter(({ operation_id }) => operation_id === id);
  // A keeper that is killed between the record of the move's end and its row leaves both to the
  // next one: the log has the record at least once, and always the same one.
  const ends = own.filter(({ phase }) => phase !== "started");
  expect(ends.length).toBeGreaterThan(0);
  expect(new Set(ends.map(({ phase, target }) => `${phase} ${target}`))).toEqual(
    new Set([`succeeded ${ends[0]!.target}`]),
  );
  expect(new Set(own.map(({ actor }) => actor))).toEqual(new Set(["admin@demo.tributary.test"]));
  await until("no group is held any more", PATIENCE_MS, async () => {
    const held = await product.rows("select * from group_holds");
    if (held.length > 0) throw new Error(JSON.stringify(held));
  });
}, 240_000);

test("a stage learns again, and a window is replayed, each with its verdict", async () => {
  for (const body of [
    { move: "relearn", target: "attribute", reason: "redis was emptied" },
    { move: "replay", target: "analytics", from: new Date(Date.now() - 3_600_000).toISOString(), reason: "to be sure" },
  ]) {
    const planned = await post("/api/operations/plan", body);
    expect(planned.body.problem, planned.text).toBeNull();
    const asked = await post("/api/operations", { plan_token: planned.body.plan_token });
    expect(asked.status, asked.text).toBe(202);
    const ended = await until(`${body.move} is over`, PATIENCE_MS, async () => {
      const { body: found } = await ask(`/api/operations/${asked.body.id}`, { token });
      if (found?.finished_at == null) throw new Error(JSON.stringify(found));
      return found;
    });
    expect(ended.status, JSON.stringify(ended)).toBe("completed");
    expect(ended.progress.done, JSON.stringify(ended)).toBeGreaterThan(0);
    expect(ended.verdict).toBeTruthy();
  }
}, 240_000);
