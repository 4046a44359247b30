// A member of a consumer group while its client runs: checks each batch, and commits, seeks and
// rests for the work on it.
import type { Control, FetchedBatch } from "../../stream/messages.ts";
import { classify } from "../runtime/errors.ts";
import { type Progress, watchProgress } from "../runtime/timing/progress.ts";
import { retry } from "../runtime/timing/retry.ts";
import { onOutOfRange } from "./client/repairs.ts";
import type { ClientBatch, ClientConsumer } from "./client/types.ts";
import { Commits } from "./commits.ts";
import { LogGap, MembershipLost, rootOf } from "./errors.ts";
import { messagesOf, type ReadSettings } from "./fetch-settings.ts";

/** A position of the group that the log does not hold. */
interface OutOfRange {
  readonly topic: string;
  readonly partition: number;
  readonly position: number;
}

export interface ConsumerSettings {
  readonly group: string;
  readonly topics: readonly string[];
  readonly reading?: ReadSettings;
  /**
   * Handles one batch. If it resolves without a commit, the position stays where it was, and the
   * same batch comes again. A throw ends the consumer.
   */
  readonly onBatch: (batch: FetchedBatch, control: Control) => Promise<void>;
  /**
   * Called when the log does not hold a position any more: records in front of it were deleted, or
   * the log lost its end. The partition is then read from the start of the log. Without this
   * callback the consumer ends with LogGap.
   */
  readonly onOutOfRange?: (lost: OutOfRange) => void;
  /**
   * Called whenever the group has been joined again, before the first batch of the new membership.
   */
  readonly onJoin?: () => void;
  /**
   * Called once, when this consumer has ended without a stop. The process must then exit with 1,
   * because a crashed consumer stays idle for ever.
   */
  readonly onCrash: (error: Error) => void;
}

/** Ends the client, which would otherwise try the same batch again. */
class EndOfClient extends Error {
  readonly retriable = false;
}

/**
 * A batch whose work stands still for longer ends the member. It has lost its partitions by then,
 * and a process that holds them again and reads nothing would be seen by no one.
 */
const SESSIONS_OF_SILENCE = 2;

/** The same broker would give the same answer again: the client must join the group again. */
const membershipTypes = new Set([
  "REBALANCE_IN_PROGRESS",
  "ILLEGAL_GENERATION",
  "UNKNOWN_MEMBER_ID",
  "FENCED_INSTANCE_ID",
  "NOT_COORDINATOR_FOR_GROUP",
]);
const isOfMembership = (error: unknown): boolean =>
  membershipTypes.has((rootOf(error as Error) as { type?: string }).type ?? "");

export class Member {
  readonly #client: ClientConsumer;
  readonly #prefix: string;
  readonly #settings: ConsumerSettings;
  readonly #sessionMs: number;
  #memberId = "";
  /** Changes whenever the group is joined: a batch of an older generation must not be finished. */
  #generation = 0;
  #owned: Readonly<Record<string, readonly number[]>> = {};
  #lastHeard = performance.now();
  #isStopping = false;
  #hasEnded = false;
  /**
   * `run` of the client also resolves when the group could not be joined. Only the event shows that
   * it was.
   */
  #isJoined = false;
  #notJoined: Error | undefined;
  /** Low-water guard: the highest offset committed in this generation, by topic and partition. */
  readonly #committed = new Map<string, number>();
  readonly #commits = new Commits();
  /**
   * Positions that this member has sought in this generation. If the log no longer holds one of
   * them, the partition is read from the start of the log.
   */
  readonly #sought = new Set<string>();

