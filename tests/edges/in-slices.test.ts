// Long work shares the event loop: a turn holds one slice of one piece of work, however many there
// are.
import { setImmediate as turn } from "node:timers/promises";
import { expect, test } from "vitest";
import { inSlices } from "../../infra/runtime/timing/in-slices.ts";

/** Each step takes 10 ms on its clock. */
const work = (name: string, steps: number, ran: string[]): Promise<string> => {
  let now = 0;
  const each = function* (): Generator<void, string> {
    for (let n = 0; n < steps; n += 1) {
      now += 10;
      ran.push(name);
      yield;
    }
    return name;
  };
  return inSlices(each(), () => now);
};

test("a turn of the loop holds one slice, of the work that waits longest", async () => {
  const ran: string[] = [];
  const all = ["a", "b", "c"].map((name) => work(name, 3, ran));
  const seen: string[] = [];
  for (let n = 0; n < 6; n += 1) {
    ran.length = 0;
    await turn();
    seen.push(ran.join(""));
  }
  expect(seen.join("")).toBe("abcabc");
  expect(seen.filter((turn) => turn.length > 1)).toEqual([]);
  expect(await Promise.all(all)).toEqual(["a", "b", "c"]);
});

test("a work that ends within its slice waits for no turn, though others are at work", async () => {
  const ran: string[] = [];
  const long = work("long", 50, ran);
  await turn();
  let isOver = false;
  void inSlices([][Symbol.iterator](), () => 0).then(() => (isOver = true));
  await Promise.resolve();
  await Promise.resolve();
  expect(isOver).toBe(true);
  await long;
});

test("a work that fails ends alone", async () => {
  const ran: string[] = [];
  const fails = inSlices(
    (function* (): Generator<void, void> {
      yield;
      throw new Error("broken");
    })(),
    (() => {
      let now = 0;
      return () => (now += 10);
    })(),
  );
  const [failed, done] = await Promise.allSettled([fails, work("a", 3, ran)]);
  expect(failed).toEqual({ status: "rejected", reason: new Error("broken") });
  expect(done).toEqual({ status: "fulfilled", value: "a" });
});
