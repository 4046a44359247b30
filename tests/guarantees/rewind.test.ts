// A rewind changes nothing that is stored, restores lost rows, moves no partition forward, and
// survives the death of its command at any step (laws R1, R2, R10, R12, K10).
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { appendedAt } from "../../infra/kafka/kafka.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { randomFrom } from "../../infra/runtime/random.ts";
import { planRewind } from "../../modules/log/rewind/rewind.ts";
import { apps } from "../../modules/running/installation/product.ts";
import { hashableTables, stateHash } from "../../modules/running/state-hash/state-hash.ts";
import { expectLaws } from "../support/e2e-laws.ts";
import { eventsOf, type Journal, type Load, newSeed, openJournal, startLoad } from "../support/e2e-load.ts";
import { type Product, type Ran, startProduct, until } from "../support/e2e-product.ts";

let product: Product;
let load: Load;
let journal: Journal;
const PATIENCE_MS = 60_000;
/** The keeper computes these tables, and it does not run here. */
const tables = hashableTables.filter((table) => table !== "rollups" && table !== "rollup_dimensions");

beforeAll(async () => {
  product = await startProduct(apps.filter(({ name }) => ["ingest", "worker-chain", "worker-money"].includes(name)));
  const random = randomFrom(newSeed("rewind"));
  const { id } = product.client("aurora-music");
  journal = openJournal(join(product.stack.home, "rewind.journal"));
  const tokens = await product.tokens(id, 4);
  load = startLoad({
    url: product.ingestUrl,
    tokens,
    next: eventsOf(random, "rewind", id),
    random,
    journal,
    batch: 20,
    pauseMs: 300,
  });
  await until("the load has reached the ledger", PATIENCE_MS, async () => {
    if (!(await product.admin.watermarks("ledger.entries")).some(({ high }) => high > 0)) throw new Error("not yet");
  });
});
afterAll(() => product?.clear());

const committedOf = async (group: string, topic: string) => product.admin.committed(group, topic);
const said = ({ code, stdout, stderr }: Ran): string => `${code}\n${stdout}\n${stderr}`;
const succeeds = async (...args: readonly string[]): Promise<Ran> => {
  const ran = await product.tributary(...args).done;
  expect(ran.code, said(ran)).toBe(0);
  return ran;
};
const hashNow = async (): Promise<string> => {
  const pool = openPool(product.stack.env.POSTGRES_URL!, { max: 1, timeoutMs: PATIENCE_MS });
  const clickhouse = openClickhouse(product.stack.env.CLICKHOUSE_URL!, { timeoutMs: PATIENCE_MS });
  try {
    const { tables: found } = await stateHash(pool, clickhouse, tables);
    return found.map(({ table, rows, hash }) => `${table} ${rows} ${hash}`).join("\n");
  } finally {
    await clickhouse.close();
    await pool.end();
  }
};
const goingBack = [
  ["enrich", "tributary.enrich", "events.raw"],
  ["settle", "tributary.settle", "claims"],
  ["commission", "tributary.commission", "conversions"],
] as const;

test("the chain, settle and commission go back under load, and every law holds", async () => {
  for (const [stage, group, topic] of goingBack) {
    const before = await committedOf(group, topic);
    const { stdout } = await succeeds("rewind", stage, "--to", "earliest", "--yes", "--json", "--reason", "a test");
    const report = JSON.parse(stdout) as {
      partitions: { partition: number; committed: number; target: number }[];
      events: number;
    };
    expect(report.events).toBeGreaterThan(0);
    for (const { partition, committed, target } of report.partitions) {
      expect(target).toBe(0);
      expect(committed).toBeGreaterThanOrEqual(before.get(partition) ?? 0);
    }
  }
  await load.stop();
  await product.quiet(PATIENCE_MS);
  await expectLaws(product, "rewind", journal, load.sent);
}, 120_000);

test("rows that were lost come back into a store whose writers never stopped, and nothing else changes", async () => {
  const before = await hashNow();
  const clickhouse = openClickhouse(product.stack.env.CLICKHOUSE_URL!);
  await clickhouse.command({
    query: "alter table events delete where cityHash64(event_id) % 3 = 0",
    clickhouse_settings: { mutations_sync: "2" },
  });
  await clickhouse.close();
  await product.rows("delete from product_sales where abs(hashtext(order_id)) % 3 = 0");
  expect(await hashNow()).not.toBe(before);
  const worker = product.stack.pid("worker-money");
  await succeeds("rewind", "analytics", "--to", "earliest", "--yes");
  expect(await hashNow()).toBe(before);
  expect(product.stack.pid("worker-money")).toBe(worker);
}, 120_000);

