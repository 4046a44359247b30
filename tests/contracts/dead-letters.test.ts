// The index of dead letters in Postgres: the same life as in memory, separate tenants, two keepers
// that never take the same letter, and a recovered store that wakes the letters it had refused.
import { readFileSync } from "node:fs";
import type pg from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { filterOf } from "../../apps/cli/commands/log/dead-letters/options.ts";
import { lettersOfOrder } from "../../apps/cli/commands/money/letters-of-order.ts";
import { sentEventId, uuidOf } from "../../domain/ids.ts";
import { letterTopics } from "../../edges/dead-letters.ts";
import { openKafka } from "../../infra/kafka/kafka.ts";
import { transaction } from "../../infra/postgres/sql.ts";
import { writeReference } from "../../modules/catalog/reference/writer.ts";
import { type Failure, type Letter, letterIdOf } from "../../modules/log/dead-letters/letter.ts";
import {
  claimLetters,
  discardClaimed,
  indexInPostgres,
  letterDepth,
  lettersUnderWay,
  markPassed,
  markSent,
  openCounts,
  openLetters,
  parkLetters,
  wakeCorrected,
  wakeLetters,
} from "../../modules/log/dead-letters/letter-index.ts";
import {
  countLetters,
  discardOpen,
  failuresOf,
  listLetters,
  makeDue,
} from "../../modules/log/dead-letters/letter-reads.ts";
import { lettersAbout } from "../../modules/money/explain/letters-about.ts";
import { command } from "../support/command.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";
import { inMemoryLetters } from "../support/in-memory-letters.ts";
import { sharedStack } from "../support/shared-stack.ts";

const MINUTE = 60_000;
const DAY = 1_440 * MINUTE;
const now = Date.now();
let database: FreshDatabase;
let pool: pg.Pool;
beforeAll(async () => {
  database = await freshDatabase();
  pool = database.pool({ max: 6 });
});
beforeEach(() => database.adminPool.query("truncate dead_letters, dead_letter_failures"));
afterAll(() => database.drop());

const uuid = (n: number) => `00000000-0000-8000-8000-${String(n).padStart(12, "0")}`;
const failure = (n: number, over: Partial<Failure> = {}): Failure => ({
  failure_id: uuidOf(
    over.stage ?? "analytics",
    over.source?.topic ?? "",
    over.source?.partition ?? 1,
    over.source?.offset ?? n,
  ),
  kind: "s2s",
  root: uuid(n),
  subject: uuid(1_000 + n),
  subject_of_before: null,
  stage: "analytics",
  code: "refused_by_store",
  message: "no 'quotes' \"and\" \\ ünïcode",
  source: { topic: "events.attributed", partition: 1, offset: 2 ** 40 + n },
  kept: { topic: "s2s.dlq", partition: 0, offset: n },
  event_id: `e${n}`,
  order_id: null,
  client_id: 7,
  sender: null,
  is_stranger: false,
  first_failed_at: now - 5,
  failed_at: now,
  ...over,
});
const index = (...failures: readonly Failure[]) => indexInPostgres(pool, failures, () => 0);
const all = (filter = {}, scope: readonly number[] | null = null) => listLetters(pool, filter, { scope, limit: 100 });
const only = async (): Promise<Letter> => {
  const letters = await all();
  expect(letters).toHaveLength(1);
  return letters[0]!;
};

