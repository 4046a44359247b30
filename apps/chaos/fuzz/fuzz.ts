// `npm run fuzz`: ten tenants send to a live edge, four of them good and six hostile, by seed; then
// every promise is asked.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { repositoryRoot } from "../../../infra/embedded/home.ts";
import { startStack } from "../../../infra/embedded/supervisor.ts";
import { openPool } from "../../../infra/postgres/sql.ts";
import { print, table, tell } from "../../../infra/runtime/output.ts";
import { randomFrom } from "../../../infra/runtime/random.ts";
import { UsageError } from "../../../infra/runtime/refused.ts";
import { until } from "../../../infra/runtime/timing/until.ts";
import { createToken, revokeToken } from "../../../modules/access/tokens.ts";
import { apps } from "../../../modules/installation/product.ts";
import { steps } from "../../../modules/installation/steps.ts";
import { ownConfig } from "../config.ts";
import { openTarget, type Target } from "../target.ts";
import { hurtingBody } from "./bodies.ts";
import { longestLagMs, watchEdge } from "./edge-watch.ts";
import { converse } from "./exchange.ts";
import { acceptedIn, blocked, flat, quantile, slowed, type Verdict, wrongWith } from "./findings.ts";
import { type Attacked, attackOf, runAttack, type Sender, startGoods, startHostile } from "./senders.ts";

const USAGE = `npm run fuzz -- [--minutes N] [--seed N] [--bodies N] [--only tenant:n] [--home folder]

Sends to the edge of the stack that runs in a folder, or of one of its own: four good tenants and six
hostile ones, after a calm phase in which only the good ones send. Ends with a verdict for each
promise; exit code 0 when all were kept, 1 when not, 2 for a wrong call.

Examples:
  $ npm run fuzz -- --minutes 30 --seed 7   the same seed draws the same attacks
  $ npm run fuzz -- --seed 7 --only 5:117   the 117th attack of tenant 5 alone, and its answer
  $ npm run fuzz -- --bodies 2000           hurting bodies one after the other, the slowest listed
  $ npm run fuzz -- --home .tributary       against the stack of npm start`;

const MIB = 1024 * 1024;
const MOST_BYTES = 24 * MIB;
const GOOD = 4;
const HOSTILE = 6;
const LANES = 2;
const CALM_SHARE = 0.2;
const LEAST_CALM_MS = 15_000;
const TELL_MS = 10_000;
/** What is under way then is named. */
const TOLD_BLOCK_MS = 300;
const BODIES_A_TOKEN = 90;
/** So many batches of hostile senders are asked for by their receipts. */
const RECEIPTS = 300;
const SETTLE_MS = 180_000;

interface Settings {
  readonly minutes: number;
  readonly seed: number;
}
const clock = (): string => new Date().toISOString().slice(11, 19);
const progress = (text: string): void => tell(`${clock()} ${text}`);

const needed = ["ingest", "worker-chain", "worker-money"];
const services = ["kafka", "postgres", "clickhouse", "redis", "registry"] as const;

/** What runs in the folder, or what it takes to store an event, started there. */
const openEdgeStack = async (
  home: string,
): Promise<{ readonly target: Target; readonly close: () => Promise<void> }> => {
  if (existsSync(join(home, "run.json"))) {
    const target = await openTarget(home);
    return { target, close: target.close };
  }
  tell("nothing runs here: a stack of its own is started for this");
  const folder = join(home, "fuzz-stack");
  const stack = await startStack({
    home: folder,
    fresh: true,
    config: ownConfig(),
    services,
    steps,
    apps: apps.filter(({ name }) => needed.includes(name)),
    onEvent: ({ text }) => tell(text),
  });
  const target = await openTarget(folder);
  return {
    target,
    close: async () => {
      await target.close();
      await stack.stop();
    },
  };
};