  constructor(client: ClientConsumer, prefix: string, settings: ConsumerSettings, reading: ReadSettings) {
    this.#client = client;
    this.#prefix = prefix;
    this.#settings = settings;
    this.#sessionMs = reading.sessionTimeoutMs;
    client.on(client.events.HEARTBEAT, () => {
      this.#lastHeard = performance.now();
    });
    client.on(client.events.GROUP_JOIN, ({ payload }) => this.#join(payload.memberId, payload.memberAssignment));
    client.on(client.events.REBALANCING, () => {
      this.#owned = {};
    });
    client.on(client.events.CRASH, ({ payload }) => {
      const error = rootOf(payload.error);
      if (this.#isJoined) this.#crash(error);
      else this.#notJoined = error;
    });
  }

  /** Throws when the group could not be joined. */
  begin(): void {
    if (this.#notJoined !== undefined) throw this.#notJoined;
    this.#isJoined = true;
  }

  assigned(): Readonly<Record<string, readonly number[]>> {
    return this.#owned;
  }
  silentMs(): number {
    return performance.now() - this.#lastHeard;
  }
  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#client.stop();
    this.#end();
    await this.#client.disconnect();
  }

  #join(memberId: string, assignment: Readonly<Record<string, readonly number[]>>): void {
    this.#generation++;
    this.#committed.clear();
    this.#sought.clear();
    onOutOfRange.delete(this.#memberId);
    onOutOfRange.set(memberId, (topic, partition, position) => this.#goesOn(topic, partition, position));
    this.#memberId = memberId;
    this.#settings.onJoin?.();
    this.#lastHeard = performance.now();
    this.#owned = Object.fromEntries(
      Object.entries(assignment).map(([topic, list]) => [topic.slice(this.#prefix.length), list]),
    );
  }

  #goesOn(topic: string, partition: number, position: number): boolean {
    if (this.#sought.has(`${topic}-${partition}`)) return true;
    const { onOutOfRange: report } = this.#settings;
    report?.({ topic: topic.slice(this.#prefix.length), partition, position });
    return report !== undefined;
  }

  #end(): void {
    this.#hasEnded = true;
    this.#owned = {};
    onOutOfRange.delete(this.#memberId);
  }

  #crash(error: Error): void {
    if (this.#hasEnded) return;
    this.#end();
    this.#settings.onCrash(error);
  }

  chosen(topic: string, partitions?: readonly number[]) {
    return [
      partitions === undefined
        ? { topic: this.#prefix + topic }
        : { topic: this.#prefix + topic, partitions: [...partitions] },
    ];
  }

  async take(given: ClientBatch): Promise<void> {
    if (this.#hasEnded) throw new EndOfClient("this consumer has ended");
    const { batch } = given;
    const { partition } = batch;
    const topic = batch.topic.slice(this.#prefix.length);
    this.#sought.delete(`${batch.topic}-${partition}`);
    const membership: Membership = { lost: undefined };
    const progress = watchProgress(
      `${topic}/${partition}@${batch.firstOffset()}`,
      SESSIONS_OF_SILENCE * this.#sessionMs,
    );
    const control = this.#controlOf(given, membership, progress);
    try {
      checkWhole(topic, batch);
      const highWatermark = Number(batch.highWatermark);
      const work = this.#settings.onBatch({ topic, partition, messages: messagesOf(batch), highWatermark }, control);
      await Promise.race([work, progress.stuck]);
    } catch (error) {
      // The client can join again after this error; it would retry any other one for ever on the
      // same record.
      if (membership.lost !== undefined) throw membership.lost;
      this.#crash(error as Error);
      throw new EndOfClient("a batch could not be finished", { cause: error });
    } finally {
      progress.end();
    }
  }

  #controlOf(
    { batch, isRunning, isStale, ...client }: ClientBatch,
    membership: Membership,
    { during }: Progress,
  ): Control {
    const { topic, partition } = batch;
    const place = `${topic}-${partition}`;
    const startedIn = this.#generation;
    const asMember = async (step: () => Promise<void>): Promise<void> => {
      try {
        await step();
      } catch (error) {
        // A coordinator that is away or has moved does not end the process: the client finds it
        // again, and the batch comes again.
        if (!isOfMembership(error) && classify(error) !== "transient") throw error;
        membership.lost = error;
        throw new MembershipLost(error);
      }
    };
    return {
      // A batch that is under way when stop() is called is finished, because some of its effects
      // may be out already.
      isCurrent: () =>
        membership.lost === undefined &&
        (isRunning() || this.#isStopping) &&
        !isStale() &&
        this.#generation === startedIn &&
        this.silentMs() < this.#sessionMs,
      heartbeat: () => during("a heartbeat", () => asMember(client.heartbeat)),
      commit: async (nextOffset) => {
        if (nextOffset <= (this.#committed.get(place) ?? -1)) return;
        if (nextOffset > Number(batch.lastOffset()) + 1) throw new Error(`${place}: ${nextOffset} is beyond the batch`);
        // The batch's own function is used, because the consumer's does nothing once stop() has
        // begun (infra/kafka/README.md K7).
        const tries = {
          deadlineMs: this.#sessionMs,
          isTransient: (error: unknown) => !isOfMembership(error) && classify(error) === "transient",
        };
        const once = () => this.#commits.commit(batch, nextOffset, client.commitOffsetsIfNecessary);
        await during("a commit", () => asMember(() => retry(once, tries)));
        this.#committed.set(place, nextOffset);
        client.resolveOffset(String(nextOffset - 1));
      },
      seek: (offset) => {
        this.#committed.delete(place);
        this.#sought.add(place);
        this.#client.seek({ topic, partition, offset: String(offset) });
      },
      readOn: (offset) => client.resolveOffset(String(offset - 1)),
      rest: (ms) => this.#rest(topic, partition, ms),
      sessionMs: this.#sessionMs,
      isStopping: () => this.#isStopping,
    };
  }

  #rest(topic: string, partition: number, ms: number): void {
    const one = [{ topic, partitions: [partition] }];
    this.#client.pause(one);
    // A member that has ended by then has nothing to resume.
    setTimeout(() => {
      if (!this.#hasEnded) this.#client.resume(one);
    }, ms).unref();
  }
}

interface Membership {
  /** The answer of the group after it had moved on. */
  lost: unknown;
}

/**
 * Throws LogGap when records are missing at the beginning of the fetch or inside of it. No topic
 * that a group reads is compacted, so each offset has its record, transaction markers included.
 */
const checkWhole = (topic: string, batch: ClientBatch["batch"]): void => {
  const { fetchedOffset, messagesWithinOffset } = batch as unknown as {
    readonly fetchedOffset: string;
    readonly messagesWithinOffset: readonly { readonly offset: string }[];
  };
  if (messagesWithinOffset.length === 0) return;
  const first = Number(messagesWithinOffset[0]!.offset);
  const last = Number(messagesWithinOffset.at(-1)!.offset);
  if (first > Number(fetchedOffset))
    throw new LogGap(topic, batch.partition, `asked for offset ${fetchedOffset}, got ${first}`);
  const missing = last - first + 1 - messagesWithinOffset.length;
  if (missing > 0) throw new LogGap(topic, batch.partition, `${missing} records are missing from ${first} to ${last}`);
};
