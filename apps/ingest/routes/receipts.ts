// GET /ingest/receipts/:batch_id: answers what became of the events of a batch, from the results in
// the log.
import type { Request, Response } from "express";
import { pageEventId, sentEventId } from "../../../domain/ids.ts";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { scopeOf } from "../../../infra/clickhouse/query.ts";
import { Problem, unavailable } from "../../../infra/http/problem.ts";
import { localWindow } from "../../../infra/http/rate-limit.ts";
import type { Log } from "../../../infra/runtime/log.ts";
import type { Token } from "../../../modules/access/tokens/tokens.ts";
import type { Progress } from "../../../modules/figures/receipts/progress.ts";
import { type Fate, receiptCounts, receiptOf, receiptTimes } from "../../../modules/figures/receipts/receipts.ts";
import { type Batch, readBatchId } from "../../../processors/admit/batch-id.ts";
import { eventsOfPages, eventVersions, type Times } from "../../../sinks/analytics/reads.ts";

export interface ReceiptParts {
  readonly authenticate: (request: Request, address: string) => Promise<Token>;
  /** A key for each accepted secret. */
  readonly keys: readonly Buffer[];
  readonly clickhouse: Clickhouse;
  readonly progress: Progress;
  readonly log: Log;
}

const KEPT_MS = 32 * 24 * 3_600_000;
/** Ten requests a second of one token in this process, because each may read a store. */
const QUESTIONS_A_MINUTE = { limit: 600, windowMs: 60_000 };
/**
 * Most events are stored within this time, so a sender who asks at once waits instead of asking
 * again.
 */
const WAIT_MS = 1_500;
const EVENT_ID = /^[A-Za-z0-9._:-]{1,128}$/;
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

export const receiptsRoute = (parts: ReceiptParts) => {
  const questions = localWindow(QUESTIONS_A_MINUTE);
  return async (request: Request, response: Response): Promise<void> => {
    const token = await parts.authenticate(request, request.ip ?? "");
    const verdict = questions.take(String(token.token_id), performance.now());
    if (!verdict.isAllowed)
      throw new Problem("rate_limited", "a token may ask 600 times a minute", { headers: { "Retry-After": "5" } });
    const eventId = eventIdIn(request.query.event_id);
    const id = String(request.params.batch_id);
    const batch = readBatchId(id, parts.keys);
    // A batch of another client, a forged id and an expired one get the same answer.
    if (batch === undefined || batch.client_id !== token.client_id || Date.now() - batch.received_at > KEPT_MS)
      throw new Problem("not_found", "there is no such batch of this client within the last 32 days");
    const answer = await (eventId === undefined ? countsOf(parts, batch) : fateOf(parts, batch, eventId)).catch(
      (error) => {
        if (error instanceof Problem) throw error;
        parts.log.warn("receipt.not_read", { error });
        throw unavailable("the results cannot be read now", 2);
      },
    );
    response.json({ batch_id: id, received_at: new Date(batch.received_at).toISOString(), ...answer });
  };
};

const eventIdIn = (given: unknown): string | undefined => {
  if (given === undefined) return undefined;
  if (typeof given === "string" && EVENT_ID.test(given)) return given;
  throw new Problem(
    "validation_failed",
    "event_id must be given once: the id that was sent, 1 to 128 of A-Z a-z 0-9 . _ : -",
    {
      errors: [{ pointer: "/event_id", code: "bad_event_id", detail: "is no event id" }],
    },
  );
};

/**
 * Events that were stored under the batch are its own. Once the log has passed the batch, events
 * that are missing were duplicates of earlier ones.
 */
