// The schedules of pulls: windows of active sources are asked for every 15 minutes, and those that
// are open are pulled, a few sources at a time.
import { randomUUID } from "node:crypto";
import type { Pool } from "pg";
import { type Kafka, lastingAdmin } from "../../../../infra/kafka/kafka.ts";
import { classify, Unavailable } from "../../../../infra/runtime/errors.ts";
import type { Log } from "../../../../infra/runtime/log.ts";
import type { Resource } from "../../../../infra/runtime/scope.ts";
import type { Schedule } from "../../../../infra/runtime/timing/schedule.ts";
import { waitingEvents } from "../../../../modules/figures/receipts/waiting-events.ts";
import { allowedNetworks } from "../../../../modules/intake/pulls/allowed-networks.ts";
import { forgetPulls, ownedPull } from "../../../../modules/intake/pulls/owned-pull.ts";
import { type PullPorts, workPull } from "../../../../modules/intake/pulls/pull-lane.ts";
import { claimPull, knownRows, leaseMs, PullLost, schedulePulls } from "../../../../modules/intake/pulls/pulls.ts";
import { hostings } from "../../../../modules/log/groups/group-holds.ts";
import { hostsNow } from "../../../../modules/log/groups/hosts.ts";
import { pipeline } from "../../../../topology.ts";

export interface PullSettings extends Pick<PullPorts, "facts" | "hides" | "wire" | "produce" | "keyring" | "signal"> {
  readonly pool: Pool;
  readonly kafka: Kafka;
  readonly log: Pick<Log, "info" | "warn">;
}

const EVERY_MS = 15 * 60_000;
/** Then the next window has its turn: a schedule that does not return counts as dead. */
const TURN_MS = 30_000;
const SOURCES_AT_ONCE = 4;
const ADMIN_MS = 10_000;

/** Any number of keepers may run it: each window has one lane, by its lease. */
export const pulls = ({ pool, kafka, log, ...given }: PullSettings): Resource<Schedule> => {
  const admin = lastingAdmin(kafka, ADMIN_MS);
  const asked = {
    watermarks: (topic: string) => admin.ask((one) => one.watermarks(topic)),
    offsetsAt: (topic: string, at: number) => admin.ask((one) => one.offsetsAt(topic, at)),
    committed: (group: string, topic: string) => admin.ask((one) => one.committed(group, topic)),
  };
  const hosts = () =>
    hostsNow({
      topology: pipeline,
      recorded: () => hostings(pool),
      describeGroups: (groups) => admin.ask((one) => one.describeGroups(groups)),
    });
  const ports: PullPorts = {
    ...given,
    known: (pull, hashes) => knownRows(pool, pull, hashes),
    allowed: () => allowedNetworks(pool),
    waiting: () => waitingEvents({ admin: async () => asked, hosts }),
    clock: Date.now,
  };

  /** One turn of one window; answers how many rows it brought, undefined when none waits. */
  const turn = async (isOver: () => boolean): Promise<number | undefined> => {
    const owner = randomUUID();
    const pull = await claimPull(pool, owner);
    if (pull === undefined) return undefined;
    const owned = ownedPull(pool, pull, owner);
    let isLost = false;
    const renewing = setInterval(() => {
      owned.renew().catch((error) => {
        isLost ||= error instanceof PullLost;
      });
    }, leaseMs / 3);
    try {
      const rows = await workPull(pull, owned, ports, () => isLost || isOver());
      if (rows > 0) log.info("pull.moved", { pull_id: pull.pull_id, source_id: pull.source_id, rows });
      return rows;
    } catch (error) {
      // Taken over by a process that found this one asleep.
      if (error instanceof PullLost) return 0;
      const { message } = error as Error;
      if (classify(error) === "transient" || error instanceof Unavailable)
        await owned.release(1_000).catch(() => undefined);
      else await owned.end("failed", { code: "internal", field: null, message }).catch(() => undefined);
      throw error;
    } finally {
      clearInterval(renewing);
    }
  };

  return {
    value: {
      name: "pulls",
      pauseMs: 1_000,
      work: async (isClosing) => {
        await schedulePulls(pool, EVERY_MS);
        const end = performance.now() + TURN_MS;
        const isOver = () => isClosing() || performance.now() > end;
        const turns = await Promise.allSettled(Array.from({ length: SOURCES_AT_ONCE }, () => turn(isOver)));
        const failed = turns.find((one) => one.status === "rejected");
        if (failed !== undefined) throw failed.reason;
        return turns.reduce((sum, one) => sum + (one.status === "fulfilled" ? (one.value ?? 0) : 0), 0);
      },
    },
    stop: admin.close,
  };
};

export const forgettingPulls = (pool: Pool): Schedule => ({
  name: "pulls-forget",
  pauseMs: 3_600_000,
  work: () => forgetPulls(pool),
});
