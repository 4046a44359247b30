// The storm: ten tenants, of which four are good and are measured, and six are hostile.
import { setTimeout as sleep } from "node:timers/promises";
import { print } from "../../../infra/runtime/output.ts";
import type { Target } from "../target.ts";
import { type Sample, watchEdge } from "./edge-watch.ts";
import { acceptedIn, blocked, flat, quantile, slowed, statusText, type Verdict, wrongWith } from "./findings.ts";
import { progress } from "./progress.ts";
import { type AttackResult, MOST_BYTES, type Sender, startGoods, startHostile } from "./senders.ts";
import { type AcceptedBatch, receipts, storedOnce } from "./stored-once.ts";

interface Settings {
  readonly minutes: number;
  readonly seed: number;
}
const GOOD = 4;
const HOSTILE = 6;
/** The number of tenants in a storm. */
export const TENANTS = GOOD + HOSTILE;
const LANES = 2;
/**
 * The length of the phases of a round. Phases alternate, so that other load on the machine affects
 * both alike.
 */
const CALM_MS = 20_000;
const STORM_MS = 60_000;
const LEAST_ROUNDS = 4;
const WARM_UP_MS = 15_000;
/** Requests that were under way before a change of phase are not counted. */
const CHANGE_MS = 3_000;
const TELL_MS = 10_000;
/** If the loop was blocked longer than this, the attacks under way are printed. */
const TOLD_BLOCK_MS = 300;

interface StormCounts {
  attacks: number;
  readonly statuses: Map<number, number>;
  readonly wrong: string[];
  readonly batches: AcceptedBatch[];
}
const MOST_WRONG = 20;

/** Hostile senders attack the edge in the storm, and the edge beside it in the calm. */
const edges = { storm: "ingest", calm: "ingest-standby" } as const;
type Phase = keyof typeof edges;

/** Starts the hostile senders and counts their answers. */
const openHostile = (
  target: Target,
  hostile: readonly Sender[],
  seed: number,
): {
  readonly turn: (phase: Phase) => void;
  readonly counted: StormCounts;
  readonly stop: () => Promise<void>;
  readonly underWay: ReadonlyMap<string, string>;
} => {
  const counted: StormCounts = { attacks: 0, statuses: new Map(), wrong: [], batches: [] };
  const count = (attacked: AttackResult): void => {
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
  const underWay = new Map<string, string>();
  let port = 0;
  const turn = (phase: Phase): void => {
    port = Number(new URL(target.run().apps[edges[phase]]!.url).port);
  };
  turn("calm");
  const senders = hostile.map((sender) =>
    startHostile(sender, LANES, { seed, mostBytes: MOST_BYTES, onAttacked: count, underWay, port: () => port }),
  );
  return { turn, counted, underWay, stop: async () => void (await Promise.all(senders.map(({ stop }) => stop()))) };
};

/** Times the good tenants by phase, and samples the edge while it is attacked. */
const openMeasures = (
  target: Target,
  goods: ReturnType<typeof startGoods>,
  { turn, counted, underWay }: ReturnType<typeof openHostile>,
) => {
  const samples: Sample[] = [];
  const times: Record<Phase, number[]> = { calm: [], storm: [] };
  let phase: Phase = "calm";
  const { stop } = watchEdge(
    target.run().apps.ingest!.ops_url,
    () => target.pid("ingest"),
    (sample) => {
      if (phase === "calm") return;
      samples.push(sample);
      if (sample.blockedMs > TOLD_BLOCK_MS)
        progress(
          `blocked ${Math.round(sample.blockedMs)} ms while: ` + [...underWay].map((one) => one.join(" ")).join("; "),
        );
    },
  );
  const pass = async (next: Phase, ms: number): Promise<void> => {
    turn(next);
    await sleep(CHANGE_MS);
    phase = next;
    await goods.report();
    for (const end = performance.now() + ms; performance.now() < end; ) {
      await sleep(Math.min(TELL_MS, Math.max(0, end - performance.now())));
      const { times: taken } = await goods.report();
      times[next].push(...taken);
      progress(
        `${next}: good p50 ${Math.round(quantile(taken, 0.5))} ms, p95 ${Math.round(quantile(taken, 0.95))} ms; ` +
          `${counted.attacks} attacks, answers ${statusText(counted.statuses)}; edge ` +
          `${Math.round(samples.at(-1)?.rssMb ?? 0)} MiB, blocked ${Math.round(samples.at(-1)?.blockedMs ?? 0)} ms`,
      );
    }
  };
  return { samples, times, pass, stop };
};

/**
 * Four good tenants send, and six hostile ones attack by turns the edge of the good ones and the
 * edge beside it. The machine has the same work in both phases, so a difference comes from the
 * edge. Ends with a verdict for every promise.
 */
export const storm = async (
  target: Target,
  senders: readonly Sender[],
  { minutes, seed }: Settings,
): Promise<readonly Verdict[]> => {
  const firstPid = target.pid("ingest");
  const prefix = `fuzz${seed}-${Date.now().toString(36)}`;
  const goods = startGoods(senders.slice(0, GOOD), prefix);
  const hostile = openHostile(target, senders.slice(GOOD), seed);
  const { counted } = hostile;
  const measures = openMeasures(target, goods, hostile);
  const rounds = Math.max(LEAST_ROUNDS, Math.round((minutes * 60_000) / STORM_MS));
  progress(`seed ${seed}: ${rounds} rounds; in the calm of each ${HOSTILE} hostile tenants attack another edge`);
  // An edge that warms up is slower than a calm one.
  await sleep(WARM_UP_MS);
  for (let round = 0; round < rounds; round += 1) {
    await measures.pass("calm", CALM_MS);
    await measures.pass("storm", (minutes * 60_000) / rounds);
  }
  const stopping = hostile.stop();
  const { refused, accepted } = await goods.stop();
  await measures.stop();
  await stopping;
  progress("every sender has stopped; accepted events are counted");

  for (const wrong of counted.wrong) print(wrong);
  return [
    noFault(counted),
    {
      says: "the edge was never restarted",
      isKept: target.pid("ingest") === firstPid,
      figure: `process ${firstPid} -> ${target.pid("ingest")}`,
    },
    slowed(measures.times.calm, measures.times.storm),
    noRefusal(refused, accepted),
    flat(measures.samples),
    blocked(measures.samples),
    await storedOnce(target, prefix, accepted),
    await receipts(target, counted.batches),
  ];
};

const noFault = ({ attacks, statuses, wrong }: StormCounts): Verdict => ({
  says: "no answer is a fault of ours, and none shows what is inside",
  isKept: wrong.length === 0,
  figure: `${attacks} attacks, answers ${statusText(statuses)}`,
});

const noRefusal = (refused: readonly string[], accepted: number): Verdict => ({
  says: "no good tenant is refused",
  isKept: refused.length === 0,
  figure: refused.join(", ") || `${accepted} events accepted`,
});
