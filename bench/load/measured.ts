// The measures of one run of the ingest bench on a process that takes bodies of events, and the
// table of many runs.
import { table } from "../../infra/runtime/output.ts";
import { median } from "../figures.ts";

/** CPU in microseconds an event. */
export interface Measured {
  readonly who: string;
  readonly batch: number;
  readonly eventsPerSecond: number;
  readonly edgeUs: number;
  readonly brokerUs: number;
  readonly generatorUs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly rssMiB: number;
  readonly refusedBodies: number;
}

const headers = "who,batch,events/s,edge us,broker us,generator us,p50 ms,p99 ms,RSS MiB,refused".split(",");

/** Medians over the runs, by process and size of body. */
export const tableOf = (all: readonly Measured[]): string => {
  const kinds = [...new Set(all.map(({ who, batch }) => `${who}|${batch}`))];
  const rows = kinds.map((kind) => {
    const own = all.filter(({ who, batch }) => `${who}|${batch}` === kind);
    const of = (pick: (one: Measured) => number) => median(own.map(pick));
    return [
      own[0]!.who,
      own[0]!.batch,
      Math.round(of((one) => one.eventsPerSecond)),
      of((one) => one.edgeUs).toFixed(1),
      of((one) => one.brokerUs).toFixed(1),
      of((one) => one.generatorUs).toFixed(1),
      of((one) => one.p50Ms).toFixed(0),
      of((one) => one.p99Ms).toFixed(0),
      of((one) => one.rssMiB).toFixed(0),
      own.reduce((sum, one) => sum + one.refusedBodies, 0),
    ];
  });
  return table(headers, rows);
};
