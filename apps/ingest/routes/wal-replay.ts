// POST /admin/wal-replay: requests a replay of the last hours of the log to the stores, and answers
// when it is done. The keeper runs it.
import type { Request, Response } from "express";
import type { Pool } from "pg";
import { Problem, unavailable } from "../../../infra/http/problem.ts";
import { localWindow } from "../../../infra/http/rate-limit.ts";
import { classify } from "../../../infra/runtime/errors.ts";
import type { Log } from "../../../infra/runtime/log.ts";
import type { Token } from "../../../modules/access/tokens/tokens.ts";
import { isReplayId, type Replay, readReplay, requestReplay } from "../../../modules/log/replays/replays.ts";
import { awaitReplay, progressOf, ReplayStalled, reportOf } from "../../../modules/log/replays/report.ts";

export interface WalReplayParts {
  /** Takes tokens of the kind admin. */
  readonly authenticate: (request: Request, address: string) => Promise<Token>;
  readonly pool: Pool;
  /** The names of all sinks that a replay writes to. */
  readonly sinks: readonly string[];
  readonly closing: AbortSignal;
  readonly log: Pick<Log, "warn">;
}

const DEFAULT_HOURS = 6;
const MOST_HOURS = 48;
const HOUR_MS = 3_600_000;
const CALLS_A_MINUTE = { limit: 60, windowMs: 60_000 };
/**
 * Longer than the pause after a killed lane (15 s), and than a store may be away (60 s,
 * docs/design/laws.md L1).
 */
const STALLED_MS = 75_000;

/** Waits for replays; requests that wait for the same one ask the database once. */
const openFollowing = ({ pool, closing }: WalReplayParts) => {
  const followed = new Map<string, Promise<Replay>>();
  return (replayId: string): Promise<Replay> => {
    const known = followed.get(replayId);
    if (known !== undefined) return known;
    const ended = awaitReplay(pool, replayId, { stalledMs: STALLED_MS, signal: closing }).finally(() =>
      followed.delete(replayId),
    );
    // The requests that wait for it get its failure; all of them may have gone.
    ended.catch(() => undefined);
    followed.set(replayId, ended);
    return ended;
  };
};

/** Throws Problem 503, with what to do, where a replay cannot be asked for or waited for. */
const orUnavailable = ({ closing, log }: WalReplayParts, error: unknown): never => {
  if (closing.aborted) throw unavailable("this host is closing; the replay goes on: call again", 2);
  if (error instanceof ReplayStalled)
    throw unavailable(`${error.replay.replay_id} is not lost: see GET /admin/wal-replay/${error.replay.replay_id}`, 5);
  if (classify(error) !== "transient") throw error;
  log.warn("replay.not_read", { error });
  throw unavailable("replays cannot be asked for now", 2);
};

export const walReplayRoutes = (parts: WalReplayParts) => {
  const { pool, sinks } = parts;
  const calls = localWindow(CALLS_A_MINUTE);
  const follow = openFollowing(parts);
  const admitted = async (request: Request): Promise<Token> => {
    const token = await parts.authenticate(request, request.ip ?? "");
    if (!calls.take(String(token.token_id), performance.now()).isAllowed)
      throw new Problem("rate_limited", "a token may call 60 times a minute", { headers: { "Retry-After": "5" } });
    return token;
  };
  const orElse = (error: unknown): never => orUnavailable(parts, error);

  return {
    /**
     * The replay continues when the caller hangs up. The next call joins it only if it has not
     * begun, see requestReplay.
     */
    start: async (request: Request, response: Response): Promise<void> => {
      const actor = `token:${(await admitted(request)).token_id}`;
      const hours = hoursIn(request.query.hours);
      const wanted = { actor, hours, from: Date.now() - hours * HOUR_MS, to: null, sinks };
      const replay = await requestReplay(pool, wanted)
        .then(({ replay_id }) => follow(replay_id))
        .catch(orElse);
      const { state: _, sinks: __, ...report } = reportOf(replay);
      response.json(report);
    },
    show: async (request: Request, response: Response): Promise<void> => {
      await admitted(request);
      const id = String(request.params.replay_id);
      const replay = isReplayId(id) ? await readReplay(pool, id).catch(orElse) : undefined;
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
