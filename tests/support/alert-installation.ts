// An installation right after its start, as the registries of its apps report it, and what may
// happen to it.
import { readdirSync } from "node:fs";
import { basename } from "node:path";
import { seriesOf } from "../../apps/worker/series.ts";
import type { Metrics } from "../../infra/runtime/metrics.ts";
import { groupsOf } from "../../modules/log/groups/hosting.ts";
import { sinksBehind } from "../../modules/log/groups/read-again.ts";
import { workerGroups } from "../../modules/running/installation/product.ts";
import { probeNames } from "../../modules/running/repair/incident.ts";
import { readersOf } from "../../stream/topology.ts";
import { pipeline } from "../../topology.ts";
import { AlertWorld } from "./alert-world.ts";
import { EXPORTED } from "./exported-series.ts";

export const GiB = 2 ** 30;
export const DAY = 86_400;
const [chain, ...money] = workerGroups;
const kinds = ["clicks", "pixel", "s2s"];
const edgesOfIngest = readdirSync("apps/ingest/edges").map((file) => basename(file, ".ts"));
const SCHEDULES = ["outbox", "rollups", "dead-letters"];

/** An installation right after its start, as its apps report it before anything has happened. */
export const started = () => {
  const world = new AlertWorld();
  const edge = (app: string, name: string, edges: readonly string[]): Metrics => {
    const metrics = world.process(app, name);
    metrics.expect({ edges });
    metrics.setWaiting({ inFlight: 0, spooled: 0, lastResort: 0, isFailover: false });
    metrics.setDisk("home", { free: 50 * GiB, size: 100 * GiB });
    metrics.setKnown("disk", true);
    return metrics;
  };
  const worker = (name: string, groups: readonly string[]): Metrics => {
    const metrics = world.process("worker", name);
    metrics.expect(seriesOf(groupsOf(pipeline, groups)));
    for (const group of groupsOf(pipeline, groups)) lag(metrics, group.name, group.reads.name, 0);
    metrics.setKnown("group_lag", true);
    return metrics;
  };
  const keeper = world.process("keeper");
  keeper.expect({ schedules: SCHEDULES, probes: probeNames });
  healthy(keeper);
  for (const [job, series] of Object.entries(EXPORTED))
    for (const one of series) world.foreign(one.healthy(job), one.at);
  return {
    world,
    keeper,
    ingest: edge("ingest", "ingest", edgesOfIngest),
    links: edge("links", "links", ["link"]),
    pixel: edge("pixel", "pixel", ["pixel"]),
    chain: worker("worker-chain", [chain!]),
    money: worker("worker-money", money),
  };
};
export type Installation = ReturnType<typeof started>;

export const lag = (metrics: Metrics, group: string, topic: string, seconds: number): void =>
  metrics.setLag(group, [
    { topic, partition: 0, lag: seconds, seconds },
    { topic, partition: 1, lag: seconds, seconds },
  ]);

const healthy = (keeper: Metrics): void => {
  for (const probe of probeNames) keeper.setProbe(probe, 0);
  const figures = ["read-again", "open-letters", "ledger-sums", "silent-clients", "pull-age", "mails-waiting"];
  for (const figure of figures) keeper.setKnown(figure, true);
  keeper.setReadAgain(sinksBehind(pipeline, new Set()));
  letters(keeper, {});
  keeper.setWaitingMoney(["refund", "decision", "held", "void"].map((kind) => ({ kind, count: 0, seconds: 0 })));
  keeper.setUnbalanced([{ currency: "MXN", amount: 0 }]);
  keeper.setSilentClients(0);
  keeper.setPullAge(0);
  keeper.setMails([{ kind: "mail", count: 0, seconds: 0 }]);
  keeper.setSyncLag(0);
  for (const schedule of SCHEDULES) keeper.setBacklog(schedule, { count: 0, seconds: 0 });
};

export const letters = (
  keeper: Metrics,
  open: Readonly<Record<string, readonly [count: number, seconds: number]>>,
): void =>
  keeper.setOpenLetters(
    kinds.flatMap((kind) =>
      ["waiting", "retrying", "parked"].map((state) => {
        const [count, seconds] = open[`${kind} ${state}`] ?? [0, 0];
        return { kind, state, count, seconds };
      }),
    ),
  );

export const write = (
  metrics: Metrics,
  sink: string,
  ageSeconds: number,
  rejected: ReadonlyMap<string, number> = new Map(),
): void => {
  const now = 1_000_000_000_000;
  const receivedAt = [now - ageSeconds * 1_000];
  metrics.countWrite({ sink, table: sink, rows: 1, rejected, seconds: 0.01, receivedAt }, now);
};
export const answer = (metrics: Metrics, edge: string, status: number): void =>
  metrics.countRequest({ edge, status, seconds: 0.01, accepted: 0, refused: new Map() });
export const stage = (metrics: Metrics, over: { rejected?: ReadonlyMap<string, number>; truncated?: number }): void =>
  metrics.countBatch({
    ...{ chain: "settle", topic: "claims", partition: 0, messages: 1, unreadable: new Map(), seconds: 0.01 },
    stages: [
      {
        ...{ stage: "settle", events: 1, emitting: 0, outputs: 0, dropped: new Map(), rejected: new Map() },
        ...{ recalled: 0, truncated: 0, ...over },
      },
    ],
  });

/** A visitor a minute: the archive stores after a minute by design, all others at once. */
export const quietMinute = ({ money, ingest, keeper }: Installation): void => {
  answer(ingest, "batch", 200);
  for (const { is, name } of readersOf(pipeline)) if (is === "sink") write(money, name, name === "archive" ? 58 : 1);
  lag(money, "tributary.archive", "events.raw", 55);
  for (const schedule of SCHEDULES) keeper.countRun({ schedule, done: 0, isFailed: false, seconds: 0.1 });
};
