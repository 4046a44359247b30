// Law C7 and R1 for rollups: they equal a fresh count of the stored events, whatever is written
// again, lost, restored or moved by a decision.

import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import { type Clickhouse, openClickhouse } from "../../infra/clickhouse/client.ts";
import { bind, type Condition, cond, count, minor, readRows, scopeOf, text } from "../../infra/clickhouse/query.ts";
import { openKafka, sinkReading } from "../../infra/kafka/kafka.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { classify } from "../../infra/runtime/errors.ts";
import { earnedByDay } from "../../modules/figures/reports/earned-by-day.ts";
import { computeWaiting } from "../../modules/figures/rollups/compute-waiting.ts";
import { takeMarks, waitingMarks } from "../../modules/figures/rollups/rollup-marks.ts";
import { figures, figuresByDay, type Grain, within } from "../../modules/figures/rollups/rollup-reads.ts";
import { computeRollups } from "../../modules/figures/rollups/rollups.ts";
import type { EventAttributed } from "../../schemas/generated.ts";
import { ledgerRows } from "../../sinks/ledger/rows.ts";
import { ledger } from "../../sinks/ledger/table.ts";
import { minutesOf, rollupMarks } from "../../sinks/rollup-marks/table.ts";
import { clickhouseStore } from "../../sinks/stores/clickhouse.ts";
import { postgresStore } from "../../sinks/stores/postgres.ts";
import { deadLetterOf } from "../../stream/dead-letters.ts";
import type { AnySink } from "../../stream/flow.ts";
import { sinkRunner } from "../../stream/sink/sink-runner.ts";
import { topics } from "../../topics.ts";
import { pipeline } from "../../topology.ts";
import { attributed, clickCredit, dayMs, hourMs, noon, recorded } from "../support/builders.ts";
import { entry as ledgerEntry } from "../support/money-builders.ts";
import { sharedStack } from "../support/shared-stack.ts";

const { env } = sharedStack();
const started = Date.now();
const kafka = openKafka({ brokers: env.KAFKA_BROKERS!, clientId: "rollups-test", topicPrefix: `rollups${started}.` });
const wire = inMemoryWire([topics.eventsAttributed]);
const analytics = pipeline.nodes.find((node) => node.name === "analytics") as AnySink;
const pool = openPool(env.POSTGRES_URL!, { max: 4 });
let clickhouse: Clickhouse;
const producer = kafka.producer();
beforeAll(async () => {
  clickhouse = openClickhouse(env.CLICKHOUSE_URL!);
  const admin = await kafka.admin();
  await admin.apply([{ name: "events.attributed", partitions: 2, retentionMs: -1 }]);
  await admin.close();
});
afterAll(async () => {
  await producer.close();
  await Promise.all([clickhouse.close(), pool.end()]);
});

let tenants = 500_000_000 + (started % 1_000_000) * 100;
const nextTenant = (): number => ++tenants;
const uuid = (n: number): string => `00000000-0000-8000-8000-${n.toString(16).padStart(12, "0")}`;
const span = { from: noon - 90 * dayMs, to: noon + 90 * dayMs };

const publish = async (...events: readonly EventAttributed[]): Promise<void> => {
  const topic = topics.eventsAttributed;
  await producer.send(
    events.map((data) => ({
      topic: topic.name,
      key: topic.keyOf(data),
      value: wire.encode(topic, recorded(topic, data, { at: data.event.ts }), null),
    })),
  );
};

/** This sink and its marks need no Redis. */
const nowhere = {
  within: async () => {
    throw new Error("analytics wrote to Redis");
  },
};
let groups = 0;
/**
 * Runs the analytics sink until nothing waits for its group; a new group begins at the start of the
 * log, as a replay does.
 */