describe("the index", () => {
  test("keeps every field of a letter, and every failure once", async () => {
    await index(failure(2, { is_stranger: true }));
    expect(await only()).toEqual(await inMemoryOf(failure(2, { is_stranger: true })));
    await database.adminPool.query("truncate dead_letters, dead_letter_failures");
    await index(failure(1));
    await index(failure(1, { kept: { topic: "s2s.dlq", partition: 0, offset: 99 } }));
    const { failures: _, ...expected } = { failures: 0, ...(await inMemoryOf(failure(1))) };
    expect(await only()).toEqual(expected);
    expect(await failuresOf(pool, letterIdOf(failure(1)))).toMatchObject([
      { source: `events.attributed/1@${2 ** 40 + 1}`, message: failure(1).message },
    ]);
  });
  const inMemoryOf = async (one: Failure): Promise<Letter> => {
    const letters = inMemoryLetters();
    await letters.index([one]);
    return letters.all()[0]!;
  };

  test("takes the failures of two readers at once, and a large batch", async () => {
    const many = Array.from({ length: 500 }, (_, n) => failure(n));
    await Promise.all([
      index(...many),
      index(...many),
      index(...many.map((_, n) => failure(n, { stage: "product-sales" }))),
    ]);
    expect((await countLetters(pool, {}, null)).map(({ stage, count }) => [stage, count])).toEqual([
      ["analytics", 500],
      ["product-sales", 500],
    ]);
  });

  test("leads a letter through its whole life, as the one in memory does", async () => {
    const twin = inMemoryLetters();
    const both = async (one: Failure): Promise<void> => {
      await Promise.all([index(one), twin.index([one])]);
    };
    const expectSame = async () =>
      expect(await all()).toEqual(
        [...twin.all()].sort((a, b) => b.last_failed_at - a.last_failed_at || (a.letter_id < b.letter_id ? 1 : -1)),
      );
    await both(failure(1));
    await both(failure(2, { subject: null, event_id: null, client_id: null, stage: "enrich", code: "not_framed" }));
    let at = now;
    for (let attempt = 0; attempt < 11; attempt += 1) {
      at += DAY;
      if (attempt === 10) {
        // A person retries the parked letters.
        expect(await makeDue(pool, { states: ["parked"] }, at)).toHaveLength(2);
        for (const { letter_id } of twin.all()) twin.change(letter_id, { state: "waiting", next_attempt_at: at });
      }
      const [claimed, others] = [await claimLetters(pool, 10, at, MINUTE), await twin.claim(10, at, MINUTE)];
      expect(claimed.map(({ letter_id }) => letter_id).sort()).toEqual(others.map(({ letter_id }) => letter_id).sort());
      await Promise.all([markSent(pool, claimed, at), twin.sent(others, at)]);
      expect(await lettersUnderWay(pool)).toHaveLength(2);
      await expectSame();
      // One letter fails again with its header, the other is only known by its subject.
      const place = (n: number) => ({ topic: "events.attributed", partition: 3, offset: attempt * 10 + n });
      await both(failure(1, { root: uuid(50 + attempt), source: place(1), failed_at: at + 1 }));
      await both(
        failure(2, {
          subject: null,
          event_id: null,
          client_id: null,
          stage: "enrich",
          source: place(2),
          failed_at: at + 2,
        }),
      );
      await expectSame();
      if (attempt >= 9) expect((await all()).map(({ state }) => state)).toEqual(["parked", "parked"]);
    }
    expect((await failuresOf(pool, letterIdOf(failure(1)))).length).toBe(12);
    await makeDue(pool, {}, at);
    for (const { letter_id } of twin.all()) twin.change(letter_id, { state: "waiting", next_attempt_at: at });
    const [claimed, others] = [await claimLetters(pool, 10, at, MINUTE), await twin.claim(10, at, MINUTE)];
    await Promise.all([markSent(pool, claimed, at), twin.sent(others, at)]);
    expect(await markPassed(pool, claimed, at)).toBe(2);
    await twin.passed(others, at);
    await expectSame();
    // This failure is late: its reader is behind the offsets that it had reported.
    await both(failure(1, { source: { topic: "events.attributed", partition: 3, offset: 999 }, failed_at: at + 5 }));
    await expectSame();
    expect((await all({ states: ["parked"] })).length).toBe(1);
  });

  test("is indexed again from the first record without a change", async () => {
    const failures = Array.from({ length: 20 }, (_, n) =>
      failure(n % 7, { source: { topic: "events.attributed", partition: 1, offset: n } }),
    );
    await index(...failures);
    await claimLetters(pool, 3, now + DAY, MINUTE);
    const before = await all();
    for (const one of failures) await index(one);
    expect(await all()).toEqual(before);
  });
});

