// Takes one payload of a source, answers it as a duplicate, or refuses it with a dead letter that a
// corrected mapping takes. The answer comes once the payload is stored.
import { createHash } from "node:crypto";
import type { ServerResponse } from "node:http";
import { uuidOf } from "../../../domain/ids.ts";
import { mapPayload } from "../../../domain/sources/map-payload.ts";
import { sourceName } from "../../../domain/sources/source.ts";
import { isNeverEvent, SAMPLES_A_MINUTE } from "../../../edges/dead-letters.ts";
import { edges } from "../../../edges.ts";
import { perMinute, perSecond } from "../../../infra/http/direct/per-second.ts";
import { Problem } from "../../../infra/http/problem.ts";
import { senderOf } from "../../../infra/http/sender.ts";
import { hostEdge } from "../../../modules/intake/path/host-edge.ts";
import { type RefusalReason, refusedLetter } from "../../../modules/intake/path/refused-letter.ts";
import { expectQuota } from "../../../modules/intake/quotas/quotas.ts";
import type { TakenPayload } from "../../../modules/intake/sources/payloads.ts";
import type { KnownSource } from "../../../modules/intake/sources/source-picture.ts";
import type { RequestFacts } from "../../../processors/admit/request-terms.ts";
import {
  believed,
  envelopeOf,
  eventIdOf,
  type GenericBody,
  type SourceFacts,
} from "../../../processors/admit/sources/generic.ts";
import { type Arrival, BadBody, type Refusal } from "../../../stream/flow.ts";
import { edgesOf } from "../../../stream/topology.ts";
import type { EdgeParts } from "../edges.ts";

export interface SentPayload {
  readonly source: KnownSource;
  /** Whether this payload came with the key or the signature of its source. */
  readonly bearsCredential: boolean;
  readonly client: RequestFacts;
  readonly raw: Buffer;
  readonly arrival: Arrival;
}
interface Answer {
  readonly status: "accepted" | "duplicate";
  readonly event_id: string;
}
/** Counted in the metrics of the request. */
interface RequestCounts {
  accepted: number;
  refused: ReadonlyMap<string, number>;
}

/** The limit of every JSON body that is no batch (docs/design/contracts.md, "Limits"). */
export const MAX_BYTES = 256 * 1024;
/**
 * The limit of one address. Payloads that are refused all the time have a wrong mapping, and a few
 * of them show it.
 */
const LETTERS_A_SECOND = 50;

const keepIn = (
  { keepPayload }: EdgeParts,
  { source, raw, arrival }: SentPayload,
  outcome: TakenPayload["outcome"],
  code: string | null = null,
): Promise<void> => {
  const { source_id: sourceId, client_id: clientId } = source;
  const { receivedAt } = arrival;
  return keepPayload({ sourceId, clientId, receivedAt, outcome, code, bytes: raw, vault: source.vault() });
};

type Door = "generic" | "external";

const sizeOf = ({ source, bearsCredential, raw }: SentPayload) => ({
  side: bearsCredential ? ("signed" as const) : ("open" as const),
  ...{ events: 1, bytes: raw.length, movesMoney: bearsCredential || source.movesMoney },
});

/**
 * Stores the letter of a refused payload; of unsigned ones that never become an event only a
 * sample. Throws Problem 429 for a sender of too many of them.
 */
