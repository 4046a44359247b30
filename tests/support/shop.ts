// The whole pipeline in memory behind its real edge: a test sends events in a sender's form and can
// read every topic.

import { clickIdKey, mint } from "../../domain/click-id.ts";
import { identifyFor, pepperOf } from "../../domain/device-id.ts";
import { type ReferenceRows, reference } from "../../domain/reference/reference.ts";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import { acceptsBatch, admitBatch, type BatchFacts } from "../../processors/admit/batch.ts";
import { clickKeys, clickKeysOf, identityClicks } from "../../processors/attribute/facts.ts";
import { identityKeys, identityKeysOf } from "../../processors/enrich/facts.ts";
import { places, placesOf } from "../../processors/enrich/places.ts";
import { hints } from "../../processors/score/facts.ts";
import type { Conversion, EventAttributed, EventReceived, LedgerEntry } from "../../schemas/generated.ts";
import type { Admission, Arrival, Read, UnixMs } from "../../stream/flow.ts";
import { type DriveSettings, drive, type TopologyDriver } from "../../stream/testing/drive.ts";
import { topics } from "../../topics.ts";
import { pipeline } from "../../topology.ts";
import { clientId, linkId, noon, reads, referenceWith } from "./builders.ts";

const secret = "the secret of an installation";
const clickKey = clickIdKey(secret, 1);

/** The click id that a tracking link made this long before noon. */
export const clickBefore = (elapsedMs: number, onLink = linkId): string =>
  mint(onLink, noon - elapsedMs, new Uint8Array(8), clickKey);

/** An event in the JSON form of a sender. */
export type Written = Readonly<Record<string, unknown>>;
export const pageView = (over: Written = {}): Written => ({
  t: "page_view",
  ts: noon,
  cid: clientId,
  did: "phone",
  url: "https://shop.example/",
  ...over,
});
export const click = (clickId: string, over: Written = {}): Written =>
  pageView({ t: "click", svc_click_id: clickId, ...over });
/** One unit of sku1 for 100.00 MXN in order o1. */
export const purchase = (over: Written = {}, props: Written = {}): Written =>
  pageView({
    t: "purchase",
    url: undefined,
    props: {
      order_id: "o1",
      product_id: "sku1",
      product_line: "MX",
      quantity: 1,
      revenue: "100.00",
      currency: "MXN",
      ...props,
    },
    ...over,
  });
/** A refund of all of order o1; `props` may name an amount. */
export const refund = (over: Written = {}, props: Written = {}): Written =>
  pageView({
    t: "refund",
    url: undefined,
    props: { order_id: "o1", currency: "MXN", reason: "item_returned", ...props },
    ...over,
  });

/**
 * The facts of the edge about the token of the shop's own server. The token of a visitor's browser
 * is marked as such.
 */
export const token = (over: Partial<BatchFacts> = {}): BatchFacts => ({
  clientId,
  segments: [],
  consentDefault: 0xff,
  isClientSide: false,
  identify: identifyFor(pepperOf(secret, over.clientId ?? clientId), 100),
  ...over,
});
const arrival = (receivedAt: UnixMs): Arrival => ({
  receivedAt,
  sender: String(clientId),
  address: null,
  header: () => undefined,
});

/** The answer of POST /ingest/batch for each of these events. */
export const admit = (
  events: readonly Written[],
  receivedAt: UnixMs = noon,
  facts = token(),
): readonly Admission<EventReceived>[] => [
  ...admitBatch(acceptsBatch(JSON.stringify({ events })), arrival(receivedAt), facts),
];

export interface Shop extends TopologyDriver {
  /**
   * Sends events through the edge into the log and through every stage. Throws if the edge refuses
   * one.
   */
  readonly post: (
    events: readonly Written[],
    over?: { readonly receivedAt?: UnixMs; readonly isClientSide?: boolean; readonly source?: string },
  ) => Promise<void>;
  /**
   * Replaces the reference data. `rows` must contain the earlier rows too, because rows are never
   * edited.
   */
  readonly learn: (rows: Partial<ReferenceRows>) => void;
  /** The records of the three topics at the end of the chain, in the order of writing. */
  readonly stored: () => readonly EventAttributed[];
  readonly conversions: () => readonly Conversion[];
  readonly entries: () => readonly LedgerEntry[];
}

/** The stores hold nothing about other events. */
const nothingInCommon = { lookUp: async () => new Map() };

export const knowing = (rows: Partial<ReferenceRows>): Read =>
  reads(
    [reference, referenceWith(rows)],
    [clickKeys, clickKeysOf([clickKey])],
    [identityKeys, identityKeysOf(secret)],
    [places, placesOf(null)],
    [hints, nothingInCommon],
    [identityClicks, nothingInCommon],
  );

/**
 * By default one client with one partner, campaign, link and a contract of 10 %
 * (tests/support/builders.ts).
 */
export const shop = (rows: Partial<ReferenceRows> = {}, settings: Omit<Partial<DriveSettings>, "read"> = {}): Shop => {
  const driven = drive(pipeline, { wire: inMemoryWire, ...settings, read: knowing(rows) });
  const dataOf = <T>(events: readonly { readonly data: T }[]): readonly T[] => events.map(({ data }) => data);
  return {
    ...driven,
    post: (events, { receivedAt = noon, isClientSide = false, source } = {}) =>
      driven.send(
        topics.eventsRaw,
        ...admit(events, receivedAt, token({ isClientSide })).map((admission) => {
          if (admission.kind === "refused")
            throw new Error(`the edge refused ${admission.refusal.field}: ${admission.refusal.message}`);
          return { data: { ...admission.data, ...(source && { source }) }, at: admission.at, receivedAt };
        }),
      ),
    learn: (later) => driven.know(knowing(later)),
    stored: () => dataOf(driven.read(topics.eventsAttributed)),
    conversions: () => dataOf(driven.read(topics.conversions)),
    entries: () => dataOf(driven.read(topics.ledgerEntries)),
  };
};
