// A user's dear requests run two at a time.
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { openTurns } from "../../infra/http/turns.ts";

const settings = { atOnce: 2, mostWaiting: 3, patienceMs: 60, says: "wait for your answers" };

test("two run, the others wait in their order, and one key does not wait for another", async () => {
  const turn = openTurns({ ...settings, patienceMs: 10_000 });
  const began: string[] = [];
  const leaves = await Promise.all([turn("a"), turn("a")]);
  const waiting = ["third", "fourth"].map(async (name) => {
    const leave = await turn("a");
    began.push(name);
    return leave;
  });
  await turn("b");
  await sleep(5);
  expect(began).toEqual([]);
  leaves[0]!();
  // A second call of the same one lets no further one in.
  leaves[0]!();
  await sleep(5);
  expect(began).toEqual(["third"]);
  leaves[1]!();
  await Promise.all(waiting);
  expect(began).toEqual(["third", "fourth"]);
});

test("one that would wait behind too many, or has waited too long, is refused with 429", async () => {
  const turn = openTurns(settings);
  const [first, second] = [await turn("a"), await turn("a")];
  const waiting = [1, 2, 3].map(() => turn("a").catch((problem) => problem.status));
  await expect(turn("a")).rejects.toMatchObject({ status: 429, message: settings.says });
  expect(await Promise.all(waiting)).toEqual([429, 429, 429]);
  // Those that gave up hold no turn.
  first();
  second();
  const [third, fourth] = [await turn("a"), await turn("a")];
  expect([typeof third, typeof fourth]).toEqual(["function", "function"]);
});
