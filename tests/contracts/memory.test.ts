// The contract of every memory, for the twin in memory and for real servers: one suite for each
// kind of driver.
import { randomUUID } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import { Redis } from "ioredis";
import pg from "pg";
import { afterAll, describe, expect, test } from "vitest";
import { postgresMemory } from "../../infra/postgres/durable-memory.ts";
import { redisMemory } from "../../infra/redis/fast-memory.ts";
import { forget, marksOf } from "../../infra/redis/forget.ts";
import { inMemory } from "../../stream/memory/in-memory.ts";
import type { Change, LoadedMemory, Memory, MemoryWrite } from "../../stream/memory/memory.ts";
import { freshDatabase } from "../support/fresh-database.ts";
import { sharedStack } from "../support/shared-stack.ts";

const { env } = sharedStack();
const redis = new Redis(env.REDIS_URL!, { maxRetriesPerRequest: 1 });
const pool = new pg.Pool({ connectionString: env.POSTGRES_URL, max: 8 });
afterAll(async () => {
  redis.disconnect();
  await pool.end();
});

const position = (offset: number) => ({ topic: "origin", partition: 2, offset });
const change = (key: string, eventId: string, offset: number, value: string, version = 0): Change => ({
  key,
  eventId,
  offset,
  position: position(offset),
  version,
  value: Buffer.from(value),
});
const outcome = (eventId: string, bytes: string) => ({ eventId, position: position(0), bytes: Buffer.from(bytes) });
/** A separate stage for each test, so that tests share no memory. */
const fresh = (memory: Memory) => {
  const stage = `stage-${randomUUID()}`;
  const place = { stage, topic: "read", partition: 1 };
  return {
    place,
    load: (keys: readonly string[], eventIds: readonly string[] = []): Promise<LoadedMemory> =>
      memory.load({ ...place, keys, eventIds }),
    remembering: (over: Partial<MemoryWrite> = {}): MemoryWrite => ({
      ...place,
      mark: 1,
      changes: [],
      met: [],
      outcomes: [],
      forgets: [],
      ...over,
    }),
    remember: (over: Partial<MemoryWrite>) =>
      memory.remember([{ ...place, mark: 1, changes: [], met: [], outcomes: [], forgets: [], ...over }]),
  };
};
const recalled = ({ versions }: LoadedMemory, key: string) =>
  (versions.get(key) ?? []).map(({ eventId, offset, value }) => `${eventId}@${offset}=${Buffer.from(value)}`);

const behavesAsMemory = (memory: Memory): void => {
  test("a large value and a large outcome come back byte for byte", async () => {
    const { load, remember } = fresh(memory);
    const large = '{"format":2,"lines":[]}'.repeat(100);
    await remember({ changes: [change("k", "e1", 1, large, 1)], outcomes: [outcome("e1", `\x01${large}`)] });
    const loaded = await load(["k"], ["e1"]);
    expect(recalled(loaded, "k")).toEqual([`e1@1=${large}`]);
    const kept = loaded.outcomes.get("e1");
    if (kept !== undefined) expect(Buffer.from(kept).toString()).toBe(`\x01${large}`);
  });

  test("nothing is remembered of what was never seen", async () => {
    const { load } = fresh(memory);
    const loaded = await load(["k"], ["e"]);
    expect([loaded.versions.size, loaded.outcomes.size, loaded.truncated.size, loaded.mark]).toEqual([0, 0, 0, null]);
  });

  test("nothing at all can be asked for", async () => {
    const { load, remember } = fresh(memory);
    await remember({ mark: 7 });
    expect(await load([])).toMatchObject({ mark: 7 });
  });

  test("a mark stands by partition and never goes back", async () => {
    const { place, load, remember, remembering } = fresh(memory);
    await remember({ mark: 10 });
    await remember({ mark: 4 });
    await memory.remember([remembering({ partition: 2, mark: 5 }), remembering({ topic: "other", mark: 6 })]);
    expect((await load([])).mark).toBe(10);
    expect((await memory.load({ ...place, partition: 2, keys: [], eventIds: [] })).mark).toBe(5);
  });

  test("stages do not see each other's values", async () => {
    const [one, other] = [fresh(memory), fresh(memory)];
    await one.remember({ changes: [change("k", "a", 1, "A", 1)] });
    expect((await other.load(["k"])).versions.size).toBe(0);
  });

  test("values and names of any bytes come back as they were", async () => {
    const { load, remember } = fresh(memory);
    const value = Buffer.from(Array.from({ length: 256 }, (_, n) => n));
    const key = "7:dévïce|\"q'{}\\,:x";
    await remember({ changes: [{ ...change(key, "ü\"'{},\\", 2 ** 52 + 1, "", 1), value }] });
    const [version] = (await load([key])).versions.get(key)!;
    expect(version).toMatchObject({ eventId: "ü\"'{},\\", offset: 2 ** 52 + 1 });
    expect(Buffer.from(version!.value).equals(value)).toBe(true);
  });

  test("a batch of thousands is remembered in one go", async () => {
    const { load, remember } = fresh(memory);
    const keys = Array.from({ length: 3_000 }, (_, n) => `k${n}`);
    await remember({ changes: keys.map((key, n) => change(key, `e${n}`, n, `v${n}`, 1)) });
    const loaded = await load(keys);
    expect(loaded.versions.size).toBe(3_000);
    expect(recalled(loaded, "k2999")).toEqual(["e2999@2999=v2999"]);
  });
};

