// Measures how fast the platform API reads beside live traffic over months of history: each read by
// itself, then by fifty people and by fifty programs at once, and the trial of a rule over thirty
// days.
import { setTimeout as sleep } from "node:timers/promises";
import { table } from "../infra/runtime/output.ts";
import { randomFrom } from "../infra/runtime/random.ts";
import { quantile, save } from "./figures.ts";
import { measureAlone } from "./reads/alone.ts";
import { openPortalWorld, type PortalWorld, type User } from "./reads/portal-world.ts";
import { ask, type ByName, type Measured, type Read, readsOf, trial } from "./reads/reads.ts";
import { generate } from "./world.ts";

const DAYS = 730;
const EVENTS_A_DAY = 100_000;
const LIST_MS = 80;
const READ_MS = 150;
const SIMULATE_MS = 3_000;
const WARM_UP_SECONDS = 15;

/**
 * The behaviour of users: reads at once, and the pause between their answers and the next reads.
 */
interface Model {
  readonly name: string;
  readonly readsAtOnce: number;
  readonly thinkMs: (random: () => number) => number;
}
const THINK_MS = 7_000;
const models: readonly Model[] = [
  {
    // A page makes three reads at once, and a person looks at it for seven seconds on average. The
    // pauses are distributed as in TPC-W, and the longest is ten times the average.
    ...{ name: "50 people", readsAtOnce: 3 },
    thinkMs: (random) => Math.min(-Math.log(1 - random()) * THINK_MS, 10 * THINK_MS),
  },
  { name: "50 programs that never pause", readsAtOnce: 1, thinkMs: () => 0 },
];

interface Asking extends PortalWorld {
  readonly reads: readonly Read[];
  readonly model: Model;
  readonly seconds: number;
}
const apiOf = ({ world }: PortalWorld): string => world.stack.run.apps.api!.url;

const readFor = async (asking: Asking): Promise<ByName> => {
  const { users, reads, model } = asking;
  const measured: ByName = new Map();
  const end = performance.now() + asking.seconds * 1_000;
  const use = async ({ role, token }: User, first: number): Promise<void> => {
    const random = randomFrom(first);
    const own = reads.filter(({ route }) => route.roles.includes(role));
    const init = { headers: { authorization: `Bearer ${token}` } };
    await sleep(random() * model.thinkMs(random));
    while (performance.now() < end) {
      const asked = Array.from({ length: model.readsAtOnce }, () => own[Math.floor(random() * own.length)]!);
      await Promise.all(asked.map(({ name, path }) => ask(measured, name, `${apiOf(asking)}${path}`, init)));
      await sleep(Math.min(model.thinkMs(random), Math.max(0, end - performance.now())));
    }
  };
  await Promise.all(users.map(use));
  return measured;
};

/** Runs trials one after the other, each for six seconds. */
const simulateFor = async (asking: Asking): Promise<Measured> => {
  const { name, path, init } = trial(asking);
  const measured: ByName = new Map();
  for (const end = performance.now() + asking.seconds * 1_000; performance.now() < end; await sleep(6_000))
    await ask(measured, name, `${apiOf(asking)}${path}`, init);
  return measured.get(name)!;
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

/** Ten digits that no earlier run used: fewer than ten bodies are sent a second. */
const newSerial = (): number => Math.floor(Date.now() / 100) % 10 ** 10;

/** Prints and returns the figures beside `rate` live events a second. */
const measureBeside = async (rate: number, asking: Asking) => {
  const { world, kept, reads, model, seconds } = asking;
  const live =
    rate === 0
      ? undefined
      : generate({
          ...{ url: world.stack.run.apps.ingest!.url, path: "/ingest/batch", tokens: world.tokens },
          ...{ clientId: kept.clientId, eventsPerBody: 1_000, purchases: 0.02, rate, inFlight: 4, seed: 11 },
          ...{ seconds: WARM_UP_SECONDS + seconds + 5, firstSerial: newSerial() },
        });
  await readFor({ ...asking, seconds: WARM_UP_SECONDS });
  const [measured, simulated] = await Promise.all([readFor(asking), simulateFor(asking)]);
  const traffic = await live;
  const isList = new Map(reads.map(({ name, route }) => [name, route.contract.list !== undefined]));
  const lines = [...measured]
    .map(([name, one]) => lineOf(name, one, isList.get(name) ? LIST_MS : READ_MS))
    .sort((a, b) => b.p95 / b.most - a.p95 / a.most);
  const simulation = lineOf(trial(asking).name, simulated, SIMULATE_MS);
  const all = (isOfLists: boolean): Measured => {
    const some = [...measured].flatMap(([name, one]) => (isList.get(name) === isOfLists ? [one] : []));
    const others: Record<string, number> = {};
    for (const [status, n] of some.flatMap((one) => Object.entries(one.others)))
      others[status] = (others[status] ?? 0) + n;
    return { ms: some.flatMap(({ ms }) => ms), others };
  };
  const together = [lineOf("all lists", all(true), LIST_MS), lineOf("all other reads", all(false), READ_MS)];
  const events = traffic === undefined ? "no" : Math.round(traffic.accepted / traffic.seconds);
  const heading = `${model.name} beside ${events} live events/s`;
  process.stdout.write(`${heading}:\n${table(HEADS, [...together, simulation, ...lines].map(cellsOf))}\n\n`);
  return { model: model.name, rate, traffic, together, simulation, lines };
};

type Options = Readonly<Partial<Record<"home" | "days" | "events" | "seconds" | "rate", string>>>;

/**
 * `--days` of history (730) with `--events` each (100,000), kept in `--home` for the next run.
 * Measures for `--seconds` (60; 0: each read by itself only), first without and then beside
 * `--rate` live events a second (5,000; 0: only without).
 */
export const run = async (options: Options): Promise<void> => {
  const [seconds, rate] = [Number(options.seconds ?? 60), Number(options.rate ?? 5_000)];
  const [days, events] = [Number(options.days ?? DAYS), Number(options.events ?? EVENTS_A_DAY)];
  const portal = await openPortalWorld(options.home, days, events);
  try {
    const reads = await readsOf(portal.kept);
    const alone = await measureAlone(portal, reads);
    const measured = [];
    for (const model of seconds === 0 ? [] : models)
      for (const beside of new Set([0, rate]))
        measured.push(await measureBeside(beside, { ...portal, reads, model, seconds }));
    process.stdout.write(`${save("api", { ...portal.kept, seconds, alone, measured })}\n`);
  } finally {
    await portal.world.stop();
  }
};
