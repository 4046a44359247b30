// The journal and the schedule: intended requests are known after any crash, and a seed always
// draws the same cycles.
import { appendFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { randomFrom } from "../../infra/runtime/random.ts";
import { openGenerator, tenantsOf } from "../../tools/chaos/load/generator.ts";
import { openJournal } from "../../tools/chaos/load/journal.ts";
import { faults, planFor, planOf } from "../../tools/chaos/schedule.ts";

const folder = mkdtempSync(join(tmpdir(), "tributary-journal-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("an event is ok once any request with it was answered, and unknown while one has no answer", () => {
  const file = join(folder, "a.journal");
  const journal = openJournal(file);
  journal.intend("1", "body", ["a", "b", "c"]);
  journal.end("1", { outcome: "unknown" });
  journal.intend("2", "body", ["a", "d"]);
  journal.end("2", { outcome: "ok", refused: ["d"] });
  journal.intend("3", "body", ["b"]);
  journal.end("3", { outcome: "fail" });
  journal.intend("4", "body", ["d", "e"]);
  const outcomes = { a: "ok", b: "unknown", c: "unknown", d: "unknown", e: "unknown" };
  expect(Object.fromEntries(journal.outcomes())).toEqual(outcomes);
  journal.close();
  // Read again after a crash.
  const again = openJournal(file);
  expect(Object.fromEntries(again.outcomes())).toEqual(outcomes);
  again.close();
});

test("a journal goes on where another one ended", () => {
  const file = join(folder, "b.journal");
  appendFileSync(file, `${JSON.stringify({ op: "1", ids: ["x"] })}\n`);
  const journal = openJournal(file);
  journal.end("1", { outcome: "ok", said: { submitted: 1, accepted: 1, rejected: 0, errors: 0 } });
  expect([...journal.outcomes()]).toEqual([["x", "ok"]]);
  expect(journal.answers()).toHaveLength(1);
  journal.close();
});

const everything = { proxies: true, folders: true, isOurs: true, isCluster: true };

test("a seed draws the same faults for its seventh cycle, whether or not the six before it ran", () => {
  const drawn = (seed: number, n: number) => {
    const { faults: list, gapsMs, warmUpMs, random } = planOf(seed, n, everything);
    return { names: list.map(({ name }) => name), gapsMs, warmUpMs, next: [random(), random()] };
  };
  for (let n = 1; n < 7; n += 1) drawn(42, n);
  expect(drawn(42, 7)).toEqual(drawn(42, 7));
  expect(new Set(Array.from({ length: 50 }, (_, n) => drawn(42, n + 1).names.join())).size).toBeGreaterThan(40);
});

test("every fault is drawn sooner or later, and none that cannot be made here", () => {
  const drawn = new Set(
    Array.from({ length: 2_000 }, (_, n) => planOf(1, n, everything).faults.map(({ name }) => name)).flat(),
  );
  expect(faults.filter(({ name }) => !drawn.has(name)).map(({ name }) => name)).toEqual([]);
  const poor = { proxies: false, folders: false, isOurs: false };
  const possible = Array.from({ length: 300 }, (_, n) => planOf(1, n, poor).faults).flat();
  expect(possible.filter(({ needs, isAlone }) => needs !== undefined || isAlone === true)).toEqual([]);
  expect(() => planFor(["no such fault"], 1)).toThrow("there is no fault no such fault");
});

test("what one client is paid for is a multiple of its prime, and the same seed makes the same events", () => {
  const demo = {
    clients: [
      { id: 1, slug: "aurora-music" },
      { id: 2, slug: "casa-verde" },
    ],
    links: [{ code: "aurora-radio", link_id: 5, client_id: 1 }],
  };
  const tenants = tenantsOf(demo);
  const made = () => {
    const generator = openGenerator(randomFrom(3), "x".repeat(40), () => 1_800_000_000_000);
    generator.begin("t");
    return { events: tenants.flatMap((tenant) => generator.next(tenant, 300)), generator };
  };
  const { events, generator } = made();
  expect(made().events).toEqual(events);
  for (const { tenant, cents } of generator.sales.values()) expect(cents % BigInt(tenant.prime)).toBe(0n);
  expect(generator.sales.size).toBeGreaterThan(50);
  expect(generator.refunded.size).toBeGreaterThan(0);
  // Some ids are repeated with the same content.
  expect(new Set(events.map(({ event_id: id }) => id)).size).toBeLessThan(events.length);
});
