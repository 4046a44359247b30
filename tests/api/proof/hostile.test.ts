// Requests that break servers, at every route: they are refused with the place of the fault,
// nothing of them is done, and no answer shows the inside of the server.
import { afterAll, beforeAll, expect, test } from "vitest";
import { routesOf } from "../../../apps/api/routes.ts";
import type { Answer } from "../../support/ask.ts";
import { type CanaryWorld, canaryWorld } from "../../support/canary-world.ts";
import { hintsOf, pathOfNone } from "../../support/from-contract.ts";
import { type Hostile, hostileAt } from "../../support/hostile.ts";
import { unknownRows } from "../../support/matrix.ts";

const routes = (await routesOf({} as never)).filter(({ auth }) => auth === "user");
const AT_ONCE = 6;
let world: CanaryWorld;
let before: string;
let answers: readonly (readonly [route: string, hostile: Hostile, answer: Answer])[];
beforeAll(async () => {
  world = await canaryWorld({}, { admins: 20 });
  before = await world.state();
  const none = unknownRows(world.rows.a);
  const all = routes.flatMap((route) =>
    hostileAt(route, pathOfNone(route, none), hintsOf(none)).map((hostile) => [route, hostile] as const),
  );
  const tokens = world.tokens.admin!;
  const found: [string, Hostile, Answer][] = [];
  let next = 0;
  const work = async (): Promise<void> => {
    for (let n = next++; n < all.length; n = next++) {
      const [route, hostile] = all[n]!;
      const { path, body, headers = {} } = hostile;
      const asked = { method: route.method, token: tokens[n % tokens.length], headers };
      const answer = await world.ask(path, { ...asked, ...(body !== undefined && { body }) });
      found.push([route.contract.route, hostile, answer]);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  answers = found;
  console.info(`${answers.length} hostile requests at ${routes.length} routes`);
}, 240_000);
afterAll(() => world.close());

const wrong = (isRight: (hostile: Hostile, answer: Answer) => boolean): readonly string[] =>
  answers
    .filter(([, hostile, answer]) => !isRight(hostile, answer))
    .map(([route, { what }, { status, text }]) => `${route}: ${what}: ${status} ${text.slice(0, 300)}`);

test("nothing breaks, whatever is sent", () =>
  expect(wrong((_, { status }) => status < 500 && status !== 429)).toEqual([]));

test("what a contract does not take is refused", () =>
  expect(wrong(({ expected }, { status }) => expected === "any" || expected.includes(status))).toEqual([]));

test("a fault names its place", () =>
  expect(
    wrong(
      ({ pointer, expected }, { body, status }) =>
        pointer === undefined ||
        expected === "any" ||
        status !== 400 ||
        body.errors?.some(
          (one: { pointer: string }) => one.pointer === pointer || one.pointer.startsWith(`${pointer}/`),
        ),
    ),
  ).toEqual([]));

test("every refusal is a problem, and says nothing of the inside", () => {
  const inside = /node_modules|\.[tj]s:\d+|syntax error at|relation "|column "|postgres|clickhouse|zod/i;
  expect(
    wrong(
      (_, { status, headers, body, text }) =>
        status < 400 ||
        (headers.get("content-type")?.startsWith("application/problem+json") === true &&
          body.status === status &&
          !inside.test(text)),
    ),
  ).toEqual([]);
});

test("nothing of it is done", async () => expect(await world.state()).toBe(before));
