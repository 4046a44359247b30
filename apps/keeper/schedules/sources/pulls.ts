// The schedules of pulls: requests windows of active sources every 15 minutes, and pulls open
// windows, a few sources at a time.
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
import { keepLease } from "../../lease.ts";

export interface PullSettings extends Pick<PullPorts, "facts" | "hides" | "wire" | "produce" | "keyring" | "signal"> {
  readonly pool: Pool;
  readonly kafka: Kafka;
  readonly log: Pick<Log, "info" | "warn">;
}

const EVERY_MS = 15 * 60_000;
/**
 * The length of a turn; then the next window is pulled. A schedule that does not return counts as
 * dead.
 */
const TURN_MS = 30_000;
const SOURCES_AT_ONCE = 4;
const ADMIN_MS = 10_000;

/** Opens the ports of a lane; `admin` answers how many pulled events still wait in the log. */
const lanePorts = (
  { pool, kafka: _, log: __, ...given }: PullSettings,
  admin: ReturnType<typeof lastingAdmin>,
): PullPorts => {
  const log = {
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
  return {
    ...given,
    known: (pull, hashes) => knownRows(pool, pull, hashes),
    allowed: () => allowedNetworks(pool),
    waiting: () => waitingEvents({ admin: async () => log, hosts }),
    clock: Date.now,
  };
};

/** Works on one window for one turn. Returns how many rows it brought, 0 when no window waits. */
const turn = async ({ pool, log }: PullSettings, ports: PullPorts, isOver: () => boolean): Promise<number> => {
  const owner = randomUUID();
  const pull = await claimPull(pool, owner);
  if (pull === undefined) return 0;
  const owned = ownedPull(pool, pull, owner);
  const lease = keepLease(owned.renew, leaseMs, PullLost);
  try {
    const rows = await workPull(pull, owned, ports, () => lease.isLost() || isOver());
    if (rows > 0) log.info("pull.moved", { pull_id: pull.pull_id, source_id: pull.source_id, rows });
    return rows;
  } catch (error) {
    // While this process was suspended, another one has taken the window over.
    if (error instanceof PullLost) return 0;
    const { message } = error as Error;
    if (classify(error) === "transient" || error instanceof Unavailable)
      await owned.release(1_000).catch(() => undefined);
    else await owned.end("failed", { code: "internal", field: null, message }).catch(() => undefined);
    throw error;
  } finally {
    lease.stop();
  }
};

/** Any number of keepers may run it: the lease of a window gives it one lane. */
export const pulls = (settings: PullSettings): Resource<Schedule> => {
  const { pool, kafka } = settings;
  const admin = lastingAdmin(kafka, ADMIN_MS);
  const ports = lanePorts(settings, admin);
  return {
    value: {
      name: "pulls",
      pauseMs: 1_000,
      work: async (isClosing) => {
        await schedulePulls(pool, EVERY_MS);
        const end = performance.now() + TURN_MS;
        const isOver = () => isClosing() || performance.now() > end;
        const turns = await Promise.allSettled(
          Array.from({ length: SOURCES_AT_ONCE }, () => turn(settings, ports, isOver)),
        );
        const failed = turns.find((one) => one.status === "rejected");
        if (failed !== undefined) throw failed.reason;
        return turns.reduce((sum, one) => sum + (one.status === "fulfilled" ? one.value : 0), 0);
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