test("what never becomes an event is not due for two days, unless a person makes it due", async () => {
  const garbage = { kind: "pixel", stage: "pixel", code: "bad_json", is_stranger: true, client_id: null } as const;
  await index(failure(1, garbage), failure(2, { ...garbage, is_stranger: false }));
  const due = async (at: number) => (await claimLetters(pool, 10, at, MINUTE)).map(({ letter_id }) => letter_id);
  expect(await due(now + 2 * MINUTE)).toEqual([letterIdOf(failure(2, garbage))]);
  expect((await countLetters(pool, { kind: "pixel", states: ["waiting"] }, null))[0]).toMatchObject({ count: 1 });
  await makeDue(pool, { code: "bad_json" }, now);
  expect(await due(now)).toEqual([letterIdOf(failure(1, garbage))]);
});

describe("attempts", () => {
  test("of two keepers at once take each letter once", async () => {
    await index(...Array.from({ length: 60 }, (_, n) => failure(n)));
    const claims = await Promise.all(Array.from({ length: 6 }, () => claimLetters(pool, 10, now + DAY, MINUTE)));
    const ids = claims.flat().map(({ letter_id }) => letter_id);
    expect([ids.length, new Set(ids).size]).toEqual([60, 60]);
  });
  test(
    "of a keeper that died are taken over when its lease has ended, and what it still says is not " + "heard",
    async () => {
      await index(failure(1));
      const due = now + 2 * MINUTE;
      const [dead] = [await claimLetters(pool, 10, due, MINUTE)];
      expect(await claimLetters(pool, 10, due + MINUTE - 1, MINUTE)).toEqual([]);
      expect(await claimLetters(pool, 10, due + MINUTE, MINUTE)).toHaveLength(1);
      await index(failure(1, { source: { topic: "events.attributed", partition: 9, offset: 1 }, failed_at: due }));
      await markSent(pool, dead, due);
      expect(await markPassed(pool, dead, due)).toBe(0);
      expect(await only()).toMatchObject({ state: "waiting", attempts: 1, sent_at: null });
    },
  );
  test("that cannot be sent are parked, and what must not come back is discarded by the keeper", async () => {
    await index(failure(1), failure(2));
    const [one, other] = await claimLetters(pool, 10, now + DAY, MINUTE);
    await parkLetters(pool, [one!], "its bytes are gone");
    await discardClaimed(pool, [other!], "erased", now);
    expect(
      (await all()).map(({ letter_id, state, message, closed_by }) => [letter_id, state, message, closed_by]).sort(),
    ).toEqual(
      [
        [one!.letter_id, "parked", "its bytes are gone", null],
        [other!.letter_id, "discarded", failure(2).message, "keeper"],
      ].sort(),
    );
  });
});

test("each state is counted, and the depth is what is open", async () => {
  await index(...Array.from({ length: 8 }, (_, n) => failure(n, { kind: n < 2 ? "clicks" : n < 4 ? "pixel" : "s2s" })));
  const ids = (await all()).filter(({ kind }) => kind === "s2s").map(({ letter_id }) => letter_id);
  expect(await discardOpen(pool, { ids: [ids[0]!] }, { actor: "me", reason: "because", now })).toEqual([ids[0]]);
  expect(await discardOpen(pool, { ids: [ids[0]!] }, { actor: "you", reason: "again", now }), "once").toEqual([]);
  await makeDue(pool, { ids: [ids[1]!] }, now - 1);
  const claimed = await claimLetters(pool, 1, now, MINUTE);
  await markSent(pool, claimed, now);
  expect(await letterDepth(pool)).toEqual({ clicks: 2, pixel: 2, s2s: 3 });
  await markPassed(pool, claimed, now);
  expect(await letterDepth(pool)).toEqual({ clicks: 2, pixel: 2, s2s: 2 });
  const states = (await countLetters(pool, {}, null)).map(({ kind, state, count }) => `${kind} ${state} ${count}`);
  expect(states.sort()).toEqual([
    "clicks waiting 2",
    "pixel waiting 2",
    "s2s discarded 1",
    "s2s reprocessed 1",
    "s2s waiting 2",
  ]);
  expect((await openLetters(pool)).reduce((sum, { count }) => sum + count, 0)).toBe(6);
});