/** Tenants take turns over the demo clients; each has a token and an address of its own. */
const openSenders = async (target: Target, count: number) => {
  const { clients } = target.run().demo as unknown as { readonly clients: readonly { readonly id: number }[] };
  const pool = openPool(target.env.POSTGRES_URL!, { name: "tributary-fuzz", max: 1 });
  const port = Number(new URL(target.run().apps.ingest!.url).port);
  const senders: Sender[] = [];
  const ids: number[] = [];
  try {
    for (let n = 1; n <= count; n += 1) {
      const clientId = clients[n % clients.length]!.id;
      const made = await createToken(pool, { kind: "ingest", label: `fuzz ${n}`, client_id: clientId });
      ids.push(made.token_id);
      senders.push({ n, clientId, token: made.token, address: { port, from: `127.0.1.${1 + (n % 250)}` } });
    }
  } finally {
    await pool.end();
  }
  const newest = senders.at(-1)!;
  const headers = { authorization: `Bearer ${newest.token}`, "content-type": "application/json" };
  const url = `http://127.0.0.1:${port}/ingest/batch`;
  await until("the edge knows the newest token", 20_000, async () => {
    const { status } = await fetch(url, { method: "POST", headers, body: "{}" });
    if (status !== 400) throw new Error(`the edge answers ${status}`);
  });
  return {
    senders,
    revoke: async () => {
      for (const id of ids) await revokeToken(target.pool, id);
    },
  };
};

interface Counted {
  attacks: number;
  readonly statuses: Map<number, number>;
  readonly wrong: string[];
  readonly batches: { readonly batchId: string; readonly accepted: number; readonly token: string }[];
}
const MOST_WRONG = 20;

const storm = async (target: Target, senders: readonly Sender[], settings: Settings): Promise<readonly Verdict[]> => {
  const { minutes, seed } = settings;
  const { ops_url: opsUrl } = target.run().apps.ingest!;
  const firstPid = target.pid("ingest");
  const prefix = `fuzz${seed}-${Date.now().toString(36)}`;
  const goods = startGoods(senders.slice(0, GOOD), prefix);
  const calmMs = Math.max(LEAST_CALM_MS, minutes * 60_000 * CALM_SHARE);
  progress(`seed ${seed}: ${Math.round(calmMs / 1_000)} s of calm`);
  // What warms up is not the time of a calm edge.
  await sleep(calmMs / 3);
  await goods.report();
  await sleep((calmMs * 2) / 3);
  const { times: calm } = await goods.report();

  progress(`${HOSTILE} hostile tenants for ${minutes} minutes`);
  const underWay = new Map<string, string>();
  const watch = watchEdge(
    opsUrl,
    () => target.pid("ingest"),
    ({ blockedMs }) => {
      if (blockedMs > TOLD_BLOCK_MS)
        progress(`blocked ${Math.round(blockedMs)} ms while: ${[...underWay].map((one) => one.join(" ")).join("; ")}`);
    },
  );
  const counted: Counted = { attacks: 0, statuses: new Map(), wrong: [], batches: [] };
  const hostile = senders.slice(GOOD);
  const count = (attacked: Attacked): void => {
    counted.attacks += 1;
    const status = attacked.said.flatMap(({ statuses }) => statuses);
    for (const one of status) counted.statuses.set(one, (counted.statuses.get(one) ?? 0) + 1);
    const wrong = wrongWith(attacked);
    if (wrong !== null && counted.wrong.length < MOST_WRONG)
      counted.wrong.push(
        `${attacked.attack.name}: ${wrong}; again: npm run fuzz -- --seed ${seed} --only ${attacked.place}`,
      );
    const { token } = hostile.find(({ n }) => attacked.place.startsWith(`${n}:`))!;
    for (const batch of acceptedIn(attacked)) counted.batches.push({ ...batch, token });
  };
  const running = hostile.map((sender) =>
    startHostile(sender, LANES, { seed, mostBytes: MOST_BYTES, onAttacked: count, underWay }),
  );
  const stormTimes: number[] = [];
  const end = performance.now() + minutes * 60_000;
  while (performance.now() < end) {
    await sleep(Math.min(TELL_MS, Math.max(0, end - performance.now())));
    const { times } = await goods.report();
    stormTimes.push(...times);
    const last = watch.samples.at(-1);
    progress(
      `${counted.attacks} attacks, answers ${statusText(counted.statuses)}; good p95 ${Math.round(quantile(times, 0.95))} ms; ` +
        `edge ${Math.round(last?.rssMb ?? 0)} MiB, blocked ${Math.round(last?.blockedMs ?? 0)} ms`,
    );
  }
  const stopping = running.map(({ stop }) => stop());
  const { refused, accepted } = await goods.stop();
  await watch.stop();
  await Promise.all(stopping);
  progress("every sender has stopped; what was accepted is counted");

  for (const wrong of counted.wrong) print(wrong);
  return [
    {
      says: "no answer is a fault of ours, and none shows what is inside",
      isKept: counted.wrong.length === 0,
      figure: `${counted.attacks} attacks, answers ${statusText(counted.statuses)}`,
    },
    {
      says: "the edge was never restarted",
      isKept: target.pid("ingest") === firstPid,
      figure: `process ${firstPid} -> ${target.pid("ingest")}`,
    },
    slowed(calm, stormTimes),
    {
      says: "no good tenant is refused",
      isKept: refused.length === 0,
      figure: refused.join(", ") || `${accepted} events accepted`,
    },
    flat(watch.samples),
    blocked(watch.samples),
    await storedOnce(target, prefix, accepted),
    await receipts(target, counted.batches),
  ];
};