const openRefusing = (parts: EdgeParts, name: Door) => {
  const declared = edgesOf(edges).find((one) => one.name === name)!;
  const letters = perSecond(LETTERS_A_SECOND);
  const samples = perMinute(SAMPLES_A_MINUTE);
  return async (sent: SentPayload, body: Buffer, why: RefusalReason): Promise<void> => {
    const { source, bearsCredential, arrival, raw } = sent;
    if (!letters.take(senderOf(arrival.sender)))
      throw new Problem("rate_limited", "too many payloads of this sender are refused: correct the mapping", {
        headers: { "Retry-After": "1" },
      });
    // The same payload, sent and refused again, is the same letter.
    const root = uuidOf(name, source.source_id, createHash("sha256").update(raw).digest("hex"));
    const isStranger = !bearsCredential;
    const isKept = !isNeverEvent(why.code, isStranger) || samples.take(`${source.source_id} ${why.code}`);
    const refused = { clientId: source.client_id, arrival, body, root, isStranger };
    await Promise.all([
      ...(isKept ? [parts.path.store([refusedLetter(declared, refused, why, parts.keyring)], "s2s")] : []),
      keepIn(parts, sent, "refused", why.code),
    ]);
  };
};

/**
 * Answers once the payload is stored. Throws Problem 400, with the field that is wrong, once the
 * letter of a refused payload is stored.
 */
export const openPayloadTaking = (parts: EdgeParts, name: Door) => {
  const edge = hostEdge(edges, name, parts);
  const refuse = openRefusing(parts, name);

  const read = async (sent: SentPayload, envelope: Buffer): Promise<GenericBody> => {
    try {
      return edge.accepts(envelope);
    } catch (error) {
      if (error instanceof BadBody) await refuse(sent, envelope, error);
      throw error;
    }
  };

  const take = async (sent: SentPayload, counted: RequestCounts): Promise<Answer> => {
    const { source, bearsCredential, client, raw, arrival } = sent;
    const { source_id: sourceId, client_id: clientId } = source;
    expectQuota(parts.quotas, { clientId, ...sizeOf(sent) });
    const envelope = envelopeOf({ sourceId, clientId }, raw);
    const body = await read(sent, envelope);
    const { slug, kind, read: mapping } = source;
    const movesMoney = bearsCredential || source.movesMoney;
    const notice = noticeOf(source, body, movesMoney);
    if (notice !== null && (await parts.marks.isMarked(notice))) {
      await keepIn(parts, sent, "duplicate");
      return { status: "duplicate", event_id: eventIdOf(clientId, notice.source, notice.key) };
    }
    let eventId = "";
    const facts: SourceFacts = { ...client, source: { slug, kind, read: mapping, movesMoney } };
    const taken = await edge.take(body, arrival, facts, (data) => {
      eventId = data.event_id;
    });
    const [first] = taken.errors;
    if (first !== undefined) {
      counted.refused = taken.refused;
      await refuse(sent, envelope, first.refused.refusal);
      throw refusedProblem(first.refused.refusal, source);
    }
    await Promise.all([taken.stored, keepIn(parts, sent, "accepted")]);
    counted.accepted = 1;
    const marked = notice === null ? "new" : await parts.marks.mark(notice);
    return { status: marked === "new" ? "accepted" : "duplicate", event_id: eventId };
  };

  return (sent: SentPayload, response: ServerResponse, began: number): Promise<Answer> => {
    const counted: RequestCounts = { accepted: 0, refused: new Map() };
    response.once("close", () => {
      const seconds = (performance.now() - began) / 1_000;
      parts.count({ edge: name, status: response.statusCode, seconds, ...counted });
    });
    return take(sent, counted);
  };
};

const noticeOf = (
  { client_id: clientId, slug, read }: KnownSource,
  { events: [payload] }: GenericBody,
  movesMoney: boolean,
) => {
  const mapped = mapPayload(payload, read);
  if ("code" in mapped) return null;
  return { clientId, source: believed(sourceName(slug), movesMoney), key: mapped.dedup_key! };
};

const refusedProblem = ({ code, field, message }: Refusal, { mapping }: KnownSource): Problem => {
  const path = field !== null && Object.hasOwn(mapping, field) ? mapping[field as keyof typeof mapping] : null;
  return new Problem("validation_failed", message, {
    errors: [{ pointer: field === null ? "" : `/${field}`, code, detail: message }],
    members: { field, path: path ?? null },
  });
};
