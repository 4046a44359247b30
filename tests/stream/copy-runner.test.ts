// A copy of the log is stored, then committed, then counted; then the partition rests until its
// next turn. A store that is away only delays the copy.
import { expect, test } from "vitest";
import { groupsOf } from "../../modules/log/groups/hosting.ts";
import type { AnyCopy } from "../../stream/flow.ts";
import type { Control, FetchedBatch } from "../../stream/messages.ts";
import type { CopyPorts } from "../../stream/ports.ts";
import { copyRunner } from "../../stream/sink/copy-runner.ts";
import { pipeline } from "../../topology.ts";
import { toys } from "../support/toy.ts";

const copy: AnyCopy = {
  is: "sink",
  name: "archive",
  from: { ...toys.raw, partitions: 5 },
  into: { name: "files", store: "objects" },
};
/** Five partitions share a round of 55 s. */
const SHARE_MS = 11_000;
/** The turn of partition 2, to which the batches belong. */
const TURN = 55_000 * 30_000_000 + 2 * SHARE_MS;
const batchOf = (first: number, count: number, highWatermark: number): FetchedBatch => ({
  topic: "toy.raw",
  partition: 2,
  messages: Array.from({ length: count }, (_, n) => ({
    offset: first + n,
    key: null,
    value: null,
    headers: {},
    appendedAt: 1_000 + n,
  })),
  highWatermark,
});

type Kept = Awaited<ReturnType<CopyPorts["keep"]>>;
/** Stores everything below `stored`; the copy continues from there. */
const upTo =
  (stored: number, next = stored) =>
  async (): Promise<Kept> => ({ stored, next });
const whole = async ({ messages }: FetchedBatch): Promise<Kept> => upTo(messages.at(-1)!.offset + 1)();

const running = (keep: CopyPorts["keep"], over: Partial<Control> = {}, stops: CopyPorts["stops"] = async () => 3) => {
  const effects: string[] = [];
  const clock = { now: TURN };
  const ports: CopyPorts = {
    keep: async (batch, until, heartbeat) => {
      effects.push(`keep ${batch.messages[0]!.offset}+${batch.messages.length} of ${until}`);
      return keep(batch, until, heartbeat);
    },
    retry: (_, step) => step(),
    stops,
    log: {
      info: (line) => effects.push(line),
      warn: (line) => effects.push(line),
      error: (line) => effects.push(line),
    },
    countWrite: ({ sink, table, rows, receivedAt }) =>
      effects.push(`count ${rows} of ${sink} in ${table}, from ${receivedAt[0]} on`),
  };
  const control: Control = {
    commit: async (offset) => void effects.push(`commit ${offset}`),
    heartbeat: async () => undefined,
    isCurrent: () => true,
    seek: () => undefined,
    readOn: (offset) => void effects.push(`read on at ${offset}`),
    rest: (ms) => void effects.push(`rest ${ms}`),
    ...over,
  };
  const process = copyRunner(copy, ports, () => clock.now);
  return { effects, clock, give: (batch: FetchedBatch) => process(batch, control) };
};

test("a batch is stored, committed and counted; then its partition rests until its next turn", async () => {
  const { effects, give, clock } = running(whole);
  await give(batchOf(5, 10, 15));
  const stored = ["commit 15", "count 10 of archive in files, from 1000 on", "read on at 15"];
  expect(effects).toEqual(["keep 5+10 of 15", ...stored, "rest 55000"]);
  // A turn that began late ends when the next one is due.
  effects.length = 0;
  clock.now = TURN + 55_000 + 700;
  await give(batchOf(15, 1, 16));
  expect(effects.at(-1)).toBe("rest 54300");
  // A turn took longer than the round, so the next one begins at once.
  effects.length = 0;
  const slow = running(async (batch) => {
    slow.clock.now += 60_000;
    return whole(batch);
  });
  await slow.give(batchOf(16, 1, 17));
  expect(slow.effects.at(-1)).toBe("read on at 17");
});

test("the turns of all partitions lie apart by equal times, and are the same in every process", async () => {
  const turns = [];
  for (const partition of [0, 1, 2, 3, 4]) {
    const { effects, give, clock } = running(whole);
    clock.now = 55_000 * 30_000_000 - 20_000;
    await give({ ...batchOf(0, 1, 1), partition });
    turns.push((clock.now + Number(effects.at(-1)!.split(" ")[1])) % 55_000);
  }
  expect(turns).toEqual([0, SHARE_MS, 2 * SHARE_MS, 3 * SHARE_MS, 4 * SHARE_MS]);
});

