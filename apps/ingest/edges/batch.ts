// POST /ingest/batch: authenticates, limits, reads, passes the events to the edge of the topology,
// and answers once all of them are stored (docs/design/laws.md, C10).
import { randomInt } from "node:crypto";
import { isWithheld } from "../../../domain/personal/consent.ts";
import { edges } from "../../../edges.ts";
import { headersOf, send, type Visit } from "../../../infra/http/direct/direct-host.ts";
import { openLane } from "../../../infra/http/lane.ts";
import { expectPlace, limitHeaders } from "../../../infra/http/limits.ts";
import { Problem } from "../../../infra/http/problem.ts";
import { checkType, withBody } from "../../../infra/http/read-body.ts";
import { inSlices } from "../../../infra/runtime/timing/in-slices.ts";
import type { Token } from "../../../modules/access/tokens/tokens.ts";
import { hostEdge, type TakeResult } from "../../../modules/intake/path/host-edge.ts";
import { expectQuota } from "../../../modules/intake/quotas/quotas.ts";
import {
  type BatchBody,
  type BatchFacts,
  type FoundBatch,
  findBatch,
  readBatch,
} from "../../../processors/admit/batch.ts";
import { batchTag, mintBatchId } from "../../../processors/admit/batch-id.ts";
import { isMoneyType, NEAR_TYPE, nearTypeOf } from "../../../processors/admit/event-types.ts";
import type { Arrival, UnixMs } from "../../../stream/flow.ts";
import type { EdgeParts, OpenDirect } from "../edges.ts";

type Facts = BatchFacts & { readonly batchId: string };

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
  /** Absent when there are none. */
  readonly warnings?: readonly Warning[];
}

/** Says that events were taken, but were probably meant as another type: one for each name. */
interface Warning {
  readonly code: string;
  readonly t: string;
  readonly events: number;
  readonly message: string;
}
const MOST_WARNINGS = 20;

/**
 * Scanning a body takes slices of the event loop. Scans of several large bodies at once would add
 * up to one long block of the loop, so large bodies are scanned one after the other.
 */
const LOOKED_THROUGH_BYTES = 10 * 1024 * 1024;
/**
 * About twenty ordinary events, or at most 250 events without data. Parsing that much takes less
 * than a turn of the loop and does not wait for a lane. Larger bodies stay in memory over several
 * turns, so they do.
 */
const AT_ONCE = { bytes: 16_384, heapBytes: 131_072 };

export const openDirect: OpenDirect = (parts) => {
  const edge = hostEdge(edges, "batch", parts);
  const lookInLane = openLane(LOOKED_THROUGH_BYTES);
  const runInLane = openLane();
  return async (visit) => {
    const { request, response, address } = visit;
    const began = performance.now();
    let refused: ReadonlyMap<string, number> = new Map();
    let accepted = 0;
    response.on("close", () => {
      const seconds = (performance.now() - began) / 1_000;
      parts.count({ edge: edge.name, status: response.statusCode, seconds, accepted, refused });
    });

    const token = await parts.authenticate(request, address);
    await parts.inForce((known) => known.client(token.client_id!));
    const { requests_a_minute: limit } = token;
    const verdict = await parts.limit(`token:${token.token_id}`, limit);
    visit.own = limitHeaders(verdict, limit);
    expectPlace(verdict, `this token has ${limit} requests a minute: send larger batches`);
    checkType(request);
    parts.path.expectRoom();
    const sender = { token: String(token.token_id), address };
    const takeBody = async (found: FoundBatch, bytes: number) => {
      const receivedAt = Date.now();
      const facts = factsOf(parts, token, receivedAt);
      const body = edge.accepts(await inSlices(readBatch(found)));
      // Anyone can read such a token in a page. One of a server has its requests a minute alone.
      if (token.client_side) expectQuota(parts.quotas, { clientId: facts.clientId, ...sizeOf(body, bytes) });
      let withheld = 0;
      const nearTypes = new Map<string, number>();
      const taken = await edge.take(body, arrivalOf(visit, String(token.client_id), receivedAt), facts, (data) => {
        if (isWithheld(data)) withheld += 1;
        if (data.warnings.includes(NEAR_TYPE)) countName(nearTypes, data.custom_name!);
      });
      refused = taken.refused;
      return { answer: answerOf(parts, { body, taken, facts, withheld, nearTypes }), taken };
    };
    const { answer, taken } = await withBody(request, sender, async (raw) => {
      const look = () => inSlices(findBatch(raw));
      const found = await (raw.length <= AT_ONCE.bytes ? look() : lookInLane(sender.token, raw.length, look));
      const take = () => takeBody(found, raw.length);
      return found.heapBytes <= AT_ONCE.heapBytes ? take() : runInLane(sender.token, found.heapBytes, take);
    });
    await taken.stored;
    accepted = answer.accepted;
    // RFC 8288 and 8631: the address of the batch's receipt.
    const link = `</ingest/receipts/${answer.batch_id}>; rel="status"`;
    send(visit, 200, { "Content-Type": "application/json; charset=utf-8", Link: link }, JSON.stringify(answer));
  };
};

