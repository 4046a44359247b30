// Keeps this process in its consumer groups, and out of those that are held: leaves them in order,
// and joins again when released.

import { setTimeout } from "node:timers/promises";
import type { Consumer } from "../../../infra/kafka/kafka.ts";
import type { Log } from "../../../infra/runtime/log.ts";
import type { Resource } from "../../../infra/runtime/scope.ts";
import { within } from "../../../infra/runtime/timing/within.ts";

/**
 * What a command at the other end waits for is that the group is Empty; asking a second apart costs
 * a worker one small query.
 */
const ASKED_EVERY_MS = 1_000;
/**
 * infra/kafka/README.md K11: leaving can hang on requests in flight. Then the process ends, and its
 * successor finds the hold before it joins.
 */
const LEFT_WITHIN_MS = 20_000;

export interface Membership {
  readonly group: string;
  /** Throws unless the group is read, says why when it is held, else nothing. */
  readonly check: () => string | undefined;
}

export interface MembershipSettings {
  readonly group: string;
  readonly join: () => Promise<Consumer>;
  /** How long a silent member still counts as one. */
  readonly sessionTimeoutMs: number;
  readonly log: Pick<Log, "info">;
  readonly fail: (error: Error) => void;
}

interface Member extends Membership {
  /**
   * By what the group is held; null when it is not. Resolves when the group has been left or joined
   * accordingly.
   */
  readonly follow: (heldBy: string | null) => Promise<void>;
  readonly stop: () => Promise<void>;
}

/** One group: joined or left, never both at once, whatever is asked meanwhile. */
const member = ({ group, join, sessionTimeoutMs, log }: Omit<MembershipSettings, "fail">): Member => {
  let heldBy: string | null = null;
  let consumer: Consumer | undefined;
  let isClosing = false;
  let turn: Promise<void> = Promise.resolve();

  const leave = async (): Promise<void> => {
    const leaving = consumer;
    consumer = undefined;
    // The batch under way is finished and committed first: afterwards committed = processed.
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
      // Readiness is progress, not a connection: a member that its group has not heard for a
      // session does no work.
      if (consumer.silentMs() >= sessionTimeoutMs) throw new Error("the group has not heard this member for a session");
      return undefined;
    },
    follow: (by) => {
      heldBy = by;
      // A turn that failed was reported by its caller.
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

/**
 * Resolves once every group is joined or known to be held: until `heldAmong` has answered once,
 * nothing is joined. Later a question without an answer changes nothing. What cannot be joined or
 * left ends the process through `fail`.
 */
export const openMemberships = async (
  settings: readonly MembershipSettings[],
  heldAmong: () => Promise<ReadonlyMap<string, string>>,
  log: Pick<Log, "warn">,
  closing: AbortSignal,
  everyMs = ASKED_EVERY_MS,
): Promise<Resource<readonly Membership[]>> => {
  const members = settings.map(member);
  let isUnanswered = false;

  const ask = async (): Promise<ReadonlyMap<string, string> | null> => {
    try {
      const held = await heldAmong();
      isUnanswered = false;
      return held;
    } catch (error) {
      // Logged once: what is known stays, and the next question is a second away.
      if (!isUnanswered) log.warn("holds.unknown", { error });
      isUnanswered = true;
      return null;
    }
  };
  // Rejects when the worker closes.
  const pause = (): Promise<unknown> => setTimeout(everyMs, undefined, { signal: closing });
  const first = async (): Promise<ReadonlyMap<string, string>> => {
    for (;;) {
      const held = await ask();
      if (held !== null) return held;
      await pause();
    }
  };
  const stop = async (): Promise<void> => {
    await Promise.all(members.map((one) => one.stop()));
  };
  let before = await first();
  try {
    // Together: each may have to wait for the session of a member that was killed.
    await Promise.all(members.map((one) => one.follow(before.get(one.group) ?? null)));
  } catch (error) {
    await stop();
    throw error;
  }

  const watching = (async () => {
    for (;;) {
      await pause();
      const held = await ask();
      if (held === null) continue;
      for (const [n, one] of members.entries()) {
        const by = held.get(one.group) ?? null;
        if (by !== (before.get(one.group) ?? null)) one.follow(by).catch(settings[n]!.fail);
      }
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