test("open letters of strangers are set apart while fewer than 100 a minute of them come", async () => {
  const strange = (n: number, over: Partial<Failure> = {}) =>
    failure(n, { kind: "pixel", stage: "pixel", code: "unknown_client", subject: null, is_stranger: true, ...over });
  const old = { first_failed_at: now - 11 * MINUTE, failed_at: now - 11 * MINUTE };
  await index(failure(1), strange(2, { is_stranger: false, client_id: 7 }), strange(3, old));
  await index(...Array.from({ length: 999 }, (_, n) => strange(10 + n)));
  expect(await openCounts(pool)).toEqual({ depth: { clicks: 0, pixel: 1_001, s2s: 1 }, fewStrangers: 1_000 });
  await index(strange(2_000));
  expect(await openCounts(pool)).toEqual({ depth: { clicks: 0, pixel: 1_002, s2s: 1 }, fewStrangers: 0 });
  // The rate falls when the letters are ten minutes old, whether somebody closes them or not.
  await database.adminPool.query("update dead_letters set first_failed_at = first_failed_at - interval '11 minutes'");
  expect((await openCounts(pool)).fewStrangers).toBe(1_001);
});

test("a store that turned healthy wakes what it had refused before, once, and nothing else", async () => {
  const at = now - 10 * MINUTE;
  await index(
    failure(1, { failed_at: at }),
    failure(2, { failed_at: at, stage: "product-sales" }),
    failure(3, { failed_at: at, code: "unmappable_row" }),
    failure(4, { failed_at: now + MINUTE }),
  );
  await database.adminPool.query("update dead_letters set next_attempt_at = now() + interval '1 day'");
  const stages = { analytics_store: ["analytics"], relational_store: ["product-sales"], cache_store: [] };
  await database.adminPool.query("update probe_states set state = 'down', since = now()");
  expect(await wakeLetters(pool, stages)).toBe(0);
  await database.adminPool.query(
    "update probe_states set state = 'healthy', since = now() where name = 'analytics_store'",
  );
  expect(await wakeLetters(pool, stages)).toBe(1);
  expect(await wakeLetters(pool, stages)).toBe(0);
  expect((await claimLetters(pool, 10, Date.now() + 1_000, MINUTE)).map(({ letter_id }) => letter_id)).toEqual([
    letterIdOf(failure(1)),
  ]);
});

describe("what was refused of a sender", () => {
  const saved = (table: string, ago: number, which = "true") =>
    database.adminPool.query(`update ${table} set updated_at = now() - interval '${ago} seconds' where ${which}`);
  const woken = async () => {
    const before = await listed();
    const count = await wakeCorrected(pool);
    const after = await listed();
    return { count, roots: after.filter((one) => !before.includes(one)) };
  };
  const listed = async () =>
    (
      await database.adminPool.query<{ n: string }>(
        "select right(root::text, 2) as n from dead_letters where next_attempt_at <= clock_timestamp() order by 1",
      )
    ).rows.map(({ n }) => Number(n));

  test("is tried at once when its source or processor was saved since, once a saving, parked or not", async () => {
    const made = await writeReference(pool, "test", { clients: [{ client_id: -1, slug: "wake", name: "Shop" }] });
    const client_id = made.idOf("clients", -1);
    await database.adminPool.query(`
      insert into sources (source_id, client_id, slug, name, kind, state, vault)
        select n, ${client_id}, 's' || n, 'S', 'generic', 'draft', 'v' from (values (71), (72)) as given (n);
      insert into payment_processors (client_id, processor, sealed) values (${client_id}, 'stripe', 'sealed')`);
    const at = Date.now() - MINUTE;
    const of = (n: number, sender: string | null, over: Partial<Failure> = {}) =>
      failure(n, {
        client_id,
        sender,
        subject: null,
        failed_at: at,
        stage: "external",
        code: "missing_field",
        ...over,
      });
    await index(
      of(1, "src_71"),
      of(2, "src_71", { code: "set_aside" }),
      of(3, "src_72"),
      of(4, "stripe", { stage: "postback" }),
      of(5, "src_71", { client_id: client_id + 1 }),
      of(6, null),
      of(7, "src_71", { failed_at: Date.now() - 1_000 }),
    );
    await database.adminPool.query(
      "update dead_letters set next_attempt_at = now() + interval '1 day' where state = 'waiting'",
    );
    for (const place of ["sources", "payment_processors"]) await saved(place, 3_600);
    expect(await woken()).toEqual({ count: 0, roots: [] });
    // The change is not yet in force in every process.
    await saved("sources", 1, "source_id = 71");
    expect((await woken()).count).toBe(0);
    await saved("sources", 10, "source_id = 71");
    expect(await woken()).toEqual({ count: 2, roots: [1, 2] });
    expect((await woken()).count).toBe(0);
    await saved("payment_processors", 10);
    expect(await woken()).toEqual({ count: 1, roots: [4] });
    // The letters fail again and wait for their next time.
    const { rows } = await database.adminPool.query<{ n: number }>(
      "update dead_letters set last_failed_at = now(), next_attempt_at = now() + interval '1 day' returning 1 as n",
    );
    expect(rows).toHaveLength(7);
    expect((await woken()).count).toBe(0);
  });
});