const statusText = (statuses: ReadonlyMap<number, number>): string =>
  [...statuses]
    .sort(([a], [b]) => a - b)
    .map(([status, times]) => `${status}: ${times}`)
    .join(", ");

const storedOnce = async (target: Target, prefix: string, accepted: number): Promise<Verdict> => {
  const says = "every accepted event of the good ones is stored once";
  const count = async () => {
    const [found] = await target.select<{ rows: string; ids: string }>(
      "select count() as rows, uniqExact(sender_event_id) as ids from events_current " +
        `where startsWith(ifNull(sender_event_id, ''), '${prefix}')`,
    );
    return { rows: Number(found!.rows), ids: Number(found!.ids) };
  };
  const stored = await until("all of it is stored", SETTLE_MS, async () => {
    const now = await count();
    if (now.ids < accepted) throw new Error(`${now.ids} of ${accepted}`);
    return now;
  }).catch(count);
  // A request without an answer may have been stored all the same.
  const isKept = stored.rows === stored.ids && stored.ids >= accepted;
  return { says, isKept, figure: `${accepted} accepted, ${stored.ids} stored in ${stored.rows} rows` };
};

interface Receipt {
  readonly accepted: number;
  readonly events: Readonly<Record<string, number>>;
}
/** Of a sample of what hostile senders were answered 200 for. */
const receipts = async (target: Target, batches: Counted["batches"]): Promise<Verdict> => {
  const step = Math.max(1, Math.floor(batches.length / RECEIPTS));
  const asked = batches.filter((_, n) => n % step === 0);
  const open: string[] = [];
  let events = 0;
  for (const { batchId, accepted, token } of asked) {
    const ask = async (): Promise<number> => {
      const url = `${target.run().apps.ingest!.url}/ingest/receipts/${batchId}`;
      const answer = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
      if (answer.status !== 200) throw new Error(`the receipt is answered ${answer.status}`);
      const receipt = (await answer.json()) as Receipt;
      const { stored = 0, duplicate = 0, rejected_by_fraud: byFraud = 0, in_flight: left = 0 } = receipt.events;
      if (left > 0 || stored + duplicate + byFraud < accepted) throw new Error(JSON.stringify(receipt));
      return stored;
    };
    events += accepted;
    await until("a batch is stored", SETTLE_MS, ask).catch((error: Error) => open.push(`${batchId}: ${error.message}`));
    if (open.length > 3) break;
  }
  return {
    says: "every accepted event of the hostile ones is accounted for",
    isKept: open.length === 0,
    figure: open[0] ?? `${events} events in ${asked.length} of ${batches.length} batches`,
  };
};

