// A copy of the log: stored, then committed, then counted; then the partition rests while the log
// gathers. A store that is away holds up nothing but the copy.
import { expect, test } from "vitest";
import { groupsOf } from "../../modules/groups/hosting.ts";
import type { AnyCopy } from "../../stream/flow.ts";
import type { Control, CopyPorts, FetchedBatch } from "../../stream/messages.ts";
import { copyRunner } from "../../stream/sink/copy-runner.ts";
import { pipeline } from "../../topology.ts";
import { toys } from "../support/toy.ts";

const copy: AnyCopy = { is: "sink", name: "archive", from: toys.raw, into: { name: "files", store: "objects" } };
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

const running = (keep: CopyPorts["keep"], over: Partial<Control> = {}, stops: CopyPorts["stops"] = async () => 3) => {
  const effects: string[] = [];
  const ports: CopyPorts = {
    keep: async (batch, heartbeat) => {
      effects.push(`keep ${batch.messages[0]!.offset}+${batch.messages.length}`);
      return keep(batch, heartbeat);
    },
    retry: (_, step) => step(),
    stops,
    log: {
      info: (line) => effects.push(line),
      warn: (line) => effects.push(line),
      error: (line) => effects.push(line),
    },
    countWrite: ({ sink, table, rows }) => effects.push(`count ${rows} of ${sink} in ${table}`),
  };
  const control: Control = {
    commit: async (offset) => void effects.push(`commit ${offset}`),
    heartbeat: async () => undefined,
    isCurrent: () => true,
    seek: () => undefined,
    rest: (ms) => void effects.push(`rest ${ms}`),
    ...over,
  };
  const process = copyRunner(copy, ports, 55_000);
  return { effects, give: (batch: FetchedBatch) => process(batch, control) };
};

test("a batch is stored, committed and counted; at the end of the log its partition rests", async () => {
  const { effects, give } = running(async () => 15);
  await give(batchOf(5, 10, 15));
  expect(effects).toEqual(["keep 5+10", "commit 15", "count 10 of archive in files", "rest 55000"]);
});

test("while it is behind, the next batch comes at once", async () => {
  const { effects, give } = running(async () => 15);
  await give(batchOf(5, 10, 400));
  expect(effects).toEqual(["keep 5+10", "commit 15", "count 10 of archive in files"]);
});

test(
  "what is stored beyond the batch is committed up to the batch alone, and what is not stored is " + "not committed",
  async () => {
    const beyond = running(async () => 90);
    await beyond.give(batchOf(5, 10, 400));
    expect(beyond.effects).toEqual(["keep 5+10", "commit 15", "count 10 of archive in files"]);
    const short = running(async () => 9);
    await short.give(batchOf(5, 10, 15));
    expect(short.effects).toEqual(["keep 5+10", "commit 9", "count 4 of archive in files"]);
    const none = running(async () => 5);
    await none.give(batchOf(5, 10, 15));
    expect(none.effects).toEqual(["keep 5+10", "rest 5000"]);
  },
);

test(
  "a store that refuses or is away moves no offset, ends no process, and calls an operator the " + "third time",
  async () => {
    const { effects, give } = running(async () => {
      throw new Error("access denied");
    });
    await give(batchOf(5, 10, 15));
    expect(effects).toEqual(["keep 5+10", "stage.stuck", "rest 5000"]);
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
        return batch.messages.at(-1)!.offset + 1;
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
  const lost = running(async () => 15, { isCurrent: () => false });
  await lost.give(batchOf(5, 10, 15));
  expect(lost.effects).toEqual(["keep 5+10"]);
  const gone = new Error("the group has moved on");
  const asked = running(async (_, heartbeat) => heartbeat().then(() => 15), {
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
