// POST /admin/wal-replay: asks for the last hours of the log to be written to the stores again, and
// answers when they are. The lane itself runs in the keeper.
import type { Request, Response } from "express";
import type { Pool } from "pg";
import { Problem, unavailable } from "../../../infra/http/problem.ts";
import { localWindow } from "../../../infra/http/rate-limit.ts";
import { classify } from "../../../infra/runtime/errors.ts";
import type { Log } from "../../../infra/runtime/log.ts";
import type { Token } from "../../../modules/access/tokens/tokens.ts";
import { type Replay, readReplay, requestReplay } from "../../../modules/log/replays/replays.ts";
import { awaitReplay, progressOf, ReplayStalled, reportOf } from "../../../modules/log/replays/report.ts";

export interface WalReplayParts {
  /** Of the kind admin. */
  readonly authenticate: (request: Request, address: string) => Token;
  readonly pool: Pool;
  /** Names of all sinks that a replay writes to. */
  readonly sinks: readonly string[];
  readonly closing: AbortSignal;
  readonly log: Pick<Log, "warn">;
}

const DEFAULT_HOURS = 6;
const MOST_HOURS = 48;
const HOUR_MS = 3_600_000;
const CALLS_A_MINUTE = { limit: 60, windowMs: 60_000 };
/**
 * Longer than a lane that was killed stands still (15 s), and than a store may be away (60 s,
 * docs/design/laws.md L1).
 */
const STALLED_MS = 75_000;

export const walReplayRoutes = (parts: WalReplayParts) => {
  const calls = localWindow(CALLS_A_MINUTE);
  /** All who wait for one replay ask the database once. */
  const followed = new Map<string, Promise<Replay>>();
  const follow = (replayId: string): Promise<Replay> => {
    const known = followed.get(replayId);
    if (known !== undefined) return known;
    const ended = awaitReplay(parts.pool, replayId, { stalledMs: STALLED_MS, signal: parts.closing }).finally(() =>
      followed.delete(replayId),
    );
    // Requests that wait for it see its failure; they may all have gone.
    ended.catch(() => undefined);
    followed.set(replayId, ended);
    return ended;
  };

  const admitted = (request: Request): Token => {
    const token = parts.authenticate(request, request.ip ?? "");
    if (!calls.take(String(token.token_id), performance.now()).isAllowed)
      throw new Problem("rate_limited", "a token may call 60 times a minute", { headers: { "Retry-After": "5" } });
    return token;
  };
  const asking = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      if (parts.closing.aborted) throw unavailable("this host is closing; the replay goes on: call again", 2);
      if (error instanceof ReplayStalled)
        throw unavailable(
          `${error.replay.replay_id} is not lost: see GET /admin/wal-replay/${error.replay.replay_id}`,
          5,
        );
      if (classify(error) !== "transient") throw error;
      parts.log.warn("replay.not_read", { error });
      throw unavailable("replays cannot be asked for now", 2);
    }
  };

  return {
    /**
     * A caller that hangs up has asked all the same: the lane goes on. The next call joins it only
     * before it has begun, see requestReplay.
     */
    start: async (request: Request, response: Response): Promise<void> => {
      const token = admitted(request);
      const hours = hoursIn(request.query.hours);
      const replay = await asking(async () => {
        const wanted = {
          actor: `token:${token.token_id}`,
          hours,
          from: Date.now() - hours * HOUR_MS,
          to: null,
          sinks: parts.sinks,
        };
        const { replay_id } = await requestReplay(parts.pool, wanted);
        return follow(replay_id);
      });
      const { state: _, sinks: __, ...report } = reportOf(replay);
      response.json(report);
    },
    show: async (request: Request, response: Response): Promise<void> => {
      admitted(request);
      const replay = await asking(() => readReplay(parts.pool, String(request.params.replay_id)));
      if (replay === undefined) throw new Problem("not_found", "there is no such replay");
      const { done, total } = progressOf(replay);
      response.json({ ...reportOf(replay), records_done: done, records_total: total });
    },
  };
};

const hoursIn = (given: unknown): number => {
  if (given === undefined) return DEFAULT_HOURS;
  const hours = typeof given === "string" && /^\d{1,2}$/.test(given) ? Number(given) : 0;
  if (hours >= 1 && hours <= MOST_HOURS) return hours;
  throw new Problem("validation_failed", `hours must be given once: a whole number from 1 to ${MOST_HOURS}`, {
    errors: [{ pointer: "/hours", code: "bad_hours", detail: `is not a whole number from 1 to ${MOST_HOURS}` }],
  });
};
