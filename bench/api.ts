// How fast the platform API reads beside live traffic, over months of history: every read by fifty
// users who ask at once, and a rule that is tried on thirty days.
import { setTimeout as sleep } from "node:timers/promises";
import type { ServedRoute } from "../apps/api/route.ts";
import { routesOf } from "../apps/api/routes.ts";
import { openClickhouse } from "../infra/clickhouse/client.ts";
import { demoToken } from "../infra/embedded/servers/login.ts";
import { openPool, sql } from "../infra/postgres/sql.ts";
import { table } from "../infra/runtime/output.ts";
import { apps } from "../modules/installation/product.ts";
import { writeReference } from "../modules/reference/writer.ts";
import { hintsOf, namesIn, pathOf, queryFor, type Rows } from "../tests/support/from-contract.ts";
import { circumstances, quantile, save } from "./figures.ts";
import { writeHistory } from "./load/history.ts";
import { generate, openWorld, type World } from "./world.ts";

const DAYS = 730;
const EVENTS_A_DAY = 100_000;
const USERS = 50;
const PARTNERS = 20;
/** Between an answer and the next request of a user. */
const PAUSE_MS = 1_000;
const LIST_MS = 80;
const READ_MS = 150;
const SIMULATE_MS = 3_000;
const WARM_UP_SECONDS = 15;
type Role = "admin" | "client_manager" | "viewer" | "partner" | "client_user";

/** Of fifty people: those who work with the figures all day, and those who look at their own. */
const roleOf = (n: number): Role =>
  (["client_manager", "client_manager", "admin", "viewer", "partner", "client_user"] as const)[n % 6]!;

/** Purchases of one country: one of 250 events. */
const rule = (partner_id: number) => ({
  when: {
    all: [
      { field: "t", op: "eq", value: "purchase" },
      { field: "country", op: "eq", value: "MX" },
    ],
  },
  // biome-ignore lint/suspicious/noThenProperty: the wire name of what a rule does
  then: { partner_id },
});

const makeReference = async (world: World) => {
  const pool = openPool(world.stack.env.POSTGRES_URL!, { max: 1 });
  const numbers = Array.from({ length: PARTNERS }, (_, n) => -1 - n);
  const client_id = world.clientId;
  const { idOf } = await writeReference(pool, "bench", {
    partners: numbers.map((partner_id) => ({
      ...{ partner_id, name: `Partner ${-partner_id}`, email: `bench${partner_id}@partner.example` },
      client_ids: [client_id],
    })),
    campaigns: numbers.map((campaign_id) => ({
      ...{ campaign_id, client_id, name: `Campaign ${-campaign_id}`, destination_url: "https://shop.example/" },
    })),
    rules: [{ rule_id: -1, client_id, name: "Purchases of Mexico", status: "inactive", ...rule(-1) }],
  }).finally(() => pool.end());
  return {
    partners: numbers.map((n) => idOf("partners", n)),
    campaigns: numbers.map((n) => idOf("campaigns", n)),
    rule: idOf("rules", -1),
  };
};

interface User {
  readonly role: Role;
  readonly token: string;
}
const makeUsers = async (world: World, partner: number): Promise<readonly User[]> => {
  const owner = openPool(world.stack.env.POSTGRES_ADMIN_URL!, { max: 1 });
  const users: User[] = [];
  for (let n = 0; n < USERS; n += 1) {
    const [role, email] = [roleOf(n), `bench-${n}@people.example`];
    const ofClient = role === "client_manager" || role === "client_user";
    await owner.query(sql`
      insert into users (email, name, role, partner_id, client_ids) values (${email}, ${email}, ${role},
        ${role === "partner" ? partner : null}, ${ofClient ? [world.clientId] : []})`);
    users.push({ role, token: await demoToken(world.stack.env.OIDC_ISSUER!, world.loginSecret, email) });
  }
  await owner.end();
  return users;
};

