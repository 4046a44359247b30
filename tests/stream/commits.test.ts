// Commits that are requested together become one request, and all of them get its answer.
import fc from "fast-check";
import { expect, test } from "vitest";
import { Commits } from "../../infra/kafka/commits.ts";

type Asked = readonly [topic: string, partition: number, next: number];

const recording = () => {
  const requests: Parameters<Parameters<Commits["commit"]>[2]>[0][] = [];
  return { requests, send: async (offsets: (typeof requests)[number]) => void requests.push(offsets) };
};
const flat = (requests: ReturnType<typeof recording>["requests"]): Asked[] =>
  requests.flatMap(({ topics }) =>
    topics.flatMap(({ topic, partitions }) =>
      partitions.map(({ partition, offset }): Asked => [topic, partition, Number(offset)]),
    ),
  );
const ask = (commits: Commits, [topic, partition, next]: Asked, send: Parameters<Commits["commit"]>[2]) =>
  commits.commit({ topic, partition }, next, send);

test("what is asked for together is one request with the highest offset of each partition", () =>
  fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.constantFrom("a", "b"), fc.nat(11), fc.nat(1_000)), { minLength: 1 }),
      async (asked) => {
        const { requests, send } = recording();
        const commits = new Commits();
        await Promise.all(asked.map((one) => ask(commits, one, send)));
        const highest = new Map<string, Asked>();
        for (const one of asked) {
          const place = `${one[0]}-${one[1]}`;
          if (one[2] >= (highest.get(place)?.[2] ?? 0)) highest.set(place, one);
        }
        expect(requests).toHaveLength(1);
        expect(flat(requests).sort()).toEqual([...highest.values()].sort());
      },
    ),
  ));

test("what is asked for after the answer is a request of its own", async () => {
  const { requests, send } = recording();
  const commits = new Commits();
  await ask(commits, ["a", 0, 5], send);
  await ask(commits, ["a", 0, 6], send);
  expect(flat(requests)).toEqual([
    ["a", 0, 5],
    ["a", 0, 6],
  ]);
});

test("a refusal is heard by each, and the next request goes out", async () => {
  const { requests, send } = recording();
  const commits = new Commits();
  const why = new Error("the group has moved on");
  const refused = ["a", "b"].map((topic) => ask(commits, [topic, 0, 5], () => Promise.reject(why)));
  expect((await Promise.allSettled(refused)).map((one) => one.status === "rejected" && one.reason)).toEqual([why, why]);
  await ask(commits, ["a", 0, 5], send);
  expect(flat(requests)).toEqual([["a", 0, 5]]);
});
