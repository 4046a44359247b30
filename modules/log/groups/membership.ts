// Keeps this process in its consumer groups and out of those that are held: leaves a held group
// cleanly, and joins again once it is released.

import { setTimeout } from "node:timers/promises";
import type { Consumer } from "../../../infra/kafka/kafka.ts";
import type { Log } from "../../../infra/runtime/log.ts";
import type { Resource } from "../../../infra/runtime/scope.ts";
import { within } from "../../../infra/runtime/timing/time-limit.ts";

/**
 * A command at the other end waits until the group is Empty. One small query a second a worker
 * keeps that wait short.
 */
const ASKED_EVERY_MS = 1_000;
/**
 * Leaving can hang on requests in flight (infra/kafka/README.md K11). After this time the process
 * ends, and its successor finds the hold before it joins.
 */
const LEFT_WITHIN_MS = 20_000;

export interface Membership {
  readonly group: string;
  /**
   * Throws when the group is not being read; returns the reason when it is held, else undefined.
   */
  readonly check: () => string | undefined;
}

export interface MembershipSettings {
  readonly group: string;
  readonly join: () => Promise<Consumer>;
  /** How long a silent member still counts as alive. */
  readonly sessionTimeoutMs: number;
  readonly log: Pick<Log, "info">;
  readonly fail: (error: Error) => void;
}

interface Member extends Membership {
  /**
   * Takes what holds the group, or null when nothing does. Resolves when the group has been left or
   * joined accordingly.
   */
  readonly follow: (heldBy: string | null) => Promise<void>;
  readonly stop: () => Promise<void>;
}

/** One group: either joined or left, even when calls overlap. */
const member = ({ group, join, sessionTimeoutMs, log }: Omit<MembershipSettings, "fail">): Member => {
  let heldBy: string | null = null;
  let consumer: Consumer | undefined;
  let isClosing = false;
  let turn: Promise<void> = Promise.resolve();

  const leave = async (): Promise<void> => {
    const leaving = consumer;
    consumer = undefined;
    // stop() finishes and commits the batch in progress, so that committed = processed afterwards.
    await leaving?.stop();
  };
  const settle = async (): Promise<void> => {
    if (isClosing) return;
    if (heldBy !== null && consumer !== undefined) {
      await within(LEFT_WITHIN_MS, leave(), `${group} could not be left within ${LEFT_WITHIN_MS / 1_000} s`);
      log.info("group.held", { group, by: heldBy });
    } else if (heldBy === null && consumer === undefined) {
      consumer = await join();
      log.info("group.joined", { group });
    }
  };
  return {
    group,
    check: () => {
      if (heldBy !== null && consumer === undefined) return `held by ${heldBy}`;
      if (consumer === undefined) throw new Error("the group is not joined yet");
      // Readiness means progress, not a connection: a member that its group has not heard for a
      // whole session does no work.
      if (consumer.silentMs() >= sessionTimeoutMs) throw new Error("the group has not heard this member for a session");
      return undefined;
    },
    follow: (by) => {
      heldBy = by;
      // The caller of the earlier turn has already reported its failure.
      turn = turn.catch(() => undefined).then(settle);
      return turn;
    },
    stop: async () => {
      isClosing = true;
      await turn.catch(() => undefined);
      await leave();
    },
  };
};

type HeldGroups = ReadonlyMap<string, string>;

/**
 * Returns a function that reads the held groups, and returns null while they cannot be read. A
 * failure is logged once per outage: the last result stays in force, and the next query follows in
 * a second.
 */
const openReader = (heldAmong: () => Promise<HeldGroups>, log: Pick<Log, "warn">) => {
  let isUnanswered = false;
  return async (): Promise<HeldGroups | null> => {
    try {
      const held = await heldAmong();
      isUnanswered = false;
      return held;
    } catch (error) {
      if (!isUnanswered) log.warn("holds.unknown", { error });
      isUnanswered = true;
      return null;
    }
  };
};

const joinOrLeave = (one: Member, held: HeldGroups): Promise<void> => one.follow(held.get(one.group) ?? null);

/**
 * Resolves once every group is joined or found to be held; nothing is joined before the first
 * result of `heldAmong`. A later failure of `heldAmong` changes nothing. A group that cannot be
 * joined or left ends the process through `fail`.
 */
export const openMemberships = async (
  settings: readonly MembershipSettings[],
  heldAmong: () => Promise<HeldGroups>,
  log: Pick<Log, "warn">,
  closing: AbortSignal,
  everyMs = ASKED_EVERY_MS,
): Promise<Resource<readonly Membership[]>> => {
  const members = settings.map(member);
  const read = openReader(heldAmong, log);
  // Rejects when the worker closes.
  const pause = (): Promise<unknown> => setTimeout(everyMs, undefined, { signal: closing });
  const untilRead = async (): Promise<HeldGroups> => {
    for (;;) {
      const held = await read();
      if (held !== null) return held;
      await pause();
    }
  };
  const stop = async (): Promise<void> => {
    await Promise.all(members.map((one) => one.stop()));
  };
  let before = await untilRead();
  try {
    // In parallel: each may have to wait for the session of a killed member to end.
    await Promise.all(members.map((one) => joinOrLeave(one, before)));
  } catch (error) {
    await stop();
    throw error;
  }

  const watching = (async () => {
    for (;;) {
      await pause();
      const held = await untilRead();
      for (const [n, one] of members.entries())
        if (held.get(one.group) !== before.get(one.group)) joinOrLeave(one, held).catch(settings[n]!.fail);
      before = held;
    }
  })().catch(() => undefined);
  return {
    value: members,
    stop: async () => {
      await watching;
      await stop();
    },
  };
};
