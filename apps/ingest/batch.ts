// apps/ingest/batch.ts - POST /ingest/batch: authenticate, limit, read, admit, publish, and only then answer (laws.md 4, C10).
import { randomBytes } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import type { Request, Response } from "express";
import { acceptsBatch, admitBatch, type BatchBody, type BatchFacts } from "../../processors/admit/batch.ts";
import { batchTag, mintBatchId } from "../../processors/admit/batch-id.ts";
import { isWithheld } from "../../processors/enrich/consent.ts";
import { type EventReceived, topics } from "../../schemas/generated.ts";
import type { Token } from "../../sinks/postgres/tokens.ts";
import { classify } from "../../stream/errors.ts";
import type { Admission, Arrival, Position, UnixMs } from "../../stream/flow.ts";
import type { Log } from "../../stream/log.ts";
import type { RequestCounts } from "../../stream/metrics.ts";
import type { OutputMessage, Produce } from "../../stream/ports.ts";
import type { Wire } from "../../stream/wire.ts";
import { Problem, unavailable } from "../http/problem.ts";
import type { Verdict } from "../http/rate-limit.ts";
import { checkType, withBody } from "../http/read-body.ts";
import { heapOf, openLane } from "./lane.ts";

export interface BatchParts {
  readonly authenticate: (request: Request, address: string) => Token;
  readonly limit: (key: string) => Promise<Verdict>;
  readonly facts: (token: Token, now: UnixMs) => BatchFacts;
  /** Undefined until the schema ids are known. */
  readonly wire: () => Wire | undefined;
  /** What batch ids are proven with. */
  readonly batchIdKey: Buffer;
  readonly publish: Produce;
  /** False after a failure: then one request at a time finds out whether the log is back. */
  readonly isLogAvailable: () => boolean;
  readonly count: (counts: RequestCounts) => void;
  readonly log: Log;
}

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
  let isTrying = false;

  /** While the log is away a single request pays the wait for it, the others come again. */
  const oneAtATime = async <T>(work: () => Promise<T>): Promise<T> => {
    if (parts.isLogAvailable()) return work();
    if (isTrying) throw unavailable("events cannot be stored now", 2);
    isTrying = true;
    try {
      return await work();
    } finally {
      isTrying = false;
    }
  };

  return async (request: Request, response: Response): Promise<void> => {
    const began = performance.now();
    const refused = new Map<string, number>();
    let accepted = 0;
    response.once("close", () => {
      const seconds = (performance.now() - began) / 1_000;
      parts.count({ edge: "batch", status: response.statusCode, seconds, accepted, refused });
    });

    const token = parts.authenticate(request, request.ip ?? "");
    await takePlace(parts, token, response);
    checkType(request);
    const wire = parts.wire();
    if (wire === undefined) throw unavailable("events cannot be stored yet", 2);
    const answer = await oneAtATime(() =>
      withBody(request, (raw) =>
        inTurn(heapOf(raw), async () => {
          const receivedAt = Date.now();
          const facts = { ...parts.facts(token, receivedAt), batchId: batchTag(receivedAt, randomBytes(4)) };
          const arrival = arrivalOf(request, String(token.client_id), receivedAt);
          return take(parts, wire, acceptsBatch(raw), arrival, facts, refused);
        }),
      ),
    );
    accepted = answer.accepted;
    response.json(answer);
  };
};

const takePlace = async (parts: BatchParts, token: Token, response: Response): Promise<void> => {
  const verdict = await parts.limit(`token:${token.token_id}`);
  response.set("RateLimit-Policy", '"default";q=100;w=60');
  response.set("RateLimit", `"default";r=${verdict.remaining};t=${Math.ceil(verdict.resetMs / 1_000)}`);
  if (verdict.isAllowed) return;
  const retryAfter = Math.min(5, Math.max(1, Math.ceil(verdict.resetMs / 1_000)));
  throw new Problem("rate_limited", "a token has 100 requests a minute: send larger batches", {
    headers: { "Retry-After": String(retryAfter) },
  });
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

/** Admits slice by slice, so that other requests get their turn, while earlier slices are on their way to the log; resolves when all are in it. */
const take = async (
  parts: BatchParts,
  wire: Wire,
  body: BatchBody,
  arrival: Arrival,
  facts: BatchFacts & { readonly batchId: string },
  refused: Map<string, number>,
): Promise<BatchAnswer> => {
  const errors: ItemError[] = [];
  const published: Promise<void>[] = [];
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
    const sent = parts.publish(messages);
    // its failure is seen below, when all slices are on their way
    sent.catch(() => undefined);
    published.push(sent);
  }
  await Promise.all(published).catch((error) => {
    if (classify(error) !== "transient") parts.log.error("batch.not_stored", { error });
    throw unavailable("events cannot be stored now: send the same batch again", 2);
  });
  const rejected = body.events.length - accepted;
  const batch = { client_id: facts.clientId, tag: facts.batchId, accepted, rejected, withheld };
  return { accepted, rejected, errors, errors_truncated: rejected > errors.length, batch_id: mintBatchId(batch, parts.batchIdKey) };
};

const messageOf = (wire: Wire, admitted: Admission<EventReceived> & { kind: "accepted" }, receivedAt: UnixMs): OutputMessage => {
  const { id, at, data } = admitted;
  const key = eventsRaw.keyOf(data);
  return { topic: eventsRaw.name, key, value: wire.encode(eventsRaw, { id, key, at, receivedAt, position: nowhere, data }, null) };
};

const typeIn = (event: unknown): string | null => {
  const t = typeof event === "object" && event !== null ? (event as { t?: unknown }).t : null;
  return typeof t === "string" ? t.slice(0, 64) : null;
};
