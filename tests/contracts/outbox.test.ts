// The outbox on a real Postgres and a real log: a change and its records in the log appear
// together, in order, and never twice with two ids.
import type pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import { openKafka } from "../../infra/kafka/kafka.ts";
import { transaction } from "../../infra/postgres/sql.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import {
  type Announcement,
  announce,
  forgetSent,
  outboxTopics,
  relayOutbox,
  waitingOutbox,
} from "../../modules/base/outbox/outbox.ts";
import { ReferenceRefused } from "../../modules/catalog/reference/problem.ts";
import { openReference } from "../../modules/catalog/reference/reference.ts";
import { writeReference } from "../../modules/catalog/reference/writer.ts";
import type { DomainChanged, ReferenceChanged } from "../../schemas/generated.ts";
import type { OutputMessage } from "../../stream/messages.ts";
import { topicSettings } from "../../topics.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";
import { expectWithin } from "../support/quickest.ts";
import { sharedStack } from "../support/shared-stack.ts";

const wire = inMemoryWire(outboxTopics);
const read = ({ topic, value }: Pick<OutputMessage, "topic" | "value">): ReferenceChanged | DomainChanged => {
  const of = outboxTopics.find(({ name }) => name === topic)!;
  return wire.decode(of, value, { topic, partition: 0, offset: 0 }).data;
};

let database: FreshDatabase;
let pool: pg.Pool;
let sent: OutputMessage[] = [];
const relay = (from: pg.Pool = pool) => relayOutbox(from, wire, async (messages) => void sent.push(...messages));
beforeAll(async () => {
  database = await freshDatabase();
  pool = database.pool({ max: 6 });
});
beforeEach(async () => {
  await relay();
  sent = [];
});
afterEach(() => database.adminPool.query("delete from outbox"));
afterAll(() => database.drop());

let names = 0;
const named = (version: number): Announcement => ({
  topic: "domain.changes",
  client_id: 1,
  record: { client_id: 1, entity: "thing:1", type: "thing.changed", version, change_id: null, data: "{}" },
});
const versions = () => sent.map((message) => read(message).version);
const adding = (...announced: readonly Announcement[]) => transaction(pool, [1], (tx) => announce(tx, announced));

test(
  "a saved change is announced: every new row, and to every client that it concerns; no personal " + "data goes along",
  async () => {
    names += 1;
    const saved = await writeReference(pool, "test", {
      clients: [
        { client_id: -1, slug: `one-${names}`, name: "One" },
        { client_id: -2, slug: `two-${names}`, name: "Two" },
      ],
      partners: [{ partner_id: -1, name: "Partner", email: "someone@partner.example", client_ids: [-1, -2] }],
      campaigns: [{ campaign_id: -1, client_id: -1, name: "Campaign", destination_url: "https://shop.example/" }],
    });
    await relay();
    const [one, two] = [saved.idOf("clients", -1), saved.idOf("clients", -2)];
    const partner = saved.idOf("partners", -1);
    const said = sent.map((message) => ({ topic: message.topic, key: String(message.key), ...read(message) }));
    expect(said.filter(({ key }) => key.includes("partner:"))).toMatchObject([
      { topic: "reference.changes", key: `partner:${partner}`, version: 1, change_id: saved.change_id },
      { topic: "domain.changes", key: `${one}:partner:${partner}`, type: "partner.created" },
      { topic: "domain.changes", key: `${two}:partner:${partner}`, type: "partner.created" },
    ]);
    expect(new Set(said.map(({ key }) => key.replace(/^\d+:/, "").split(":")[0]))).toEqual(
      new Set(["client", "partner", "campaign", "segment"]),
    );
    expect(sent.map(({ value }) => value!.toString()).join()).not.toContain("someone@");

    sent = [];
    await writeReference(pool, "test", { campaigns: [{ campaign_id: saved.idOf("campaigns", -1), status: "paused" }] });
    await relay();
    expect(sent.map(read)).toMatchObject([
      { entity: "campaign", version: 2 },
      { client_id: one, type: "campaign.changed", version: 2 },
    ]);
  },
);

test("a change that is refused announces nothing", async () => {
  const refused = writeReference(pool, "test", { campaigns: [{ campaign_id: 999_999, status: "paused" }] });
  await expect(refused).rejects.toBeInstanceOf(ReferenceRefused);
  expect(await relay()).toBe(0);
  expect((await waitingOutbox(pool)).count).toBe(0);
});

test("a lower id that commits late is sent first, and until then nothing behind it is", async () => {
  const slow = await pool.connect();
  await slow.query("begin");
  await slow.query("select set_config('app.clients', '1', true)");
  await announce(slow, [named(1)]);
  await adding(named(2));
  expect(await relay()).toBe(0);
  expect((await waitingOutbox(pool)).count).toBe(1);
  await slow.query("commit");
  slow.release();
  expect(await relay()).toBe(2);
  expect(versions()).toEqual([1, 2]);
});