interface Read {
  readonly route: ServedRoute;
  readonly name: string;
  readonly path: string;
}
const dayBefore = (days: number): string => new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10);
const YEAR = `from=${dayBefore(360)}&to=${dayBefore(0)}`;
/**
 * Every read that is about something in this history: of the 30 days that it takes by itself, and
 * of a year.
 */
const readsOf = (routes: readonly ServedRoute[], rows: Rows): readonly Read[] =>
  routes
    .filter(({ method, auth }) => method === "GET" && auth === "user")
    .flatMap((route) => {
      const path = pathOf(route, rows);
      const query = queryFor(route.contract.query, hintsOf(rows));
      if (path === undefined || query === undefined) return [];
      const read = (name: string, ...queries: readonly string[]): Read => {
        const all = queries.filter((one) => one !== "").join("&");
        return { route, name, path: all === "" ? path : `${path}?${all}` };
      };
      const { route: name } = route.contract;
      const isRanged = namesIn(route.contract.query).includes("from");
      return [read(name, query), ...(isRanged ? [read(`${name}, a year`, query, YEAR)] : [])];
    });

/** Milliseconds, and answers by status where it is not 200. */
interface Measured {
  readonly ms: number[];
  readonly others: Record<string, number>;
}
type ByName = Map<string, Measured>;

const askFor = async (world: World, measured: ByName, name: string, path: string, init: RequestInit): Promise<void> => {
  const began = performance.now();
  const answer = await fetch(`${world.stack.run.apps.api!.url}${path}`, init);
  await answer.arrayBuffer();
  const known = measured.get(name) ?? { ms: [], others: {} };
  measured.set(name, known);
  known.ms.push(performance.now() - began);
  if (answer.status !== 200) known.others[answer.status] = (known.others[answer.status] ?? 0) + 1;
};

const readFor = async (world: World, users: readonly User[], reads: readonly Read[], seconds: number) => {
  const measured: ByName = new Map();
  const end = performance.now() + seconds * 1_000;
  const use = async ({ role, token }: User, first: number): Promise<void> => {
    const own = reads.filter(({ route }) => route.roles.includes(role));
    const init = { headers: { authorization: `Bearer ${token}` } };
    await sleep((first * PAUSE_MS) / USERS);
    // Each begins elsewhere in the list, or all would ask the same at the same time.
    for (let n = first * 7; performance.now() < end; n += 1) {
      const { name, path } = own[n % own.length]!;
      await askFor(world, measured, name, path, init);
      await sleep(PAUSE_MS);
    }
  };
  await Promise.all(users.map(use));
  return measured;
};

/** Of thirty days, one after the other, each six seconds. */
const simulateFor = async (world: World, { token }: User, partner: number, seconds: number): Promise<Measured> => {
  const measured: ByName = new Map();
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const body = JSON.stringify({ client_id: world.clientId, rule: rule(partner) });
  for (const end = performance.now() + seconds * 1_000; performance.now() < end; await sleep(6_000))
    await askFor(world, measured, "simulate", "/api/rules/simulate", { method: "POST", headers, body });
  return measured.get("simulate")!;
};

const lineOf = (name: string, { ms, others }: Measured, most: number) => ({
  ...{ name, asked: ms.length, others, p50: quantile(ms, 0.5), p95: quantile(ms, 0.95), p99: quantile(ms, 0.99), most },
});
const cellsOf = ({ name, asked, others, p50, p95, p99, most }: ReturnType<typeof lineOf>) => [
  ...[
    name,
    asked,
    Object.entries(others)
      .map(([status, count]) => `${count} x ${status}`)
      .join(" ") || "all",
  ],
  ...[p50.toFixed(0), p95.toFixed(0), p99.toFixed(0), most, p95 <= most ? "yes" : "no"],
];
const HEADS = ["read", "asked", "200", "p50 ms", "p95 ms", "p99 ms", "target p95", "kept"];

