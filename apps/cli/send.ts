// `tributary send`: sends a CSV file through the batch endpoint, and continues through restarts and
// rate limits.

import { UsageError } from "../../infra/runtime/command-errors.ts";
import type { Progress } from "../../modules/money/reprocess/log/stretches.ts";
import { checkColumns, eventsOf, type Mapping, rowsOf, shiftOf } from "./csv-events.ts";

export interface SendOrder {
  readonly file: string;
  /** The edges. The first that answers is used until it fails. */
  readonly urls: readonly string[];
  readonly token: string;
  readonly clientId: number;
  readonly mapping: Mapping;
  readonly shiftTo: string | undefined;
  readonly batchSize: number;
  readonly now: number;
}
interface RefusedRow {
  readonly line: number;
  readonly code: string;
  readonly field: string | null;
  readonly message: string;
}
export interface SendResult {
  readonly rows: number;
  readonly accepted: number;
  readonly rejected: number;
  readonly refused: readonly RefusedRow[];
  readonly shiftDays: number;
}
interface BatchAnswer {
  readonly accepted: number;
  readonly rejected: number;
  readonly errors: readonly {
    readonly index: number;
    readonly code: string;
    readonly field: string | null;
    readonly message: string;
  }[];
}

/**
 * The specification asks for 1, 2, 4 s. We continue every 4 s for as long as a restart of
 * everything may take.
 */
const waitsMs = [1_000, 2_000, 4_000];
const PATIENCE_MS = 120_000;
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** A failed try, which may be repeated after `waitMs` or later. */
interface FailedTry {
  readonly problem: string;
  readonly waitMs: number;
}

/**
 * Sends a batch once. Throws UsageError for a 4xx other than 429, because a repetition would get
 * the same.
 */
const tryOnce = async (url: string, token: string, body: string): Promise<BatchAnswer | FailedTry> => {
  try {
    const response = await fetch(`${url}/ingest/batch`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body,
      signal: AbortSignal.timeout(30_000),
    });
    if (response.ok) return (await response.json()) as BatchAnswer;
    const detail = ((await response.json().catch(() => ({}))) as { detail?: string }).detail ?? response.statusText;
    const problem = `${response.status}: ${detail}`;
    if (response.status < 500 && response.status !== 429)
      throw new UsageError(`${url}/ingest/batch answered ${problem}`);
    return { problem, waitMs: 1_000 * Number(response.headers.get("retry-after") ?? 0) };
  } catch (error) {
    if (error instanceof UsageError) throw error;
    const { message, cause } = error as Error;
    return { problem: cause instanceof Error ? cause.message : message, waitMs: 0 };
  }
};

/**
 * Sends a batch until it is answered. 429, 5xx and broken connections are tried again, which event
 * ids make harmless.
 */
const post = async (
  order: SendOrder,
  events: readonly object[],
  progress: Progress,
  edge: { at: number; isLimitSaid: boolean },
): Promise<BatchAnswer> => {
  const deadline = performance.now() + PATIENCE_MS;
  const body = JSON.stringify({ events });
  for (let attempt = 0; ; attempt += 1) {
    const url = order.urls[edge.at]!;
    const answer = await tryOnce(url, order.token, body);
    if (!("problem" in answer)) return answer;
    const { problem } = answer;
    let waitMs = Math.max(
      waitsMs[Math.min(Math.floor(attempt / order.urls.length), waitsMs.length - 1)]!,
      answer.waitMs,
    );
    if (performance.now() + waitMs > deadline)
      throw new Error(
        `${order.urls.join(" and ")} did not take a batch for ${PATIENCE_MS / 1_000} s; last answer ${problem}`,
      );
    // The limit belongs to the token, so every edge would refuse. Any other problem may be the
    // edge's own, so another edge is tried at once.
    const isLimit = problem.startsWith("429");
    if (!isLimit) edge.at = (edge.at + 1) % order.urls.length;
    // Every edge is tried once before a pause.
    if (!isLimit && (attempt + 1) % order.urls.length !== 0) waitMs = 0;
    // A file of many batches meets its limit repeatedly, which is reported once.
    if (!isLimit || !edge.isLimitSaid)
      progress.note(
        isLimit
          ? `${url}: ${problem}; the rest is sent as fast as that allows`
          : `${url}: ${problem}; next try ${waitMs === 0 ? `at ${order.urls[edge.at]}` : `in ${waitMs / 1_000} s`}`,
      );
    if (isLimit) edge.isLimitSaid = true;
    await pause(waitMs);
  }
};

/**
 * Sends every row. Resolves with the answers of the edge; lines are counted as in the file, whose
 * header is line 1.
 */
export const send = async (order: SendOrder, progress: Progress): Promise<SendResult> => {
  const rows = await rowsOf(order.file);
  checkColumns(order.file, rows[0]!, order.mapping);
  const shiftDays = shiftOf(rows, order.mapping, order.shiftTo, order.now);
  const events = eventsOf(order.file, rows, order.mapping, order.clientId, shiftDays);
  let accepted = 0;
  let rejected = 0;
  const refused: RefusedRow[] = [];
  const edge = { at: 0, isLimitSaid: false };
  for (let start = 0; start < events.length; start += order.batchSize) {
    const answer = await post(order, events.slice(start, start + order.batchSize), progress, edge);
    accepted += answer.accepted;
    rejected += answer.rejected;
    for (const { index, code, field, message } of answer.errors)
      refused.push({ line: start + index + 2, code, field, message });
    progress.at(Math.min(start + order.batchSize, events.length), events.length);
  }
  progress.done();
  return { rows: rows.length, accepted, rejected, refused, shiftDays };
};
