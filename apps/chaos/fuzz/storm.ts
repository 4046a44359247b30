// Ten tenants, four of them good and measured, six of them hostile.
import { setTimeout as sleep } from "node:timers/promises";
import { print } from "../../../infra/runtime/output.ts";
import type { Target } from "../target.ts";
import { watchEdge } from "./edge-watch.ts";
import { acceptedIn, blocked, flat, quantile, slowed, statusText, type Verdict, wrongWith } from "./findings.ts";
import { progress } from "./progress.ts";
import { type Attacked, MOST_BYTES, type Sender, startGoods, startHostile } from "./senders.ts";
import { type AcceptedBatch, receipts, storedOnce } from "./stored.ts";

interface Settings {
  readonly minutes: number;
  readonly seed: number;
}
const GOOD = 4;
const HOSTILE = 6;
/** Tenants of a storm. */
export const TENANTS = GOOD + HOSTILE;
const LANES = 2;
const CALM_SHARE = 0.2;
const LEAST_CALM_MS = 15_000;
const TELL_MS = 10_000;
/** What is under way then is named. */
const TOLD_BLOCK_MS = 300;

interface Counted {
  attacks: number;
  readonly statuses: Map<number, number>;
  readonly wrong: string[];
  readonly batches: AcceptedBatch[];
}
const MOST_WRONG = 20;

/** Calm first, then hostile senders beside the good ones, then every promise. */
export const storm = async (
  target: Target,
  senders: readonly Sender[],
  settings: Settings,
): Promise<readonly Verdict[]> => {
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
      `${counted.attacks} attacks, answers ${statusText(counted.statuses)}; ` +
        `good p95 ${Math.round(quantile(times, 0.95))} ms; ` +
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