interface Asking {
  readonly world: World;
  readonly users: readonly User[];
  readonly reads: readonly Read[];
  readonly partner: number;
  readonly seconds: number;
}
/** Prints what was measured beside so many live events a second, and answers it. */
const measureBeside = async (rate: number, { world, users, reads, partner, seconds }: Asking) => {
  const live =
    rate === 0
      ? undefined
      : generate({
          ...{ url: world.stack.run.apps.ingest!.url, path: "/ingest/batch", tokens: world.tokens },
          ...{ clientId: world.clientId, eventsPerBody: 1_000, purchases: 0.02, rate, inFlight: 4, seed: 11 },
          ...{ seconds: WARM_UP_SECONDS + seconds + 5, firstSerial: 0 },
        });
  await readFor(world, users, reads, WARM_UP_SECONDS);
  const [measured, simulated] = await Promise.all([
    readFor(world, users, reads, seconds),
    simulateFor(world, users[2]!, partner, seconds),
  ]);
  const traffic = await live;
  const isList = new Map(reads.map(({ name, route }) => [name, route.contract.list !== undefined]));
  const lines = [...measured]
    .map(([name, one]) => lineOf(name, one, isList.get(name) ? LIST_MS : READ_MS))
    .sort((a, b) => b.p95 / b.most - a.p95 / a.most);
  const simulation = lineOf("POST /api/rules/simulate, 30 days", simulated, SIMULATE_MS);
  const all = (isOfLists: boolean) =>
    [...measured].flatMap(([name, { ms }]) => (isList.get(name) === isOfLists ? ms : []));
  const together = [
    lineOf("all lists", { ms: all(true), others: {} }, LIST_MS),
    lineOf("all other reads", { ms: all(false), others: {} }, READ_MS),
  ];
  const events = traffic === undefined ? "no" : Math.round(traffic.accepted / traffic.seconds);
  process.stdout.write(
    `beside ${events} live events/s:\n${table(HEADS, [...together, simulation, ...lines].map(cellsOf))}\n\n`,
  );
  return { rate, traffic, together, simulation, lines };
};

type Options = Readonly<Partial<Record<"days" | "events" | "seconds" | "rate", string>>>;

/**
 * `--days` of history (730) of `--events` each (100,000); `--seconds` measured (60), first without
 * and then beside `--rate` live events a second (5,000, 0: without alone).
 */
export const run = async (options: Options): Promise<void> => {
  const [days, eventsADay] = [Number(options.days ?? DAYS), Number(options.events ?? EVENTS_A_DAY)];
  const [seconds, rate] = [Number(options.seconds ?? 60), Number(options.rate ?? 5_000)];
  const world = await openWorld(apps, { services: ["identity"] });
  const say = (line: string): void => void process.stderr.write(`${line}\n`);
  const clickhouse = openClickhouse(world.stack.env.CLICKHOUSE_URL!, { timeoutMs: 900_000 });
  const owner = openPool(world.stack.env.POSTGRES_ADMIN_URL!, { max: 1, timeoutMs: 900_000 });
  try {
    const { partners, campaigns, rule: ruleId } = await makeReference(world);
    const history = { clickhouse, owner, clientId: world.clientId, partners, campaigns, days, eventsADay, say };
    const { order, event } = await writeHistory(history);
    const users = await makeUsers(world, partners[0]!);
    const rows: Rows = {
      ...{ client: world.clientId, partner: partners[0]!, campaign: campaigns[0]! },
      ids: { orders: order, events: event, rules: String(ruleId) },
    };
    const reads = readsOf(await routesOf({} as never), rows);
    say(`${reads.length} reads are asked by ${USERS} users, each a second after its last answer`);
    const asking = { world, users, reads, partner: partners[0]!, seconds };
    const measured = [];
    for (const beside of new Set([0, rate])) measured.push(await measureBeside(beside, asking));
    const conditions = { days, eventsADay, seconds, users: USERS, pauseMs: PAUSE_MS };
    process.stdout.write(`${save("api", { ...circumstances(), ...conditions, measured })}\n`);
  } finally {
    await Promise.allSettled([clickhouse.close(), owner.end()]);
    await world.stop();
  }
};
