// POST /ingest/batch: authenticate, limit, read, admit, store, and only then answer
// (docs/design/laws.md C10).
import { randomInt } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import type { Request, Response } from "express";
import { heapOf, openLane } from "../../../infra/http/lane.ts";
import { takePlace } from "../../../infra/http/limits.ts";
import type { Verdict } from "../../../infra/http/rate-limit.ts";
import { checkType, withBody } from "../../../infra/http/read-body.ts";
import type { RequestCounts } from "../../../infra/runtime/metrics.ts";
import type { Token } from "../../../modules/access/tokens.ts";
import type { Path } from "../../../modules/edges/path.ts";
import { acceptsBatch, admitBatch, type BatchBody, type BatchFacts } from "../../../processors/admit/batch.ts";
import { batchTag, mintBatchId } from "../../../processors/admit/batch-id.ts";
import { isWithheld } from "../../../processors/enrich/consent.ts";
import type { EventReceived } from "../../../schemas/generated.ts";
import type { Admission, Arrival, Position, UnixMs } from "../../../stream/flow.ts";
import type { OutputMessage } from "../../../stream/messages.ts";
import type { Wire } from "../../../stream/wire.ts";
import { topics } from "../../../topics.ts";

export interface BatchParts {
  readonly authenticate: (request: Request, address: string) => Token;
  readonly limit: (key: string) => Promise<Verdict>;
  readonly facts: (token: Token, now: UnixMs) => BatchFacts;
  readonly wire: () => Wire;
  /** What batch ids are proven with. */
  readonly batchIdKey: Buffer;
  readonly path: Pick<Path, "store" | "expectRoom">;
  readonly count: (counts: RequestCounts) => void;
}

/** Of a token (docs/design/contracts.md, "Limits"). */
export const REQUESTS_A_MINUTE = 100;
/** One slice blocks the loop for about 15 ms; a send to the log holds as many. */
const SLICE = 1_000;
const MAX_ERRORS = 1_000;
const { eventsRaw } = topics;
/** The edge is where events enter: they have no position yet, and the wire writes none. */
const nowhere: Position = { topic: eventsRaw.name, partition: -1, offset: -1 };

interface ItemError {
  readonly index: number;
  readonly event_id: string | null;
  readonly t: string | null;
  readonly code: string;
  readonly field: string | null;
  readonly message: string;
  readonly retryable: boolean;
}

interface BatchAnswer {
  readonly accepted: number;
  readonly rejected: number;
  readonly errors: readonly ItemError[];
  readonly errors_truncated: boolean;
  readonly batch_id: string;
}

export const batchRoute = (parts: BatchParts) => {
  const inTurn = openLane();
  return async (request: Request, response: Response): Promise<void> => {
    const began = performance.now();
    const refused = new Map<string, number>();
    let accepted = 0;
    response.once("close", () => {
      const seconds = (performance.now() - began) / 1_000;
      parts.count({ edge: "batch", status: response.statusCode, seconds, accepted, refused });
    });

    const token = parts.authenticate(request, request.ip ?? "");
    const verdict = await parts.limit(`token:${token.token_id}`);
    takePlace(
      verdict,
      REQUESTS_A_MINUTE,
      response,
      `a token has ${REQUESTS_A_MINUTE} requests a minute: send larger batches`,
    );
    checkType(request);
    parts.path.expectRoom();
    const sender = { token: String(token.token_id), address: request.ip ?? "" };
    const { answer, stored } = await withBody(request, sender, (raw) =>
      inTurn(heapOf(raw), () => {
        const receivedAt = Date.now();
        const facts = { ...parts.facts(token, receivedAt), batchId: batchTag(receivedAt, fourBytes()) };
        const arrival = arrivalOf(request, String(token.client_id), receivedAt);
        return take(parts, acceptsBatch(raw), arrival, facts, refused);
      }),
    );
    await Promise.all(stored);
    accepted = answer.accepted;
    response.json(answer);
  };
};

/**
 * Out of Node's own store of random bytes: asking the system each time was 3 % of a request of one
 * event.
 */
const fourBytes = (): Buffer => {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeUInt32BE(randomInt(2 ** 32));
  return bytes;
};

const arrivalOf = (request: Request, sender: string, receivedAt: UnixMs): Arrival => ({
  receivedAt,
  sender,
  address: request.ip ?? null,
  header: (name) => {
    const value = request.headers[name];
    return Array.isArray(value) ? value[0] : value;
  },
});

/** What is answered, once everything that was taken is stored. */
interface Taken {
  readonly answer: BatchAnswer;
  readonly stored: readonly Promise<void>[];
}

/**
 * Admits slice by slice, so that other requests get their turn, while earlier slices are being
 * stored.
 */
const take = async (
  parts: BatchParts,
  body: BatchBody,
  arrival: Arrival,
  facts: BatchFacts & { readonly batchId: string },
  refused: Map<string, number>,
): Promise<Taken> => {
  const errors: ItemError[] = [];
  const stored: Promise<void>[] = [];
  const wire = parts.wire();
  let accepted = 0;
  let withheld = 0;
  for (let from = 0; from < body.events.length; from += SLICE) {
    if (from > 0) await setImmediate();
    const events = body.events.slice(from, from + SLICE);
    const messages: OutputMessage[] = [];
    for (const [n, admission] of admitBatch({ events, texts: body.texts }, arrival, facts).entries()) {
      if (admission.kind === "accepted") {
        messages.push(messageOf(wire, admission, arrival.receivedAt));
        if (isWithheld(admission.data)) withheld += 1;
      } else {
        refused.set(admission.refusal.code, (refused.get(admission.refusal.code) ?? 0) + 1);
        if (errors.length < MAX_ERRORS)
          errors.push({ index: from + n, event_id: admission.id, t: typeIn(events[n]), ...admission.refusal });
      }
    }
    accepted += messages.length;
    // a client's own servers send these: what could not be read of them would be a dead letter of
    // that kind
    const kept = parts.path.store(messages, "s2s");
    // its failure is seen by who waits for all of them
    kept.catch(() => undefined);
    stored.push(kept);
  }
  const rejected = body.events.length - accepted;
  const batch = { client_id: facts.clientId, tag: facts.batchId, accepted, rejected, withheld };
  const batchId = mintBatchId(batch, parts.batchIdKey);
  return {
    answer: { accepted, rejected, errors, errors_truncated: rejected > errors.length, batch_id: batchId },
    stored,
  };
};

const messageOf = (
  wire: Wire,
  admitted: Admission<EventReceived> & { kind: "accepted" },
  receivedAt: UnixMs,
): OutputMessage => {
  const { id, at, data } = admitted;
  const key = eventsRaw.keyOf(data);
  return {
    topic: eventsRaw.name,
    key,
    value: wire.encode(eventsRaw, { id, key, at, receivedAt, position: nowhere, data }, null),
  };
};

const typeIn = (event: unknown): string | null => {
  const t = typeof event === "object" && event !== null ? (event as { t?: unknown }).t : null;
  return typeof t === "string" ? t.slice(0, 64) : null;
};