/** One after the other, so that each has its own figure. */
const bodies = async (
  target: Target,
  senders: readonly Sender[],
  count: number,
  seed: number,
): Promise<readonly Verdict[]> => {
  const { ops_url: opsUrl } = target.run().apps.ingest!;
  const random = randomFrom(seed);
  const found: { readonly n: number; readonly ms: number; readonly what: string }[] = [];
  const statuses = new Map<number, number>();
  await longestLagMs(opsUrl);
  for (let n = 0; n < count; n += 1) {
    const sender = senders[Math.floor(n / BODIES_A_TOKEN)]!;
    const { kind, body } = hurtingBody(random, Math.ceil(MOST_BYTES * random() ** 3), sender.clientId);
    const head = [
      "POST /ingest/batch HTTP/1.1\r\nHost: edge\r\nConnection: close\r\nContent-Type: application/json",
      `Authorization: Bearer ${sender.token}\r\nContent-Length: ${body.length}\r\n\r\n`,
    ].join("\r\n");
    const said = await converse(sender.address, { steps: [head, body], ending: "wait", patienceMs: 60_000 });
    const status = said.statuses[0] ?? 0;
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
    found.push({ n, ms: await longestLagMs(opsUrl), what: `${kind}, ${body.length} bytes, answered ${status}` });
    if (n % 100 === 99) progress(`${n + 1} bodies, ${statusText(statuses)}`);
  }
  const slowest = [...found].sort((a, b) => b.ms - a.ms).slice(0, 8);
  print(
    table(
      ["body", "blocked ms", "what"],
      slowest.map(({ n, ms, what }) => [n, Math.round(ms), what]),
    ),
  );
  const wrong = [...statuses.keys()].filter((status) => ![200, 400, 413].includes(status));
  return [
    { says: "each body is taken or refused", isKept: wrong.length === 0, figure: statusText(statuses) },
    {
      says: "none blocks the loop for a second of wall time",
      isKept: (slowest[0]?.ms ?? 0) < 1_000,
      figure: `longest ${Math.round(slowest[0]?.ms ?? 0)} ms, p99 ${Math.round(
        quantile(
          found.map(({ ms }) => ms),
          0.99,
        ),
      )} ms`,
    },
  ];
};

const again = async (senders: readonly Sender[], place: string, seed: number): Promise<readonly Verdict[]> => {
  const [tenant, n] = place.split(":").map(Number);
  const sender = senders.find((one) => one.n === tenant);
  if (sender === undefined || !Number.isInteger(n))
    throw new UsageError("--only takes a tenant and a number, e.g. 5:117");
  const attack = attackOf(sender, seed, n!, MOST_BYTES);
  const said = await runAttack(sender, attack);
  print(`${attack.name}\n${said[0]?.text.slice(0, 2_000) ?? ""}`);
  const wrong = wrongWith({ place, attack, said });
  return [
    {
      says: "the answer is one of those that are allowed",
      isKept: wrong === null,
      figure: wrong ?? statusText(new Map()),
    },
  ];
};

const numberOf = (option: string, text: string, most: number): number => {
  const number = Number(text);
  if (!Number.isFinite(number) || number <= 0 || number > most)
    throw new UsageError(`${option}: ${text} is not a number from 0 to ${most}`);
  return number;
};

/** Answers its exit code. */
export const fuzz = async (args: readonly string[]): Promise<number> => {
  const text = { type: "string" } as const;
  const options = {
    home: text,
    minutes: text,
    seed: text,
    bodies: text,
    only: text,
    help: { type: "boolean" },
  } as const;
  const { values } = parseArgs({ args: [...args], options });
  if (values.help === true) {
    print(USAGE);
    return 0;
  }
  const minutes = numberOf("--minutes", values.minutes ?? "5", 24 * 60);
  const seed = values.seed === undefined ? 1 + (Date.now() % 1_000_000) : numberOf("--seed", values.seed, 2 ** 31);
  const count = values.bodies === undefined ? 0 : numberOf("--bodies", values.bodies, 100_000);
  const { target, close } = await openEdgeStack(values.home ?? join(repositoryRoot(), ".tributary"));
  const leave = () => void close().finally(() => process.exit(130));
  process.once("SIGINT", leave);
  process.once("SIGTERM", leave);
  try {
    const { senders, revoke } = await openSenders(target, Math.max(GOOD + HOSTILE, Math.ceil(count / BODIES_A_TOKEN)));
    const verdicts =
      values.only !== undefined
        ? await again(senders, values.only, seed)
        : count > 0
          ? await bodies(target, senders, count, seed)
          : await storm(target, senders, { minutes, seed });
    await revoke();
    print(
      table(
        ["verdict", "promise", "figure"],
        verdicts.map(({ says, isKept, figure }) => [isKept ? "kept" : "BROKEN", says, figure]),
      ),
    );
    print(`seed ${seed}`);
    return verdicts.every(({ isKept }) => isKept) ? 0 : 1;
  } finally {
    process.off("SIGINT", leave);
    process.off("SIGTERM", leave);
    await close();
  }
};
