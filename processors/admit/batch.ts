// The edge of POST /ingest/batch: a body of up to 10,000 events becomes records of the log, each
// event answered for itself.
import { monthsBefore } from "../../domain/calendar.ts";
import type { Identify } from "../../domain/device-id.ts";
import type { EventReceived } from "../../schemas/generated.ts";
import type { Admission, Arrival } from "../../stream/flow.ts";
import { addressOf } from "./address.ts";
import { admitEvent, type Terms, userAgentOf } from "./event.ts";
import { type BatchBody, findBatch, readBatch, Unread } from "./read-batch.ts";

/** What the edge knows about the holder of the token. */
export interface BatchFacts {
  readonly clientId: number;
  /** Beside the six that every client has. */
  readonly segments: readonly string[];
  readonly consentDefault: number;
  /**
   * The token is used on visitors' own devices, so the request's address and browser are theirs.
   */
  readonly isClientSide: boolean;
  readonly identify: Identify;
  /**
   * What the events of this request are found by (batch-id.ts); left out where there are no
   * receipts.
   */
  readonly batchId?: string;
}

const DAY_MS = 24 * 3_600_000;
const RETENTION_MONTHS = 24;
/** Segments of the specification; a client adds its own. */
const COMMON_SEGMENTS = ["MX", "VD", "DA", "HA", "IT", "NW"] as const;

/**
 * The raw bytes of a body (UTF-8 JSON), read at once; or what `readBatch` has read of them, which
 * is how the host reads them, a part at a time. Throws BadBody with the place of the problem.
 */
export const acceptsBatch = (body: unknown): BatchBody => {
  if (isRead(body)) return body;
  return resultOf(readBatch(resultOf(findBatch(body))));
};

const resultOf = <T>(steps: Iterator<void, T>): T => {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
};

/** Bodies come as bytes, so no sender makes one of these. */
const isRead = (body: unknown): body is BatchBody =>
  typeof body === "object" && body !== null && "events" in body && "texts" in body;

/**
 * Pure: the same body, arrival and facts give the same records, so a sender may repeat a request
 * without counting anything twice. Event by event, so that the edge can let others in between.
 */
export function* admitBatch(
  body: BatchBody,
  arrival: Arrival,
  facts: BatchFacts,
): Generator<Admission<EventReceived>, void> {
  const terms = termsOf(body, arrival, facts);
  for (const event of body.events) yield event instanceof Unread ? event.refused : admitEvent(event, terms);
}

const termsOf = (body: BatchBody, arrival: Arrival, facts: BatchFacts): Terms => ({
  source: "batch",
  clientId: facts.clientId,
  isClientSide: facts.isClientSide,
  consentDefault: facts.consentDefault,
  segments: new Set([...COMMON_SEGMENTS, ...facts.segments]),
  identify: facts.identify,
  texts: body.texts,
  receivedAt: arrival.receivedAt,
  oldest: monthsBefore(arrival.receivedAt, RETENTION_MONTHS),
  newest: arrival.receivedAt + DAY_MS,
  address: arrival.address === null ? null : (addressOf(arrival.address) ?? null),
  userAgent: userAgentOf(arrival.header("user-agent"), facts.identify),
  batchId: facts.batchId ?? null,
});