test("what the log took before its sender died is sent again under the same id", async () => {
  await adding(named(1), named(2));
  const lost = relayOutbox(pool, wire, async (messages) => {
    sent.push(...messages);
    throw new Error("killed");
  });
  await expect(lost).rejects.toThrow("killed");
  await relay();
  const ids = sent.map((message) => read(message).event_id);
  expect(versions()).toEqual([1, 2, 1, 2]);
  expect(ids.slice(0, 2)).toEqual(ids.slice(2));
  expect(await relay()).toBe(0);
});

test("one relay runs at a time", async () => {
  await adding(named(1));
  const other: unknown[] = [];
  await relayOutbox(pool, wire, async () => void other.push(await relay()));
  expect(other).toEqual(["busy"]);
  expect(sent).toEqual([]);
});

test("rows wait for the log without end, and a backlog is sent in pieces, in order", async () => {
  await adding(...Array.from({ length: 12 }, (_, n) => named(n + 1)));
  expect(await relayOutbox(pool, wire, async (messages) => void sent.push(...messages), 5)).toBe(5);
  expect(await relay()).toBe(7);
  expect(versions()).toEqual(Array.from({ length: 12 }, (_, n) => n + 1));
});

test("sent rows are forgotten after a week, waiting ones never", async () => {
  await adding(named(1));
  await relay();
  await adding(named(2));
  await database.adminPool.query(
    "update outbox set written_at = now() - interval '8 days', sent_at = case when sent_at is not " +
      "null then now() - interval '8 days' end",
  );
  expect(await forgetSent(pool)).toBe(1);
  expect((await waitingOutbox(pool)).count).toBe(1);
});

test("the application adds to the outbox for its own clients and reads nothing back", async () => {
  await expect(transaction(pool, [2], (tx) => announce(tx, [named(1)]))).rejects.toThrow("row-level security");
  await expect(pool.query("select 1 from outbox")).rejects.toThrow("permission denied");
});

test("on the broker the reference topic is compacted, and readers find changes in the order of saving", async () => {
  const kafka = openKafka({
    brokers: sharedStack().env.KAFKA_BROKERS!,
    clientId: "outbox",
    topicPrefix: `outbox${Date.now()}.`,
  });
  const declared = topicSettings.filter(({ name }) => outboxTopics.some((topic) => topic.name === name));
  const admin = await kafka.admin();
  const producer = kafka.producer();
  try {
    expect(declared).toHaveLength(3);
    await admin.apply(declared);
    expect(await admin.plan(declared)).toEqual([]);
    names += 1;
    const { idOf } = await writeReference(pool, "test", {
      clients: [{ client_id: -1, slug: `log-${names}`, name: "Log" }],
    });
    for (const name of ["A", "B", "C"])
      await writeReference(pool, "test", { clients: [{ client_id: idOf("clients", -1), name }] });
    while ((await relayOutbox(pool, wire, producer.send)) !== 0);
    const found: ReferenceChanged[] = [];
    await kafka.replay({
      topics: ["reference.changes"],
      onBatch: ({ messages }) =>
        void found.push(
          ...messages.map(({ value }) => read({ topic: "reference.changes", value }) as ReferenceChanged),
        ),
    });
    expect(found.filter(({ entity }) => entity === "client").map(({ version }) => version)).toEqual([1, 2, 3, 4]);
  } finally {
    await producer.close();
    await admin.close();
  }
});

test("two seconds after a change every process knows it, and none is in force before they do", async () => {
  names += 1;
  const { idOf } = await writeReference(pool, "test", {
    clients: [{ client_id: -1, slug: `known-${names}`, name: "Before" }],
  });
  const clientId = idOf("clients", -1);
  const processes = [openReference(pool), openReference(pool), openReference(pool)];
  try {
    await Promise.all(processes.map(({ ready }) => ready));
    let changes = 0;
    await expectWithin(2_000, async () => {
      changes += 1;
      const name = `After ${changes}`;
      const savedAt = performance.now();
      const { recorded_at } = await writeReference(pool, "test", { clients: [{ client_id: clientId, name }] });
      const knowsIt = ({ reference }: (typeof processes)[number]) =>
        reference()?.at(recorded_at, recorded_at).client(clientId)?.name === name;
      await until("every process knows it", 30_000, () => expect(processes.every(knowsIt)).toBe(true));
      // The second limit: the change is known at most 300 ms after it is in force.
      return Math.max(performance.now() - savedAt, 1_700 + Date.now() - recorded_at);
    });
  } finally {
    await Promise.all(processes.map((one) => one.close()));
  }
});
