// Who may call what, live: every route with every kind of caller and every kind of row, in data
// whose texts and amounts name their owner. Nothing leaks, and a refused request changes nothing.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { routesOf } from "../../../apps/api/routes.ts";
import { type CanaryWorld, canaryWorld } from "../../support/canary-world.ts";
import {
  askAll,
  callsOf,
  described,
  type Expected,
  type Outcome,
  withListed,
  wrongMethodCalls,
} from "../../support/matrix.ts";

/** Opens nothing: a route is data and a function. */
const routes = await routesOf({} as never);
let world: CanaryWorld;
let outcomes: readonly Outcome[];
let before: string;
beforeAll(async () => {
  world = await withListed(await canaryWorld(), routes);
  before = await world.state();
  outcomes = await askAll(world, [
    ...routes.flatMap((route) => callsOf(route, world)),
    ...wrongMethodCalls(routes, world.rows),
  ]);
}, 300_000);
afterAll(() => world.close());

/** The health report may say that a store is slow to answer. */
const isBroken = ({ answer: { status }, path }: Outcome): boolean =>
  status === 429 || (status >= 500 && !(status === 503 && path === "/api/health"));
const of = (expected: Expected): readonly Outcome[] => outcomes.filter((one) => one.expected === expected);
/** The calls with an unexpected answer. */
const wrong = (expected: Expected, isRight: (one: Outcome) => boolean): readonly string[] =>
  of(expected)
    .filter((one) => !isRight(one))
    .map(described);

describe("every route by every caller at every row", () => {
  test("is asked, in 5,500 requests and more", () => {
    const asked = new Set(outcomes.map(({ route }) => route));
    expect(routes.filter((route) => !asked.has(route)).map(({ contract }) => contract.route)).toEqual([]);
    console.info(`${outcomes.length} requests at ${routes.length} routes`);
    expect(outcomes.length).toBeGreaterThanOrEqual(5_500);
  });
  test("leaks nothing", () => expect(outcomes.filter(({ leaks }) => leaks.length > 0).map(described)).toEqual([]));
  test("never fails", () => expect(outcomes.filter((one) => isBroken(one)).map(described)).toEqual([]));
  test("changes nothing that is refused, and nothing that is read", async () =>
    expect(await world.state()).toBe(before));
});

/** Good tokens of people who are no users here. */
const NO_ACCOUNT: ReadonlySet<string> = new Set(["of an unknown person", "of a person who was removed"]);

describe("who is let in", () => {
  test("no one without a token of a user", () =>
    expect(
      wrong(
        "unauthorized",
        ({ answer, caller, route }) => answer.status === (NO_ACCOUNT.has(caller) && route.auth === "user" ? 403 : 401),
      ),
    ).toEqual([]));
  test("no role but those of the row, and all of them hear the same", () => {
    expect(wrong("forbidden", ({ answer }) => answer.status === 403)).toEqual([]);
    expect(differing(of("forbidden"))).toEqual([]);
  });
  test("who sees the row", () => {
    expect(wrong("shown", ({ answer }) => answer.status === 200)).toEqual([]);
    expect(wrong("faulty", ({ answer }) => answer.status === 400)).toEqual([]);
  });
  test("no one by a method that the path does not take, and it names those that it takes", () => {
    expect(of("wrong method").length).toBeGreaterThan(routes.length);
    expect(
      wrong(
        "wrong method",
        ({ answer, route }) =>
          answer.status === 405 && answer.headers.get("allow")?.split(", ").includes(route.method) === true,
      ),
    ).toEqual([]);
  });
  test("HEAD is answered without a body", () =>
    expect(
      outcomes.filter(({ asked, answer }) => asked.method === "HEAD" && answer.text !== "").map(described),
    ).toEqual([]));
  test("everyone at what is public", () =>
    expect(wrong("public", ({ answer }) => [200, 400, 404, 503].includes(answer.status))).toEqual([]));
});

/** Requests whose answers should be equal and are not. */
const differing = (some: readonly Outcome[]): readonly string[] => {
  const groups = new Map<string, Set<string>>();
  for (const { route, caller, variant, answer, text } of some) {
    const name = `${route.contract.route} ${caller} ${variant}`;
    const forms = groups.get(name) ?? new Set();
    groups.set(name, forms.add(`${answer.status} ${[...answer.headers.keys()].join()} ${text}`));
  }
  return [...groups].filter(([, forms]) => forms.size > 1).map(([name, forms]) => `${name}: ${[...forms].join("\n")}`);
};

describe("a row of another tenant", () => {
  test("answers byte for byte like an unknown one", () => {
    expect(of("unknown").filter(({ owner }) => owner !== "unknown").length).toBeGreaterThan(100);
    expect(differing(of("unknown"))).toEqual([]);
  });
  test("is nothing that could be read or changed", () =>
    expect(
      wrong("unknown", ({ answer, route }) =>
        // A filter by a missing thing finds nothing.
        route.method === "GET" ? [200, 400, 404].includes(answer.status) : answer.status >= 400,
      ),
    ).toEqual([]));
  test("answers in the same time", () => {
    const groups = new Map<string, { hidden: number[]; unknown: number[] }>();
    for (const { route, caller, variant, owner, ms } of of("unknown")) {
      const name = `${route.contract.route} ${caller} ${variant}`;
      const group = groups.get(name) ?? { hidden: [], unknown: [] };
      group[owner === "unknown" ? "unknown" : "hidden"].push(ms);
      groups.set(name, group);
    }
    const mean = (times: readonly number[]): number => times.reduce((sum, ms) => sum + ms, 0) / times.length;
    const pairs = [...groups.values()].filter(({ hidden, unknown }) => hidden.length > 0 && unknown.length > 0);
    const apart = pairs.map(({ hidden, unknown }) => mean(hidden) - mean(unknown)).sort((a, b) => a - b);
    expect(pairs.length).toBeGreaterThan(100);
    expect(Math.abs(apart[Math.floor(apart.length / 2)]!)).toBeLessThan(mean(pairs.flatMap((one) => one.unknown)) / 4);
  });
});