const factsOf = ({ facts }: EdgeParts, token: Token, receivedAt: UnixMs): Facts => {
  const known = facts(token, receivedAt);
  if (known === null) throw new Problem("unauthorized", "the client of this token is archived");
  return { ...known, batchId: batchTag(receivedAt, fourBytes()) };
};

/**
 * Takes the bytes from Node's own buffer of random bytes, because asking the system each time cost
 * 3 % of a request of one event.
 */
const fourBytes = (): Buffer => {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeUInt32BE(randomInt(2 ** 32));
  return bytes;
};

const arrivalOf = (visit: Visit, sender: string, receivedAt: UnixMs): Arrival => ({
  receivedAt,
  sender,
  address: visit.address === "" ? null : visit.address,
  header: headersOf(visit),
});

interface BatchResult {
  readonly body: BatchBody;
  readonly taken: TakeResult;
  readonly facts: Facts;
  readonly withheld: number;
  readonly nearTypes: ReadonlyMap<string, number>;
}

const answerOf = (
  { batchIdKey }: EdgeParts,
  { body, taken: { accepted, errors }, facts: { clientId, batchId: tag }, withheld, nearTypes }: BatchResult,
): BatchAnswer => {
  const rejected = body.events.length - accepted;
  const answer = {
    accepted,
    rejected,
    errors: errors.map(({ index, refused: { id, refusal } }) => ({
      index,
      event_id: id,
      t: typeIn(body.events[index]),
      ...refusal,
    })),
    errors_truncated: rejected > errors.length,
    batch_id: mintBatchId({ client_id: clientId, tag, accepted, rejected, withheld }, batchIdKey),
  };
  return nearTypes.size === 0 ? answer : { ...answer, warnings: warningsOf(nearTypes) };
};

const sizeOf = ({ events }: BatchBody, bytes: number) => {
  const movesMoney = events.some((event) => isMoneyType(typeIn(event) ?? ""));
  return { side: "open", events: events.length, bytes, movesMoney } as const;
};

const countName = (names: Map<string, number>, name: string): void => {
  if (names.has(name) || names.size < MOST_WARNINGS) names.set(name, (names.get(name) ?? 0) + 1);
};

const warningsOf = (names: ReadonlyMap<string, number>): readonly Warning[] =>
  [...names].map(([t, events]) => ({
    ...{ code: NEAR_TYPE, t, events },
    message: `taken as custom events of that name; if ${nearTypeOf(t)} is meant, send that (docs/events.md)`,
  }));

const typeIn = (event: unknown): string | null => {
  const t = typeof event === "object" && event !== null ? (event as { t?: unknown }).t : null;
  return typeof t === "string" ? t.slice(0, 64) : null;
};