describe("tenants", () => {
  test("see their own letters; what cannot be read is for operators alone", async () => {
    await index(
      failure(1),
      failure(2, { client_id: 8 }),
      failure(3, { client_id: null, event_id: null, subject: null }),
    );
    const seen = async (scope: readonly number[] | null) =>
      (await all({}, scope)).map(({ client_id }) => client_id).sort();
    expect(await seen([7])).toEqual([7]);
    expect(await seen([7, 8])).toEqual([7, 8]);
    expect(await seen([])).toEqual([]);
    expect(await seen(null)).toEqual([7, 8, null]);
    expect((await countLetters(pool, { client_id: 8 }, [7])).length).toBe(0);
  });
  test("change nothing, and read no history", async () => {
    await index(failure(1));
    const as = (statement: string) => transaction(pool, [7], (tx) => tx.query(statement));
    await expect(as("update dead_letters set code = 'x'")).rejects.toThrow("permission denied");
    await expect(as("delete from dead_letters")).rejects.toThrow("permission denied");
    await expect(as("select * from dead_letter_failures")).rejects.toThrow("permission denied");
  });
});

test("pages follow each other without a gap, newest first, and filters narrow them", async () => {
  await index(
    ...Array.from({ length: 25 }, (_, n) => failure(n, { failed_at: now - (n % 5) * 1_000, code: n % 2 ? "a" : "b" })),
  );
  const seen: Letter[] = [];
  for (let after: Letter | undefined; ; after = seen.at(-1)) {
    const page = await listLetters(pool, {}, { scope: null, limit: 7, ...(after && { after }) });
    seen.push(...page);
    if (page.length < 7) break;
  }
  expect([seen.length, new Set(seen.map(({ letter_id }) => letter_id)).size]).toEqual([25, 25]);
  expect(seen.map(({ last_failed_at }) => last_failed_at)).toEqual(
    seen.map(({ last_failed_at }) => last_failed_at).sort((a, b) => b - a),
  );
  expect((await all({ code: "a", since: now - 1_500 })).length).toBe(
    seen.filter((one) => one.code === "a" && one.last_failed_at >= now - 1_500).length,
  );
  expect(
    (await all({ event_id: "e3", stage: "analytics", kind: "s2s", client_id: 7, states: ["waiting"] })).length,
  ).toBe(1);
});

test("an explanation finds the letters of its events that have not come through, and of no other client", async () => {
  await index(failure(1), failure(2), failure(3), failure(4, { event_id: "e1", client_id: 8 }));
  await discardOpen(pool, { event_id: "e2" }, { actor: "a person", reason: "garbage", now });
  const found = await lettersAbout(
    pool,
    ["e1", "e2", "e9"].map((event_id) => ({ client_id: 7, event_id })),
  );
  expect(found.map(({ event_id, state, code }) => [event_id, state, code]).sort()).toEqual([
    ["e1", "waiting", "refused_by_store"],
    ["e2", "discarded", "refused_by_store"],
  ]);
  await database.adminPool.query(
    "update dead_letters set state = 'reprocessed', closed_at = now(), next_attempt_at = null where event_id = 'e1'",
  );
  expect(await lettersAbout(pool, [{ client_id: 7, event_id: "e1" }])).toEqual([]);
  expect(await lettersAbout(pool, [])).toEqual([]);
});

