// A reprocess waits until the index of claims has read what was in the log when it began, and says
// what to do when the index stands.
import { expect, test } from "vitest";
import { CommandRefused } from "../../infra/runtime/command-errors.ts";
import { untilIndexed } from "../../modules/money/reprocess/running/claim-index.ts";
import { topics } from "../../topics.ts";

const marks = [
  { partition: 0, low: 0, high: 10_000 },
  { partition: 1, low: 0, high: 0 },
  { partition: 2, low: 0, high: 4 },
];
/** The committed offsets at each question; the last ones stay. */
let rows = 10_004;
const wait = (...committed: readonly (readonly (readonly [number, number])[])[]) => {
  const shown: string[] = [];
  let asked = 0;
  const done = untilIndexed(
    {
      admin: {
        watermarks: async (topic) => (topic === topics.claims.name ? marks : []),
        committed: async (group) => {
          expect(group).toBe("tributary.claim-positions");
          return new Map(committed[Math.min(asked++, committed.length - 1)]);
        },
      },
      hosts: ({ name }) => ({ group: `tributary.${name}`, topic: topics.claims.name, nodes: [name], isRecorded: true }),
    },
    {
      patienceMs: 1_200,
      sizeOf: async () => rows,
      progress: (unit) => ({
        at: (count, total) => shown.push(`${count} of ${total} ${unit}`),
        note: () => undefined,
        done: () => shown.push("done"),
      }),
    },
  );
  return { done, shown };
};

test("an index that holds every claim is used at once", async () => {
  const { done, shown } = wait([
    [0, 10_002],
    [2, 4],
  ]);
  await done;
  expect(shown).toEqual([]);
});

test("one that reads on is waited for", async () => {
  const { done, shown } = wait(
    [],
    [[0, 7]],
    [[0, 10_000]],
    [
      [0, 10_000],
      [2, 4],
    ],
  );
  await done;
  expect(shown).toEqual([...[0, 7, 10_000].map((count) => `${count} of 10004 claims in the index`), "done"]);
});

test("one that stands is refused, with the cure", async () => {
  const { done } = wait([[0, 7]]);
  await expect(done).rejects.toThrow(CommandRefused);
  await expect(done).rejects.toThrow(/stands at 7 of 10004 claims.*claim-positions.*tributary groups/);
});

test("one that has lost rows since is refused, and one that never had some is not", async () => {
  const all = [
    [0, 10_000],
    [2, 4],
  ] as const;
  rows = 9_950;
  await wait(all).done;
  rows = 9_000;
  await expect(wait(all).done).rejects.toThrow(/9000 rows for 10004 claims.*tributary rewind claim-positions --to/);
});
