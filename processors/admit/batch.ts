// The edge of POST /ingest/batch: it turns a body of up to 10,000 events into log records and
// answers for each event separately.
import type { EventReceived } from "../../schemas/generated.ts";
import type { Admission, Arrival } from "../../stream/flow.ts";
import { admitEvent, type Terms } from "./event.ts";
import { type BatchBody, findBatch, readBatch, UnreadEvent } from "./read-batch.ts";
import { type RequestFacts, requestTerms } from "./request-terms.ts";

/** What the edge knows about the holder of the token. */
export interface BatchFacts extends RequestFacts {
  /**
   * Visitors' own devices use this token, so the address and browser of the request are the
   * visitor's.
   */
  readonly isClientSide: boolean;
  /**
   * The batch id under which receipts find the events of this request (batch-id.ts). Absent where
   * there are no receipts.
   */
  readonly batchId?: string;
}

/**
 * Takes the raw bytes of a body (UTF-8 JSON) and reads them at once, or takes the result of
 * `readBatch`, which the host uses to read a body part by part. Throws BadBody with the place of
 * the problem.
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

/** Senders only send bytes, so an object here can only come from `readBatch`. */
const isRead = (body: unknown): body is BatchBody =>
  typeof body === "object" && body !== null && "events" in body && "texts" in body;

/**
 * Admits the events one by one, so that the edge can serve other requests in between. Pure: the
 * same body, arrival and facts give the same records, so a repeated request counts nothing twice.
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