test("killed at every step and run again, the command ends what it began", async () => {
  const before = await hashNow();
  const [group, topic] = ["tributary.enrich", "events.raw"];
  const committed = await committedOf(group, topic);
  for (const step of ["is held", "the group is empty", "the workers join again"]) {
    const { child, done } = product.tributary("rewind", "enrich", "--to", "earliest", "--yes");
    await new Promise<void>((resolve) => {
      let heard = "";
      child.stderr!.on("data", (text) => {
        heard += text;
        if (!heard.includes(step)) return;
        child.kill("SIGKILL");
        resolve();
      });
      child.once("close", () => resolve());
    });
    // The fault took effect: the command was killed and did not end by itself.
    expect((await done).code, step).toBeNull();
    if (step === "is held") {
      // A worker that starts meanwhile is ready, says why it waits, and does not join.
      await product.replaced("worker-chain", 90_000);
      const { ops_url } = product.stack.run.apps["worker-chain"] as unknown as { ops_url: string };
      expect(await (await fetch(`${ops_url}/readyz`)).text()).toMatch(
        /tributary\.enrich: held by op_[0-9a-f-]+ \(rewind, /,
      );
      await until("its killed predecessor is forgotten and no member has joined", PATIENCE_MS, async () => {
        const [state] = await product.admin.describeGroups([group]);
        if (state?.members.length !== 0) throw new Error(`it is ${state?.state}`);
      });
    }
    for (const [partition, offset] of await committedOf(group, topic))
      expect(offset, step).toBeLessThanOrEqual(committed.get(partition)!);
    await succeeds("rewind", "enrich", "--to", "earliest", "--yes");
    expect(await committedOf(group, topic)).toEqual(committed);
    expect(await product.rows("select * from group_holds")).toEqual([]);
  }
  await product.quiet(PATIENCE_MS);
  expect(await hashNow()).toBe(before);
}, 180_000);

test(
  "a group that lags is not taken forward by the broker's answer to a time at which nothing had " + "come yet",
  async () => {
    const marks = await product.admin.watermarks("claims");
    const half = new Map(marks.map(({ partition, high }) => [partition, Math.floor(high / 2)]));
    await product.admin.setOffsets("lagging", "claims", half);
    const soon = Date.now();
    expect([...(await product.admin.offsetsAt("claims", soon)).values()].some((offset) => offset > 0)).toBe(true);
    const ports = {
      admin: product.admin,
      appendedAt: (topic: string, offsets: ReadonlyMap<number, number>) => appendedAt(product.kafka, topic, offsets),
    };
    const { plan } = await planRewind(ports, {
      group: "lagging",
      topic: "claims",
      to: { kind: "time", at: soon },
      text: "now",
    });
    expect(new Map(plan.partitions.map(({ partition, target }) => [partition, target]))).toEqual(half);
  },
);

test("offsets are only set while the group has no members", async () => {
  const before = await committedOf("tributary.settle", "claims");
  await expect(product.admin.setOffsets("tributary.settle", "claims", new Map([[0, 0]]))).rejects.toThrow();
  expect(await committedOf("tributary.settle", "claims")).toEqual(before);
});

test("going back over another revision is refused and names what is for that", async () => {
  const known = await product.rows<{ stage: string }>("select distinct stage from stage_revisions order by stage");
  expect(known.map(({ stage }) => stage)).toEqual(["attribute", "commission", "enrich", "score", "settle"]);
  await product.rows(
    "insert into stage_revisions (stage, topic, partition, revision, began, instance) values " +
      "('score', 'events.raw', 0, 2, 2, 'test')",
  );
  const refused = await product.tributary("rewind", "enrich", "--to", "earliest", "--yes").done;
  expect(refused.code, said(refused)).toBe(3);
  expect(refused.stderr).toMatch(
    /score decides events\.raw\/0 with revision 2 from offset 2 on.*tributary reprocess --stage score/,
  );
  const fused = await product.tributary("rewind", "product-sales", "--to", "-1h").done;
  expect([fused.code, fused.stderr.includes("tributary rewind analytics")], said(fused)).toEqual([3, true]);
});

test("a stage learns again what Redis forgot, and writes nothing", async () => {
  const [before, length] = [await hashNow(), (await product.read("events.attributed")).length];
  const { stdout } = await succeeds("relearn", "attribute", "--yes", "--json");
  expect(JSON.parse(stdout).events).toBeGreaterThan(0);
  await product.quiet(PATIENCE_MS);
  // One event of each partition is read again, so that the stage reads its memory; its output is
  // the same.
  expect((await product.read("events.attributed")).length - length).toBeLessThanOrEqual(12);
  expect(await hashNow()).toBe(before);
  const durable = await product.tributary("relearn", "settle", "--yes").done;
  expect([durable.code, durable.stderr.includes("tributary reprocess")]).toEqual([3, true]);
}, 120_000);