const countsOf = async ({ clickhouse, progress }: ReceiptParts, batch: Batch) => {
  const scope = scopeOf(batch.client_id);
  const isComplete = (counts: ReadonlyMap<Fate, number>) => sum(counts) >= batch.accepted - batch.withheld;
  let counts = await receiptCounts(clickhouse, scope, batch.tag);
  let isThrough = isComplete(counts);
  if (!isThrough) {
    isThrough = await progress.isThrough(batch.received_at, WAIT_MS);
    counts = await receiptCounts(clickhouse, scope, batch.tag);
  }
  const of = (fate: Fate) => counts.get(fate) ?? 0;
  const stored = of("attributed") + of("unattributed") + of("rejected_by_fraud");
  const missing = Math.max(0, batch.accepted - batch.withheld - sum(counts));
  return {
    accepted: batch.accepted,
    rejected: batch.rejected,
    events: {
      stored,
      duplicate: of("second_copy") + (isThrough ? missing : 0),
      attributed: of("attributed"),
      unattributed: of("unattributed"),
      rejected_by_fraud: of("rejected_by_fraud"),
      in_flight: isThrough ? 0 : missing,
      withheld: batch.withheld,
    },
  };
};
const sum = (counts: ReadonlyMap<Fate, number>): number => [...counts.values()].reduce((all, one) => all + one, 0);

/** Pages may send many events under one id. */
const MOST_READ = 20;
const HOUR_MS = 3_600_000;
/** The times of events of the batch, and of those that a browser may have sent again with it. */
const timesOf = async (clickhouse: Clickhouse, { client_id, tag, received_at }: Batch): Promise<Times> => {
  const own = await receiptTimes(clickhouse, scopeOf(client_id), tag);
  return {
    first: Math.min(own?.first ?? received_at, received_at - 48 * HOUR_MS),
    last: Math.max(own?.last ?? received_at, received_at + 24 * HOUR_MS),
  };
};

/** Finds the event by the sender's id, or by the id in the log that `explain` shows. */
const fateOf = async ({ clickhouse, progress }: ReceiptParts, batch: Batch, eventId: string) => {
  const { client_id } = batch;
  const scope = scopeOf(client_id);
  const ids = [
    ...[pageEventId(client_id, eventId), sentEventId(client_id, eventId)],
    ...(UUID.test(eventId) ? [eventId] : []),
  ];
  const read = (some: readonly string[]) =>
    Promise.all(
      some.map(async (id) => {
        const receipt = await receiptOf(clickhouse, scope, id);
        return receipt && { ...receipt, id };
      }),
    );
  /** A page may have sent an event under the id of a server's: that of this batch is meant. */
  const find = async () => {
    const computed = await read(ids);
    const own = computed.find((one) => one?.tag === batch.tag);
    if (own !== undefined) return own;
    const ofPages = await eventsOfPages(clickhouse, scope, [eventId], await timesOf(clickhouse, batch));
    const all = [...(await read(ofPages.slice(0, MOST_READ).map(({ event_id }) => event_id))), ...computed];
    return all.find((one) => one?.tag === batch.tag) ?? all.findLast((one) => one !== undefined);
  };
  const isOfBatch = (found: Awaited<ReturnType<typeof find>>) => found !== undefined && found.tag <= batch.tag;
  let found = await find();
  if (!isOfBatch(found)) {
    const isThrough = await progress.isThrough(batch.received_at, WAIT_MS);
    found = await find();
    if (!isOfBatch(found) && !isThrough) return { event: { event_id: eventId, fate: "in_flight" } };
  }
  if (found === undefined || !isOfBatch(found))
    throw new Problem("not_found", "no event of this id was stored from this batch");
  const isFirst = found.tag === batch.tag;
  const [newest] = await eventVersions(clickhouse, scope, found.id);
  return {
    event: {
      event_id: eventId,
      fate: isFirst && found.fate !== "second_copy" ? found.fate : "duplicate",
      reason: newest?.credit_reason ?? null,
      version: found.version,
      merged_into: newest?.merged_into ?? null,
      stored_at: newest === undefined ? null : new Date(newest.stored_at).toISOString(),
    },
  };
};