describe("an order", () => {
  const taken = (n: number, order_id: string | null, over: Partial<Failure> = {}) => {
    const first = "event id p1 is that of a purchase of order o1, 100.00 MXN";
    const own = `this is a lead_submit of order ${order_id ?? "none"}, 90.00 MXN`;
    const message = `${first}; ${own}: send it under an id of its own`;
    return failure(n, {
      event_id: sentEventId(7, "p1"),
      order_id,
      stage: "settle",
      code: "id_conflict",
      message,
      ...over,
    });
  };
  const ordersOf = (letters: readonly Letter[]) => letters.map(({ order_id }) => order_id).sort();
  const asked = async (options: object) => ordersOf(await all(await filterOf(pool, [], options)));

  test("is found by its letters, and so is the event id that several of them share", async () => {
    await index(taken(1, "o2"), taken(2, "o3"), taken(3, "o4"), taken(4, "o3", { client_id: 8 }), failure(5));
    expect([await asked({ order: "o2" }), await asked({ order: " o3\u200b" })]).toEqual([["o2"], ["o3", "o3"]]);
    expect(await asked({ event: sentEventId(7, "p1") })).toEqual(["o2", "o3", "o3", "o4"]);
    expect(await asked({ order: "o1" })).toEqual([]);
  });

  test("of which nothing is stored is explained by its letters, without a look into the log", async () => {
    await index(taken(1, "o2"), taken(2, "o3"), taken(3, "o3", { client_id: 8 }));
    const { letters, isWhole } = await lettersOfOrder(pool, [7], "o3 ");
    expect([letters.map(({ letter_id, code }) => [letter_id, code]), isWhole]).toEqual([
      [[letterIdOf(taken(2, "o3")), "id_conflict"]],
      true,
    ]);
  });

  test("of a letter of before is the one of its first failure", async () => {
    const same = { subject: uuid(99) };
    await index(taken(1, "o,2", same), taken(2, "o3", same), taken(3, null), failure(4));
    await database.adminPool.query("update dead_letters set order_id = null");
    const [, ...update] = readFileSync("migrations/postgres/313_orders_of_dead_letters.sql", "utf8").split("\n\n");
    await database.adminPool.query(update.join(""));
    expect((await all()).map(({ order_id }) => order_id).sort()).toEqual([null, null, "o,2"].sort());
  });

  test("shares no letter of before with another order under its event id", async () => {
    const ofBefore = { subject: uuid(99) };
    const ofNow = (n: number) => ({ subject: uuid(n), subject_of_before: uuid(99) });
    await index(taken(1, "o2", ofBefore));
    await index(taken(2, "o3", ofNow(3)), taken(4, "o2", ofNow(2)));
    expect(ordersOf(await all())).toEqual(["o2", "o3"]);
    expect(await failuresOf(pool, letterIdOf(taken(1, "o2")))).toHaveLength(2);
  });
});

test("the list says how many records of the log it lacks, and that this is unknown while the log is away", async () => {
  const { env } = sharedStack();
  const topicPrefix = `unlisted-${process.pid}.`;
  const kafka = openKafka({ brokers: env.KAFKA_BROKERS!, clientId: "test", topicPrefix });
  const admin = await kafka.admin();
  await admin.apply(Object.values(letterTopics).map((name) => ({ name, partitions: 1, retentionMs: -1 })));
  const producer = kafka.producer();
  await producer.send([1, 2, 3].map((n) => ({ topic: letterTopics.s2s, key: null, value: Buffer.from(String(n)) })));
  await Promise.all([producer.close(), admin.close()]);
  const known = { ...env, POSTGRES_URL: database.appUrl, KAFKA_TOPIC_PREFIX: topicPrefix };
  const listed = await command(known, ["dlq", "list", "--json"]);
  expect([listed.stderr, JSON.parse(listed.stdout)]).toEqual(["", { counts: [], data: [], unlisted: 3 }]);
  expect((await command(known, ["dlq", "list"])).stderr).toContain("3 records of letters are not listed yet");
  const away = { ...known, KAFKA_BROKERS: "127.0.0.1:1" };
  expect(JSON.parse((await command(away, ["dlq", "list", "--json"])).stdout).unlisted).toBeNull();
  expect((await command(away, ["dlq", "list"])).stderr).toContain("letters may be missing here");
});