const read = async (group = `replay${++groups}`): Promise<void> => {
  const admin = await kafka.admin();
  const process = sinkRunner([analytics], {
    wire,
    stores: { clickhouse: clickhouseStore(clickhouse), postgres: postgresStore(pool), redis: nowhere },
    produce: async (letters) => expect(letters).toEqual([]),
    deadLetters: pipeline.deadLetters,
    deadLetter: (letter) => deadLetterOf(letter, 0),
    retry: (_, step) => step(),
    classify,
    run: `${started}/${group}`,
    countWrite: () => undefined,
    stops: async () => 1,
    log: { info: () => undefined, warn: () => undefined, error: () => undefined },
  });
  let crash: Error | undefined;
  const consumer = await kafka.consumer({
    group,
    topics: ["events.attributed"],
    reading: { ...sinkReading, fetch: { ...sinkReading.fetch, maxWaitTimeInMs: 50 } },
    onBatch: process,
    onCrash: (error) => {
      crash = error;
    },
  });
  try {
    for (const deadline = Date.now() + 30_000; ; await new Promise((resolve) => setTimeout(resolve, 50))) {
      if (crash !== undefined) throw crash;
      if ((await admin.lag(group, ["events.attributed"])).every(({ lag }) => lag === 0)) break;
      if (Date.now() > deadline) throw new Error(`${group} did not come to the end of the log`);
    }
  } finally {
    await consumer.stop();
    await admin.close();
  }
};

/** Waits until no mark is left. Marks of other suites on this stack are computed too. */
const settle = async (): Promise<void> => {
  await computeWaiting(pool, clickhouse, 50);
};

/** Every row of a tenant's rollups, also zeros, without the version. */
const rollupsOf = async (tenant: number, ...where: readonly Condition[]) =>
  readRows(clickhouse, scopeOf(tenant), {
    from: "rollups",
    columns: {
      grain: text("grain"),
      at: count("toUnixTimestamp(bucket)"),
      group: text(
        "concat(event_type, '/', source, '/', toString(partner_id), '/', country, '/', device, '/', currency)",
      ),
      events: count("events"),
      clicks: count("clicks"),
      conversions: count("conversions"),
      unattributed: count("unattributed"),
      revenue_minor: minor("revenue_minor"),
      review: count("review"),
      rejected: count("rejected"),
    },
    where,
    orderBy: ["grain", "at", "group"],
  });

/** The same figures counted from events, by the bucket of each event. */
const counted = (tenant: number, bucketOf: string) =>
  readRows(clickhouse, scopeOf(tenant), {
    from: "events_current",
    columns: {
      bucket_at: count(`toUnixTimestamp(${bucketOf})`),
      partner: count("ifNull(partner_id, 0)"),
      currency_of: text("ifNull(currency, '')"),
      events: count("count()"),
      clicks: count("countIf(t = 'click')"),
      conversions: count("countIf(t in ('purchase', 'ext_purchase', 'lead_submit', 'install'))"),
      unattributed: count(
        "countIf(credit_status = 'unattributed' and t in ('purchase', 'ext_purchase', 'lead_submit', 'install'))",
      ),
      revenue_minor: minor("sumIf(toInt128(ifNull(value_minor, 0)), t in ('purchase', 'ext_purchase'))"),
      review: count("countIf(fraud_band = 'review')"),
      rejected: count("countIf(fraud_band = 'reject')"),
    },
    groupBy: ["bucket_at", "partner", "currency_of"],
    orderBy: ["bucket_at", "partner", "currency_of"],
  });
/** tests/contracts/rollup-figures.test.ts covers repeats. */
const { repeats: _, ...sums } = figures;
const rolled = (tenant: number, grain: Grain) =>
  readRows(clickhouse, scopeOf(tenant), {
    from: "rollups",
    columns: {
      bucket_at: count("toUnixTimestamp(bucket)"),
      partner: count("partner_id"),
      currency_of: text("currency"),
      ...sums,
    },
    where: [...within(grain, span), cond`events > ${bind("UInt64", 0)}`],
    groupBy: ["bucket_at", "partner", "currency_of"],
    orderBy: ["bucket_at", "partner", "currency_of"],
  });