const behavesAsFast = (memory: Memory): void => {
  behavesAsMemory(memory);

  test("every version of a key is kept, oldest first, in whatever order they came", async () => {
    const { load, remember } = fresh(memory);
    await remember({ changes: [change("k", "late", 9, "L"), change("k", "early", 3, "E")] });
    await remember({ changes: [change("k", "mid", 5, "M")] });
    expect(recalled(await load(["k"]), "k")).toEqual(["early@3=E", "mid@5=M", "late@9=L"]);
  });

  test("the first version of an event stays, whatever comes later", async () => {
    const { load, remember } = fresh(memory);
    await remember({ changes: [change("k", "e", 3, "first")] });
    expect(await remember({ changes: [change("k", "e", 8, "second")] })).toBe("remembered");
    expect(recalled(await load(["k"]), "k")).toEqual(["e@3=first"]);
  });

  test("what is let go is gone, and the key says up to where", async () => {
    const { load, remember } = fresh(memory);
    await remember({ changes: [change("k", "a", 1, "A"), change("k", "b", 2, "B"), change("k", "c", 3, "C")] });
    await remember({ forgets: [{ key: "k", eventIds: ["a", "b"], before: 2 }] });
    const loaded = await load(["k", "other"]);
    expect(recalled(loaded, "k")).toEqual(["c@3=C"]);
    expect([...loaded.truncated]).toEqual([["k", 2]]);
  });
};