test("what waits comes in pieces that fill the share of the partition, and is committed with its file", async () => {
  let stored = 100;
  const { effects, give, clock } = running(async ({ messages }, until) => {
    const next = messages.at(-1)!.offset + 1;
    if (next >= until) stored = next;
    return { stored, next };
  });
  await give(batchOf(100, 10, 140));
  expect(effects).toEqual(["keep 100+10 of 140", "read on at 110", `rest ${SHARE_MS / 4}`]);
  effects.length = 0;
  // The copy is behind, so the next piece comes at once. Newer messages belong to the next round.
  clock.now += SHARE_MS;
  await give(batchOf(110, 10, 400));
  expect(effects).toEqual(["keep 110+10 of 140", "read on at 120"]);
  effects.length = 0;
  await give(batchOf(120, 20, 400));
  expect(effects).toEqual([
    "keep 120+20 of 140",
    "commit 140",
    "count 40 of archive in files, from 1000 on",
    "read on at 140",
    `rest ${55_000 - SHARE_MS}`,
  ]);
});

test("a group that was joined again reads on from what is committed, in a round of its own", async () => {
  const { effects, give } = running(async ({ messages }) => ({ stored: 0, next: messages.at(-1)!.offset + 1 }));
  await give(batchOf(100, 10, 140));
  await give(batchOf(100, 10, 200));
  expect(effects.filter((effect) => effect.startsWith("keep"))).toEqual(["keep 100+10 of 140", "keep 100+10 of 200"]);
});

test(
  "what is stored beyond the batch is committed up to the batch alone, and what is not stored is " + "not committed",
  async () => {
    const counted = (rows: number) => `count ${rows} of archive in files, from 1000 on`;
    const beyond = running(upTo(90));
    await beyond.give(batchOf(5, 10, 400));
    expect(beyond.effects).toEqual(["keep 5+10 of 400", "commit 15", counted(10), "read on at 15", "rest 278"]);
    const short = running(upTo(9));
    await short.give(batchOf(5, 10, 400));
    expect(short.effects.slice(1, -1)).toEqual(["commit 9", counted(4), "read on at 9"]);
    // A file that another member announced is not complete yet.
    const none = running(upTo(5, 15));
    await none.give(batchOf(5, 10, 15));
    expect(none.effects).toEqual(["keep 5+10 of 15", "read on at 15", "rest 5000"]);
  },
);

test(
  "a store that refuses or is away moves no offset, ends no process, and calls an operator the " + "third time",
  async () => {
    let isAway = false;
    const { effects, give } = running(async ({ messages }) => {
      if (isAway) throw new Error("access denied");
      return { stored: 0, next: messages.at(-1)!.offset + 1 };
    });
    await give(batchOf(5, 10, 25));
    isAway = true;
    effects.length = 0;
    // The piece that was kept before is read again.
    await give(batchOf(15, 10, 25));
    expect(effects).toEqual(["keep 15+10 of 25", "read on at 5", "stage.stuck", "rest 5000"]);
  },
);

test(
  "an outage of the store is logged when it begins, when it lasts, and when it ends, for all " + "partitions once",
  async () => {
    let isAway = true;
    const stops = new Map<string, number>();
    const { effects, give } = running(
      async (batch) => {
        if (isAway) throw new Error("the store is away");
        return whole(batch);
      },
      {},
      async (_, { partition, offset }) => {
        const place = `${partition}@${offset}`;
        stops.set(place, (stops.get(place) ?? 0) + 1);
        return stops.get(place)!;
      },
    );
    const round = async () => {
      for (const partition of [0, 1, 2, 3]) await give({ ...batchOf(5, 10, 400), partition });
    };
    for (let n = 0; n < 20; n += 1) await round();
    const lines = () => effects.filter((effect) => /^(stage|copy)\./.test(effect));
    expect(lines()).toEqual(["stage.stopped", "stage.stuck"]);
    const rests = effects.filter((effect) => effect.startsWith("rest")).map((effect) => Number(effect.split(" ")[1]));
    expect([...new Set(rests)]).toEqual([5_000, 10_000, 20_000, 30_000]);
    isAway = false;
    await round();
    expect(lines()).toEqual(["stage.stopped", "stage.stuck", "copy.recovered"]);
    isAway = true;
    stops.clear();
    await round();
    expect(lines().slice(3)).toEqual(["stage.stopped"]);
  },
);

test("a partition that was lost meanwhile is not committed", async () => {
  const lost = running(upTo(15), { isCurrent: () => false });
  await lost.give(batchOf(5, 10, 15));
  expect(lost.effects).toEqual(["keep 5+10 of 15"]);
  const gone = new Error("the group has moved on");
  const asked = running((_, __, heartbeat) => heartbeat().then(upTo(15)), {
    heartbeat: () => Promise.reject(gone),
    isCurrent: () => false,
  });
  await expect(asked.give(batchOf(5, 10, 15))).rejects.toBe(gone);
});

test("a copy is a group of its own, which shares its reading with no sink", () => {
  expect(groupsOf(pipeline, ["archive"])).toMatchObject([
    { is: "copy", name: "tributary.archive", reads: { name: "events.raw" } },
  ]);
  expect(() => groupsOf(pipeline, ["archive,analytics"])).toThrow("put a space between");
});