const bucketOf: Readonly<Record<Grain, string>> = {
  minute: "toStartOfMinute(ts)",
  hour: "toStartOfHour(ts)",
  day: "toStartOfDay(ts, 'America/Mexico_City')",
};
const expectEqualSides = async (tenant: number): Promise<void> => {
  for (const grain of ["minute", "hour", "day"] as const)
    expect(await rolled(tenant, grain), grain).toEqual(await counted(tenant, bucketOf[grain]));
};

const eventsOf = (client_id: number, n: number): readonly EventAttributed[] =>
  Array.from({ length: n }, (_, i) =>
    attributed(
      {
        client_id,
        event_id: uuid(i + 1),
        did: `d${i % 7}`,
        // The events lie on three days, in two hours on both sides of midnight in Mexico City
        // (06:00Z).
        ts: noon + (i % 3) * 11 * hourMs + (i % 13) * 60_000 + (i % 60) * 1_000,
        t: (["page_view", "click", "purchase", "refund", "lead_submit"] as const)[i % 5]!,
        order_id: `o${i}`,
        currency: i % 4 === 0 ? "USD" : "MXN",
      },
      {
        credit: i % 2 === 0 ? clickCredit({ partner_id: 21 + (i % 3) }) : {},
        fraud: { band: i % 9 === 0 ? "review" : "ok" },
      },
    ),
  );

test("each client and day says in its rollups what its events say, in every grain", async () => {
  const tenant = nextTenant();
  await publish(...eventsOf(tenant, 200));
  await read("live");
  expect((await waitingMarks(pool)).count).toBeGreaterThan(0);
  await settle();
  await expectEqualSides(tenant);
  expect(await waitingMarks(pool)).toEqual({ count: 0, seconds: 0 });
});

test(
  "a sale of five in the evening and one of seven lie on two days of Mexico City when midnight is " + "between them",
  async () => {
    const tenant = nextTenant();
    const sale = (n: number, ts: number) =>
      attributed({ client_id: tenant, event_id: uuid(n), order_id: `o${n}`, ts, value_minor: 10_00n });
    await publish(sale(1, Date.UTC(2026, 5, 16, 5, 59, 59, 999)), sale(2, Date.UTC(2026, 5, 16, 6)));
    await read("live");
    await settle();
    const days = await figuresByDay(clickhouse, scopeOf(tenant), span);
    expect(days.map(({ day, conversions, revenue_minor }) => [day, conversions, revenue_minor])).toEqual([
      ["2026-06-15", 1, 10_00n],
      ["2026-06-16", 1, 10_00n],
    ]);
  },
);

test("a replay writes every row again and nothing changes", async () => {
  const tenant = nextTenant();
  await publish(...eventsOf(tenant, 120));
  await read("live");
  await settle();
  const before = await rollupsOf(tenant);
  expect(before.length).toBeGreaterThan(50);
  for (let times = 0; times < 3; times += 1) {
    await read();
    await settle();
  }
  expect(await rollupsOf(tenant)).toEqual(before);
  await expectEqualSides(tenant);
});

test("rows that were lost leave the rollups when their minutes are touched, and are back after a replay", async () => {
  const tenant = nextTenant();
  await publish(...eventsOf(tenant, 120));
  await read("live");
  await settle();
  const before = await rollupsOf(tenant);
  const lose = (query: string) =>
    clickhouse.command({ query, query_params: { tenant }, clickhouse_settings: { mutations_sync: "1" } });
  await lose(
    "alter table events delete where client_id = {tenant:UInt32} and event_id < '00000000-0000-8000-8000-000000000032'",
  );
  await lose("alter table rollups delete where client_id = {tenant:UInt32} and grain = 'hour'");
  const touched = minutesOf(eventsOf(tenant, 120).map(({ event }) => event));
  await postgresStore(pool).within({ tenants: [tenant], token: "" }, (write) => rollupMarks.write(touched, write));
  await settle();
  expect(await rollupsOf(tenant)).not.toEqual(before);
  await expectEqualSides(tenant);
  await read();
  await settle();
  expect(await rollupsOf(tenant)).toEqual(before);
  await expectEqualSides(tenant);
});