const behavesAsDurable = (memory: Memory): void => {
  behavesAsMemory(memory);

  test("the newest value of a key stands, with its version", async () => {
    const { load, remember } = fresh(memory);
    await remember({ changes: [change("k", "a", 1, "A", 1)], met: [{ key: "k", version: 0 }] });
    expect(await remember({ changes: [change("k", "b", 2, "B", 4)], met: [{ key: "k", version: 1 }] })).toBe(
      "remembered",
    );
    const loaded = await load(["k"]);
    expect(recalled(loaded, "k")).toEqual(["b@2=B"]);
    expect(loaded.versions.get("k")![0]!.version).toBe(4);
  });

  test("an outcome comes back byte for byte, by event, whatever its key", async () => {
    const { load, remember } = fresh(memory);
    await remember({ outcomes: [outcome("e", "\u0000\u0001done"), outcome("f", "")] });
    const { outcomes } = await load([], ["e", "f", "g"]);
    expect([...outcomes].map(([id, bytes]) => [id, String(bytes)]).sort()).toEqual([
      ["e", "\u0000\u0001done"],
      ["f", ""],
    ]);
  });

  test("an outcome says on which partition its event was decided, whichever asks", async () => {
    const { place, remember } = fresh(memory);
    const on = (partition: number) => ({ ...position(0), partition });
    await remember({ outcomes: [0, 7].map((n) => ({ ...outcome(`e${n}`, "done"), position: on(n) })) });
    const { partitions } = await memory.load({ ...place, partition: 3, keys: [], eventIds: ["e0", "e7", "none"] });
    expect(partitions).toEqual(
      new Map([
        ["e0", 0],
        ["e7", 7],
      ]),
    );
  });

  test("an outcome that has appeared since the load refuses the batch, and leaves nothing of it", async () => {
    const { load, remember } = fresh(memory);
    await remember({ outcomes: [outcome("e", "first")] });
    const late = {
      mark: 9,
      changes: [change("k", "e", 1, "B", 1)],
      outcomes: [outcome("d", "x"), outcome("e", "second")],
    };
    expect(await remember(late)).toBe("moved");
    const loaded = await load(["k"], ["d", "e"]);
    expect([loaded.versions.size, loaded.mark, [...loaded.outcomes.values()].map(String)]).toEqual([0, 1, ["first"]]);
  });

  test.each([
    ["that it changes", [change("k", "e", 1, "B", 2)]],
    ["that it only met", []],
  ])("a key %s and that has moved refuses the batch", async (_, changes) => {
    const { load, remember } = fresh(memory);
    await remember({ changes: [change("k", "a", 0, "A", 1)], met: [{ key: "k", version: 0 }] });
    for (const version of [0, 2])
      expect(await remember({ changes, met: [{ key: "k", version }], outcomes: [outcome("e", "x")] })).toBe("moved");
    const loaded = await load(["k"], ["e"]);
    expect([recalled(loaded, "k"), loaded.outcomes.size]).toEqual([["a@0=A"], 0]);
  });

  test("one stage that has moved holds back all stages of the batch", async () => {
    const [one, other] = [fresh(memory), fresh(memory)];
    await other.remember({ outcomes: [outcome("e", "first")] });
    const batch = [
      one.remembering({ changes: [change("k", "e", 1, "A", 1)] }),
      other.remembering({ outcomes: [outcome("e", "again")] }),
    ];
    expect(await memory.remember(batch)).toBe("moved");
    expect((await one.load(["k"])).versions.size).toBe(0);
  });

  test("of many owners that remember at once what they decided on one state, exactly one is heard", async () => {
    const { load, remember } = fresh(memory);
    for (let round = 0; round < 10; round++) {
      const verdicts = await Promise.all(
        Array.from({ length: 6 }, (_, owner) =>
          remember({
            mark: round + 1,
            met: [{ key: "k", version: round }],
            changes: [change("k", `e${round}`, round, `owner${owner}`, round + 1)],
            outcomes: [outcome(`e${round}`, `owner${owner}`)],
          }),
        ),
      );
      expect(verdicts.filter((verdict) => verdict === "remembered")).toHaveLength(1);
      const loaded = await load(["k"], [`e${round}`]);
      expect(recalled(loaded, "k")).toEqual([`e${round}@${round}=${loaded.outcomes.get(`e${round}`)}`]);
    }
  });

  test("owners that only share a key that both met do not both pass when one changes it", async () => {
    const { remember } = fresh(memory);
    for (let round = 0; round < 10; round++) {
      const key = `k${round}`;
      const verdicts = await Promise.all([
        remember({
          met: [{ key, version: 0 }],
          changes: [change(key, "a", 1, "A", 1)],
          outcomes: [outcome(`a${round}`, "")],
        }),
        remember({ met: [{ key, version: 0 }], changes: [], outcomes: [outcome(`b${round}`, "")] }),
        remember({
          met: [{ key, version: 0 }],
          changes: [change(key, "c", 1, "C", 1)],
          outcomes: [outcome(`c${round}`, "")],
        }),
      ]);
      expect([verdicts[0], verdicts[2]].filter((verdict) => verdict === "remembered")).toHaveLength(1);
    }
  });
};

