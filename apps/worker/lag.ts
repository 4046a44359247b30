// Reports the lag of each hosted group as gauges.

import { type Kafka, type LastingAdmin, lastingAdmin } from "../../infra/kafka/kafka.ts";
import type { Log } from "../../infra/runtime/log.ts";
import type { Metrics } from "../../infra/runtime/metrics.ts";
import type { Resource } from "../../infra/runtime/scope.ts";
import { openRounds } from "../../infra/runtime/timing/rounds.ts";

export interface LagPorts {
  readonly kafka: Pick<Kafka, "admin">;
  readonly groups: readonly { readonly name: string; readonly reads: { readonly name: string } }[];
  readonly metrics: Pick<Metrics, "setLag" | "setKnown">;
  readonly log: Pick<Log, "warn">;
  readonly everyMs?: number;
  readonly withinMs?: number;
}

const EVERY_MS = 5_000;
/** A busy broker answers within this time; after it, a new connection is the better try. */
const WITHIN_MS = 10_000;

export const reportLag = ({ kafka, everyMs = EVERY_MS, withinMs = WITHIN_MS, ...ports }: LagPorts): Resource<null> => {
  const admin = lastingAdmin(kafka, withinMs);
  const rounds = openRounds({
    everyMs,
    round: lagRound(admin, ports),
    onFailure: (error) => ports.log.warn("lag.unknown", { error }),
  });
  return {
    value: null,
    stop: () => {
      rounds.stop();
      return admin.close();
    },
  };
};

/**
 * Returns a round that measures the lag in records and in seconds. The seconds say how long the
 * committed offset has stood still while records wait: the oldest record has waited at least that
 * long.
 */
const lagRound = ({ ask }: LastingAdmin, { groups, metrics }: Pick<LagPorts, "groups" | "metrics">) => {
  let waitingSince: Readonly<Record<string, number>> = {};
  return async (): Promise<void> => {
    const since: Record<string, number> = {};
    const unknown = (error: unknown): never => {
      for (const { name } of groups) metrics.setLag(name, null);
      metrics.setKnown("group_lag", false);
      throw error;
    };
    for (const { name, reads } of groups) {
      const now = Date.now();
      const lags = await ask((admin) => admin.lag(name, [reads.name])).catch(unknown);
      const partitions = lags.map(({ topic, partition, lag, committed }) => {
        const place = `${name}/${topic}/${partition}@${committed}`;
        if (lag > 0) since[place] = waitingSince[place] ?? now;
        return { topic, partition, lag, seconds: lag > 0 ? (now - since[place]!) / 1_000 : 0 };
      });
      metrics.setLag(name, partitions);
    }
    metrics.setKnown("group_lag", true);
    waitingSince = since;
  };
};