test(
  "a decision that moves a conversion to another partner leaves zeros behind, and so does a second " + "copy",
  async () => {
    const tenant = nextTenant();
    const sale = { client_id: tenant, event_id: uuid(1), value_minor: 50_00n };
    await publish(attributed(sale, { credit: clickCredit({ partner_id: 21 }) }));
    await read("live");
    await settle();
    await publish(attributed(sale, { version: 2, credit: clickCredit({ partner_id: 22 }) }));
    await read("live");
    await settle();
    const days = (await rollupsOf(tenant)).filter(({ grain }) => grain === "day");
    expect(
      days.map(({ group, events, conversions, revenue_minor }) => ({ group, events, conversions, revenue_minor })),
    ).toEqual([
      { group: "purchase/pixel/21//unknown/MXN", events: 0, conversions: 0, revenue_minor: 0n },
      { group: "purchase/pixel/22//unknown/MXN", events: 1, conversions: 1, revenue_minor: 50_00n },
    ]);
    await publish(attributed(sale, { version: 3, credit: clickCredit({ partner_id: 22 }), merged_into: uuid(9) }));
    await read("live");
    await settle();
    expect((await rollupsOf(tenant)).every(({ events, revenue_minor }) => events === 0 && revenue_minor === 0n)).toBe(
      true,
    );
    await expectEqualSides(tenant);
  },
);

test("amounts at the limit of 64 bits are added without overflow", async () => {
  const tenant = nextTenant();
  const most = 9_223_372_036_854_775_807n;
  const sale = (n: number) =>
    attributed({ client_id: tenant, event_id: uuid(n), order_id: `o${n}`, value_minor: most });
  await publish(sale(1), sale(2), sale(3));
  await read("live");
  await settle();
  expect((await figuresByDay(clickhouse, scopeOf(tenant), span))[0]?.revenue_minor).toBe(3n * most);
});

test("a minute that is touched while it is computed stays marked, and counts its wait from then", async () => {
  const tenant = nextTenant();
  const store = postgresStore(pool);
  const touch = () =>
    store.within({ tenants: [tenant], token: "" }, (write) =>
      write(rollupMarks, [{ client_id: tenant, minute: noon }]),
    );
  await settle();
  await touch();
  const first: bigint[] = [];
  const mine = (marks: readonly { readonly client_id: number; readonly sequence: bigint }[]) =>
    marks.filter(({ client_id }) => client_id === tenant).map(({ sequence }) => sequence);
  await takeMarks(pool, 50, async (marks) => {
    first.push(...mine(marks));
    await touch();
    expect(await takeMarks(pool, 50, async () => undefined), "another process").toBe("busy");
  });
  const second: bigint[] = [];
  await takeMarks(pool, 50, async (marks) => void second.push(...mine(marks)));
  expect(first).toHaveLength(1);
  expect(second).toHaveLength(1);
  expect(second[0]).toBeGreaterThan(first[0]!);
  expect((await waitingMarks(pool)).count).toBe(0);
});

test("of two computations of one minute the one under the newer mark stays, whichever ends last", async () => {
  const tenant = nextTenant();
  const put = (n: number) =>
    clickhouseStore(clickhouse).within({ tenants: [tenant], token: `${started}/${tenant}/${n}` }, (write) =>
      analytics.into.write(
        analytics.rows(recorded(topics.eventsAttributed, attributed({ client_id: tenant, event_id: uuid(n) }))),
        write,
      ),
    );
  const counts = async () => (await rollupsOf(tenant)).map(({ grain, events }) => [grain, events]);
  await put(1);
  await computeRollups(clickhouse, [{ client_id: tenant, minute: noon, sequence: 8n }]);
  await put(2);
  await computeRollups(clickhouse, [{ client_id: tenant, minute: noon, sequence: 7n }]);
  expect(await counts()).toEqual(["minute", "hour", "day"].map((grain) => [grain, 1]));
  await computeRollups(clickhouse, [{ client_id: tenant, minute: noon, sequence: 9n }]);
  expect(await counts()).toEqual(["minute", "hour", "day"].map((grain) => [grain, 2]));
});