describe("fast memory in this process", () => behavesAsFast(inMemory("fast")));
describe("fast memory in Redis", () => {
  behavesAsFast(redisMemory(redis, `test-${randomUUID()}`));

  test("what has been lost shows as no mark", async () => {
    const prefix = `test-${randomUUID()}`;
    const { load, remember } = fresh(redisMemory(redis, prefix));
    await remember({ mark: 5, changes: [change("k", "e", 1, "A")] });
    await redis.del(await redis.keys(`${prefix}*`));
    expect(await load(["k"])).toMatchObject({ mark: null });
  });

  test("memory that is emptied between loading and remembering sets no mark, and says that it is lost", async () => {
    const prefix = `test-${randomUUID()}`;
    const { load, remember } = fresh(redisMemory(redis, prefix));
    await load(["k"]);
    expect(await remember({ mark: 5, changes: [change("k", "e", 1, "A")] })).toBe("remembered");
    await load(["k"]);
    await redis.del(await redis.keys(`${prefix}*`));
    expect(await remember({ mark: 9, changes: [change("k", "f", 6, "B")] })).toBe("lost");
    expect(await load(["k"])).toMatchObject({ mark: null });
    // After everything is learnt again from the beginning, the memory is complete.
    expect(await remember({ mark: 9, changes: [change("k", "e", 1, "A"), change("k", "f", 6, "B")] })).toBe(
      "remembered",
    );
    expect(recalled(await load(["k"]), "k")).toEqual(["e@1=A", "f@6=B"]);
  });

  test("one that is forgotten while a worker sleeps takes no mark of the worker", async () => {
    const prefix = `test-${randomUUID()}`;
    const { place, load, remember } = fresh(redisMemory(redis, prefix));
    await load(["k"]);
    await remember({ mark: 5, changes: [change("k", "e", 1, "A")] });
    await load(["k"]);
    expect(await forget(redis, prefix, place.stage, () => undefined)).toBe(1);
    expect(await remember({ mark: 9, changes: [change("k", "f", 6, "B")] })).toBe("lost");
    expect(await marksOf(redis, prefix, place.stage, place.topic)).toEqual(new Map());
  });

  test("a key lives for ninety days after its last change", async () => {
    const prefix = `test-${randomUUID()}`;
    const { place, remember } = fresh(redisMemory(redis, prefix));
    await remember({ changes: [change("k", "e", 1, "A")] });
    expect(await redis.ttl(`${prefix}:${place.stage}:k`)).toBeGreaterThan(89 * 86_400);
  });
});
describe("durable memory in this process", () => behavesAsDurable(inMemory("durable")));
describe("durable memory in Postgres", () => {
  behavesAsDurable(postgresMemory(pool));

  test("an error in the middle leaves nothing, and the pool goes on", async () => {
    const { load, remember } = fresh(postgresMemory(pool));
    const bad = { ...change("k", "e", 1, "A", 0) };
    await expect(remember({ changes: [bad], outcomes: [outcome("e", "x")] })).rejects.toMatchObject({ code: "23514" });
    const loaded = await load(["k"], ["e"]);
    expect([loaded.versions.size, loaded.outcomes.size, loaded.mark]).toEqual([0, 0, null]);
  });

  test("plans that were kept since the tables were empty read no row but those of their keys", async () => {
    const database = await freshDatabase();
    try {
      const { place, load, remember } = fresh(postgresMemory(database.pool({ max: 1 })));
      const keysOf = (n: number): readonly string[] => Array.from({ length: 50 }, (_, i) => `${n}-${i}`);
      const round = async (n: number): Promise<void> => {
        const keys = keysOf(n);
        await load(keys, keys);
        const verdict = await remember({
          mark: n,
          met: keys.map((key) => ({ key, version: 0 })),
          changes: keys.map((key) => change(key, key, 1, "A", 1)),
          outcomes: keys.map((key) => outcome(key, "x")),
        });
        expect(verdict).toBe("remembered");
      };
      // From its sixth call on, a connection keeps a plan.
      for (let n = 1; n <= 8; n += 1) await round(n);
      await database.adminPool.query(
        `insert into memory_state select '${place.stage}', 'k' || n, 1, 'e', 't', 0, n, 'A'
          from generate_series(1, 20000) as n`,
      );
      const rowsRead = async (): Promise<number> => {
        await setTimeout(1_100);
        const { rows } = await database.adminPool.query<{ read: number }>(
          `select sum(seq_tup_read + idx_tup_fetch)::float8 as read from pg_stat_user_tables
            where relname like 'memory_%'`,
        );
        return rows[0]!.read;
      };
      const before = await rowsRead();
      for (let n = 100; n < 103; n += 1) await round(n);
      await load(keysOf(100), keysOf(100));
      expect((await rowsRead()) - before).toBeLessThan(1_000);
    } finally {
      await database.drop();
    }
  });
});
