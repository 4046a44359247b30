// The edge of POST /ingest/batch: a body of up to 10,000 events becomes records of the log, each
// event answered for itself.
import type { EventReceived } from "../../schemas/generated.ts";
import type { Admission, Arrival } from "../../stream/flow.ts";
import { admitEvent, type Terms } from "./event.ts";
import { type BatchBody, findBatch, readBatch, UnreadEvent } from "./read-batch.ts";
import { type RequestFacts, requestTerms } from "./request-terms.ts";

/** What the edge knows about the holder of the token. */
export interface BatchFacts extends RequestFacts {
  /**
   * The token is used on visitors' own devices, so the request's address and browser are theirs.
   */
  readonly isClientSide: boolean;
  /**
   * What the events of this request are found by (batch-id.ts); left out where there are no
   * receipts.
   */
  readonly batchId?: string;
}

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
  for (const event of body.events) yield event instanceof UnreadEvent ? event.refused : admitEvent(event, terms);
}

const termsOf = ({ texts }: BatchBody, arrival: Arrival, facts: BatchFacts): Terms => {
  const { isClientSide, batchId = null } = facts;
  return requestTerms({ texts, source: "batch", isClientSide, batchId }, arrival, facts);
};