test("a computation that fails leaves every mark where it was", async () => {
  const tenant = nextTenant();
  await settle();
  await postgresStore(pool).within({ tenants: [tenant], token: "" }, (write) =>
    write(rollupMarks, [{ client_id: tenant, minute: noon }]),
  );
  const failing = takeMarks(pool, 50, async () => {
    throw new Error("the store is away");
  });
  await expect(failing).rejects.toThrow("the store is away");
  expect((await waitingMarks(pool)).count).toBe(1);
  await settle();
});

test("whatever versions come in whatever batches, rollups end as a fresh count", async () => {
  const version = fc.record({ id: fc.nat({ max: 6 }), version: fc.integer({ min: 1, max: 4 }) });
  /**
   * Each version of an event has one content: without a partner, with one, or a second copy. Its
   * time never changes.
   */
  const contentOf = (client_id: number, id: number, version: number): EventAttributed => {
    const partner_id = [null, 21, 22][(id * 7 + version * 5) % 3]!;
    const over = { version, merged_into: (id + version) % 4 === 0 ? uuid(99) : null };
    return attributed(
      { client_id, event_id: uuid(id + 1), order_id: `o${id}`, ts: noon + id * 20_000 },
      partner_id === null ? over : { ...over, credit: clickCredit({ partner_id }) },
    );
  };
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(version, { minLength: 1, maxLength: 8 }), { minLength: 1, maxLength: 4 }),
      async (batches) => {
        const tenant = nextTenant();
        for (const [n, batch] of batches.entries()) {
          const rows = batch.flatMap((one) =>
            analytics.rows(recorded(topics.eventsAttributed, contentOf(tenant, one.id, one.version))),
          );
          await clickhouseStore(clickhouse).within({ tenants: [tenant], token: `${started}/${tenant}/${n}` }, (write) =>
            analytics.into.write(rows, write),
          );
          const { of, into } = analytics.into.marks!;
          const marks = of(rows);
          await postgresStore(pool).within({ tenants: [tenant], token: "" }, (write) => into.write(marks, write));
          if (n % 2 === 0) await settle();
        }
        await settle();
        await expectEqualSides(tenant);
      },
    ),
    { numRuns: 10 },
  );
});

test("commission of a day is a sum of the ledger, by the day of the sale", async () => {
  const tenant = nextTenant();
  const entry = (n: number, occurred_at: number, amount: bigint) =>
    ledgerEntry({
      client_id: tenant,
      entry_id: `led_${tenant}_${n}`,
      conversion_id: `cnv_${n}`,
      occurred_at,
      amount_minor: amount,
      lines: [
        { account: "expense:client", amount_minor: amount },
        { account: "payable:partner", amount_minor: -amount },
      ],
    });
  const midnight = Date.UTC(2026, 5, 16, 6);
  const rows = [entry(1, midnight - 1, 10_00n), entry(2, midnight, 7_00n), entry(3, midnight + 1, -2_00n)].flatMap(
    (data) => ledgerRows(recorded(topics.ledgerEntries, data)),
  );
  await postgresStore(pool).within({ tenants: [tenant], token: "" }, (write) => ledger.write(rows, write));
  expect((await earnedByDay(pool, [tenant], span)).map(({ day, amount_minor }) => [day, amount_minor])).toEqual([
    ["2026-06-15", 10_00n],
    ["2026-06-16", 5_00n],
  ]);
});
