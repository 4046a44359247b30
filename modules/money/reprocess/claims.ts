// Holds the claims about the orders of a window from the topic `claims`: read once, kept as bytes,
// decoded on use.
import { keysOfEvent } from "../../../processors/attribute/claims.ts";
import { MERGE_WINDOW_MS } from "../../../processors/settle/copies/merge-copy.ts";
import type { Claim, Enrichment, EventAttributed, EventReceived, Fraud } from "../../../schemas/generated.ts";
import type { Position, Recorded, UnixMs } from "../../../stream/flow.ts";
import { takenName } from "../../../stream/memory/taken-ids.ts";
import type { InputMessage } from "../../../stream/messages.ts";
import { partitionOf } from "../../../stream/partitioner.ts";
import { topics } from "../../../topics.ts";
import { decoded } from "./log/read-window.ts";
import { type IndexedClaims, type ReprocessPorts, type ReprocessSettings, TooMuch } from "./ports.ts";

interface KeptClaim {
  readonly value: Buffer;
  readonly position: Position;
}
export interface KeptOrder {
  readonly client_id: number;
  readonly order_key: string;
  /** Claims in the order in which settle read them. */
  readonly claims: readonly KeptClaim[];
}
/** A conversion near the window, and where `events.raw` may hold its event. */
interface NearConversion {
  readonly id: string;
  /** The partition of `events.raw`. */
  readonly partition: number;
  readonly receivedAt: UnixMs;
  /** When its claim was appended: the event was before. */
  readonly appendedAt: UnixMs;
}
export interface Claims {
  /** Orders by the record key of `claims`. */
  readonly orders: ReadonlyMap<string, KeptOrder>;
  /** Conversions that were received at most 48 h around the window, as they came first. */
  readonly near: readonly NearConversion[];
  readonly decode: (kept: KeptClaim) => Recorded<Claim>;
  /**
   * Returns the row that attribute made of a conversion, with the results of later reprocessing;
   * undefined when the event is no conversion of a kept order.
   */
  readonly rowOf: (eventId: string) => EventAttributed | undefined;
  /** Whether the event is of the order that was settled under its id: another may bear it too. */
  readonly isSettled: (event: EventReceived) => boolean;
}

/** Allowance for the difference between the clocks of the log and of the receiving edge. */
export const SKEW_MS = 60_000;

const partitionOfEvent = ({ event }: EventAttributed): number =>
  partitionOf(Buffer.from(topics.eventsRaw.keyOf(event)), topics.eventsRaw.partitions);

export type ClaimPorts = Pick<ReprocessPorts, "wire" | "withholds" | "limits" | "stretches" | "indexed" | "claimsAt">;

/** A claim is recorded when settle reads it, so no record is older than the claims near it. */
const readTaken = async (ports: ClaimPorts, { from, clientId }: ReprocessSettings): Promise<Set<string>> => {
  const taken = new Set<string>();
  const since = from - MERGE_WINDOW_MS - SKEW_MS;
  await ports.stretches(topics.claimsTaken, [{ from: since, until: null, partition: null }], async (batch) => {
    for (const { event } of await decoded(topics.claimsTaken, batch, ports, clientId)) taken.add(takenName(event));
  });
  return taken;
};

/**
 * Copies of one sale merge within 48 h of each other. So a line whose first copy lies in the window
 * depends only on conversions received at most 48 h around it, and on decisions and refunds up to
 * now: what was wholly given back holds no other line. All of them are of an order that has a
 * conversion in the window, by which the index finds them.
 */
export const readClaims = async (
  ports: ClaimPorts,
  settings: ReprocessSettings,
  indexed: IndexedClaims,
): Promise<Claims> => {
  const from = settings.from - MERGE_WINDOW_MS;
  const to = settings.to + MERGE_WINDOW_MS;
  const orders = new Map<string, { client_id: number; order_key: string; claims: KeptClaim[] }>();
  const conversions = new Map<string, KeptClaim>();
  const near: NearConversion[] = [];
  const found = new Map<string, { readonly enrichment: Enrichment; readonly fraud: Fraud }>();
  const taken = await readTaken(ports, settings);
  let kept = 0;
  const keep = (key: string, { data, position }: Recorded<Claim>, { value }: InputMessage): KeptClaim => {
    kept += 1;
    if (kept > ports.limits.claims) throw new TooMuch("claims", ports.limits.claims);
    // A copy of the bytes: the message is a slice of the whole fetch and would keep it in memory.
    const one: KeptClaim = { value: Buffer.from(value!), position };
    const order = orders.get(key);
    if (order === undefined) orders.set(key, { client_id: data.client_id, order_key: data.order_key, claims: [one] });
    else order.claims.push(one);
    return one;
  };
  await ports.claimsAt(indexed.claims, async (batch) => {
    for (const { event, source } of await decoded(topics.claims, batch, ports, settings.clientId)) {
      const { data, receivedAt, key } = event;
      if (taken.has(takenName(event))) continue;
      if (data.kind === "conversion") {
        const isNear = receivedAt >= from && receivedAt < to;
        if ((isNear || orders.has(key)) && !conversions.has(event.id)) {
          conversions.set(event.id, keep(key, event, source));
          const { appendedAt } = source;
          if (isNear) near.push({ id: event.id, partition: partitionOfEvent(data.attributed), receivedAt, appendedAt });
        }
      } else if (data.decision !== null && orders.has(key)) {
        keep(key, event, source);
        const { kind, scope } = data.decision;
        const { event: about, enrichment, fraud } = data.attributed;
        if (kind === "reprocess" && scope === "line") found.set(about.event_id, { enrichment, fraud });
      } else if (data.kind === "refund" && orders.has(key)) keep(key, event, source);
    }
  });
  const decode = ({ value, position }: KeptClaim): Recorded<Claim> => ports.wire.decode(topics.claims, value, position);
  return {
    orders,
    near,
    decode,
    isSettled: (event) => {
      const one = conversions.get(event.event_id);
      return one !== undefined && keysOfEvent(event).includes(decode(one).data.order_key);
    },
    rowOf: (eventId) => {
      const one = conversions.get(eventId);
      return one === undefined ? undefined : { ...decode(one).data.attributed, ...found.get(eventId) };
    },
  };
};
