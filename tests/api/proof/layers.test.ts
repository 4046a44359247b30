// Law T4: row-level security and the conditions of the queries each separate tenants. The test
// removes the one, then the other, then both: only then do rows leak.
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { routesOf } from "../../../apps/api/routes.ts";
import { type CanaryWorld, canaryWorld } from "../../support/canary-world.ts";
import { askAll, type Call, callsOf, described, type Outcome, withListed } from "../../support/matrix.ts";

const routes = await routesOf({} as never);
let world: CanaryWorld;
/** Calls of users who see one tenant's rows, or fewer. */
let calls: readonly Call[];
beforeAll(async () => {
  world = await withListed(await canaryWorld(), routes);
  calls = routes
    .flatMap((route) => callsOf(route, world))
    .filter(({ person, expected }) => person !== undefined && expected !== "forbidden" && expected !== "faulty")
    .filter(({ person, variant }) => person!.rows.length < 3 && !isBesidesRows(variant));
}, 180_000);
afterAll(() => world.close());

/**
 * A request without a body in its answer, or for rows that another request asks for in another
 * order: `matrix.test.ts` sends these too.
 */
const isBesidesRows = (variant: string): boolean => variant === "head" || variant.startsWith("sort=");

/** The condition with the clients of the reader. */
const CONDITION = /(?: = any ?\(| && )(\$\d+)::int\[\]\)?/g;
/**
 * Runs `work` while no statement of this process has such a condition. Returns how many had one.
 */
const withoutConditions = async <T>(work: () => Promise<T>): Promise<readonly [T, number]> => {
  const { query } = pg.Client.prototype;
  let changed = 0;
  const open = (text: string): string =>
    text.replace(CONDITION, (all, value) => {
      changed += 1;
      return ` is not null and ${value}::int[] is not null${all.startsWith(" &&") && all.endsWith(")") ? ")" : ""}`;
    });
  pg.Client.prototype.query = function (this: pg.Client, first: any, ...more: any[]) {
    if (typeof first === "string") return (query as any).call(this, open(first), ...more);
    if (typeof first?.text === "string")
      return (query as any).call(this, { ...first, text: open(first.text) }, ...more);
    return (query as any).call(this, first, ...more);
  } as typeof query;
  try {
    return [await work(), changed];
  } finally {
    pg.Client.prototype.query = query;
  }
};
const setRowSecurity = async (isOn: boolean): Promise<number> => {
  const { rows } = await world.database.adminPool.query<{ name: string }>(
    "select relname as name from pg_class c where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') " +
      "and (relrowsecurity or relforcerowsecurity or $1) and exists (select from pg_policy where polrelid = c.oid)",
    [isOn],
  );
  for (const { name } of rows)
    await world.database.adminPool.query(
      isOn
        ? `alter table "${name}" enable row level security, force row level security`
        : `alter table "${name}" disable row level security, no force row level security`,
    );
  return rows.length;
};

/** Outcomes that show or change rows of another tenant. */
const bled = (outcomes: readonly Outcome[]): readonly string[] =>
  outcomes
    .filter(
      ({ leaks, expected, route, answer }) =>
        leaks.length > 0 || (expected === "unknown" && route.method !== "GET" && answer.status < 400),
    )
    .map(described);

test("without the conditions of the queries row-level security keeps tenants apart", async () => {
  const [outcomes, changed] = await withoutConditions(() => askAll(world, calls));
  expect(changed).toBeGreaterThan(200);
  expect(outcomes.filter(({ answer }) => answer.status === 200).length).toBeGreaterThan(100);
  expect(bled(outcomes)).toEqual([]);
});

test("without row-level security the conditions of the queries keep tenants apart", async () => {
  expect(await setRowSecurity(false)).toBeGreaterThan(20);
  const outcomes = await askAll(world, calls);
  expect(outcomes.filter(({ answer }) => answer.status === 200).length).toBeGreaterThan(100);
  expect(bled(outcomes)).toEqual([]);
});

test("without both everything would be seen, and this test sees it", async () => {
  const reads = calls.filter(({ route }) => route.method === "GET");
  const [outcomes] = await withoutConditions(() => askAll(world, reads));
  expect(bled(outcomes).length).toBeGreaterThan(50);
  await setRowSecurity(true);
});
