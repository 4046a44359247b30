// Law T3 at the routes: 2,000 requests of two tenants alternate on two connections, while requests
// are refused, break off, time out and lose their session. No answer holds rows of the other
// tenant.
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { routesOf } from "../../../apps/api/routes.ts";
import { apiApp, type ServerPorts } from "../../../apps/api/server.ts";
import { sql } from "../../../infra/postgres/sql.ts";
import { openLog } from "../../../infra/runtime/log.ts";
import { asker } from "../../support/ask.ts";
import { type CanaryWorld, canaryWorld, leaksIn, type Person, people } from "../../support/canary-world.ts";

const REQUESTS = 2_000;
const AT_ONCE = 8;
const TIMEOUT_MS = 300;
let world: CanaryWorld;
let pool: pg.Pool;
let server: Server;
const url = (): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
beforeAll(async () => {
  world = await canaryWorld();
  pool = world.database.pool({ max: 2, name: "two-connections", timeoutMs: TIMEOUT_MS });
  const { rows } = await world.database.adminPool.query(
    "select user_id, email, name, role, partner_id, client_ids, locale from users",
  );
  const cursorKeys = [Buffer.alloc(32)];
  const ports = {
    // The bearer token of a request is the name of a person.
    identify: async ({ headers }: { headers: { authorization: string } }) =>
      rows.find(({ name }) => name === `${headers.authorization.slice("Bearer ".length)}-0`),
    limit: async () => ({ isAllowed: true, remaining: 1, resetMs: 0 }),
    planOf: () => undefined,
    count: () => undefined,
    trustedProxies: [],
    portal: undefined,
    log: openLog({ app: "api", level: "silent" }),
    ...{ pool, cursorKeys },
  };
  const routes = await routesOf({ pool, cursorKeys, version: "test" } as never);
  server = createServer(apiApp(routes, ports as unknown as ServerPorts)).listen(0, "127.0.0.1");
  await once(server, "listening");
}, 180_000);
afterAll(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await world.close();
});

interface Step {
  readonly method?: string;
  readonly path: string;
  readonly body?: unknown;
}
/** The requests of a person in turn: some are answered, some are refused early, some late. */
const stepsOf = ({ rows: [own], role }: Person): readonly Step[] => {
  const { client, partner, campaign } = world.rows[own!];
  const foreign = world.rows[own === "b" ? "a" : "b"];
  if (role === "partner")
    return [
      { path: `/api/partners/${partner}` },
      { path: `/api/partners/${foreign.partner}` },
      { path: "/api/auth/me" },
    ];
  return [
    { path: "/api/campaigns?limit=100" },
    { path: `/api/partners/${partner}` },
    { path: `/api/clients/${foreign.client}/segments` },
    { path: "/api/partners?limit=100" },
    { method: "PATCH", path: `/api/clients/${client}/segments/QZ`, body: { active: true } },
    { method: "POST", path: `/api/clients/${client}/segments`, body: { code: "QZ", name: "again" } },
    { path: `/api/clients/${client}/segments` },
    { path: `/api/campaigns/${campaign}` },
    { path: "/api/invitations?limit=100&sort=nothing" },
    { path: `/api/campaigns/${foreign.campaign}` },
    { path: "/api/invitations?limit=100" },
    { path: "/api/jobs?limit=100" },
  ];
};

test("two thousand requests in turn, with refusals, aborts, timeouts and lost sessions, bleed nothing", async () => {
  const tenants = people.filter(({ role, name }) => role === "partner" || /^(manager|viewer)-[ab]$/.test(name));
  const ask = asker(url);
  const statuses = new Map<number | "aborted", number>();
  const leaks: string[] = [];
  const one = async (n: number): Promise<void> => {
    const person = tenants[n % tenants.length]!;
    const steps = stepsOf(person);
    const { method = "GET", path, body } = steps[Math.floor(n / tenants.length) % steps.length]!;
    const isViewer = person.role === "viewer" && method !== "GET";
    const abort = n % 17 === 0 ? { signal: AbortSignal.timeout(3) } : {};
    const asked = { method, token: person.name, ...(body !== undefined && { body }), ...abort };
    const answer = await ask(path, asked).catch(() => undefined);
    const kind = answer?.status ?? "aborted";
    statuses.set(kind, (statuses.get(kind) ?? 0) + 1);
    if (answer === undefined) return;
    if (isViewer) expect(answer.status).toBe(403);
    for (const leak of leaksIn(person, answer)) leaks.push(`${person.name} ${method} ${path}: ${leak}`);
  };

  let isOver = false;
  /** Writes wait for this lock until their timeout ends them. */
  const disturb = async (): Promise<number> => {
    const owner = await world.database.adminPool.connect();
    let ended = 0;
    try {
      while (!isOver) {
        await owner.query("begin");
        await owner.query("lock table segments in access exclusive mode");
        await owner.query(`select pg_sleep(${(TIMEOUT_MS * 1.3) / 1_000})`);
        await owner.query("commit");
        const { rows } = await owner.query(
          "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'two-connections' limit 1",
        );
        ended += rows.length;
        await owner.query("select pg_sleep(0.5)");
      }
    } finally {
      owner.release();
    }
    return ended;
  };
  const disturbed = disturb();
  let next = 0;
  const work = async (): Promise<void> => {
    for (let n = next++; n < REQUESTS; n = next++) await one(n);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  isOver = true;

  expect(leaks).toEqual([]);
  expect([...statuses.values()].reduce((sum, count) => sum + count, 0)).toBe(REQUESTS);
  // Each kind of trouble happened.
  for (const kind of [200, 400, 403, 404, 409, 503, "aborted"] as const)
    expect(statuses.get(kind) ?? 0, `${kind} of ${JSON.stringify([...statuses])}`).toBeGreaterThan(1);
  expect(await disturbed).toBeGreaterThan(1);
  // A connection keeps nothing of its last user.
  for (let n = 0; n < 4; n += 1)
    expect((await pool.query(sql`select current_setting('app.clients', true) as clients`)).rows[0].clients ?? "").toBe(
      "",
    );
}, 120_000);
