// Every topic of the log, from topics.yaml. Do not edit: npm run generate.
import { topic } from "./infra/avro/codec.ts";
import type {
  Claim,
  Conversion,
  DomainChanged,
  EventAttributed,
  EventEnriched,
  EventReceived,
  EventScored,
  LedgerEntry,
  Operation,
  ReferenceChanged,
  TakenId,
} from "./schemas/generated.ts";
import { schemas } from "./schemas/generated-avro.ts";

/** The topics that hold records. */
export const topics = {
  eventsRaw: topic<EventReceived>({
    name: "events.raw",
    keyedBy: "client_id:did",
    partitions: 12,
    checked: false,
    idOf: (data) => data.event_id,
    keyOf: (data) => `${data.client_id}:${data.did}`,
    record: schemas.EventReceived,
  }),
  eventsEnriched: topic<EventEnriched>({
    name: "events.enriched",
    keyedBy: "client_id:did",
    partitions: 12,
    checked: false,
    idOf: (data) => data.event.event_id,
    keyOf: (data) => `${data.event.client_id}:${data.event.did}`,
    record: schemas.EventEnriched,
  }),
  eventsScored: topic<EventScored>({
    name: "events.scored",
    keyedBy: "client_id:did",
    partitions: 12,
    checked: false,
    idOf: (data) => data.event.event_id,
    keyOf: (data) => `${data.event.client_id}:${data.event.did}`,
    record: schemas.EventScored,
  }),
  eventsAttributed: topic<EventAttributed>({
    name: "events.attributed",
    keyedBy: "client_id:did",
    partitions: 12,
    checked: false,
    idOf: (data) => data.event.event_id,
    keyOf: (data) => `${data.event.client_id}:${data.event.did}`,
    record: schemas.EventAttributed,
  }),
  claims: topic<Claim>({
    name: "claims",
    keyedBy: "client_id:order",
    partitions: 4,
    checked: true,
    idOf: (data) => data.decision?.decision_id ?? data.moved?.move_id ?? data.attributed.event.event_id,
    keyOf: (data) => `${data.client_id}:${data.order_key}`,
    record: schemas.Claim,
  }),
  claimsTaken: topic<TakenId>({
    name: "claims.taken",
    keyedBy: "client_id:order",
    partitions: 4,
    checked: true,
    idOf: (data) => data.event_id,
    keyOf: (data) => `${data.client_id}:${data.order_key}`,
    record: schemas.TakenId,
  }),
  conversions: topic<Conversion>({
    name: "conversions",
    keyedBy: "client_id:partner_id",
    partitions: 4,
    checked: true,
    idOf: (data) => data.change_id,
    keyOf: (data) => `${data.client_id}:${data.partner_id}`,
    record: schemas.Conversion,
  }),
  ledgerEntries: topic<LedgerEntry>({
    name: "ledger.entries",
    keyedBy: "client_id:partner_id",
    partitions: 4,
    checked: true,
    idOf: (data) => data.entry_id,
    keyOf: (data) => `${data.client_id}:${data.partner_id}`,
    record: schemas.LedgerEntry,
  }),
  referenceChanges: topic<ReferenceChanged>({
    name: "reference.changes",
    keyedBy: "entity:id",
    partitions: 1,
    checked: false,
    idOf: (data) => data.event_id,
    keyOf: (data) => `${data.entity}:${data.entity_id}`,
    record: schemas.ReferenceChanged,
  }),
  domainChanges: topic<DomainChanged>({
    name: "domain.changes",
    keyedBy: "client_id:entity",
    partitions: 4,
    checked: false,
    idOf: (data) => data.event_id,
    keyOf: (data) => `${data.client_id}:${data.entity}`,
    record: schemas.DomainChanged,
  }),
  operations: topic<Operation>({
    name: "operations",
    keyedBy: "actor",
    partitions: 1,
    checked: false,
    idOf: (data) => data.operation_id,
    keyOf: (data) => `${data.actor}`,
    record: schemas.Operation,
  }),
  eventsRestored: topic<EventReceived>({
    name: "events.restored",
    keyedBy: "client_id:did",
    partitions: 12,
    checked: false,
    idOf: (data) => data.event_id,
    keyOf: (data) => `${data.client_id}:${data.did}`,
    record: schemas.EventReceived,
  }),
} as const;

/** The settings of every topic on the broker; a retentionMs of -1 keeps records for good. */
export const topicSettings = [
  /**
   * The write-ahead log. No event is acknowledged to a sender before it is here. Keyed by device,
   * so that the events of a device stay in order.
   */
  { name: "events.raw", partitions: 12, retentionMs: 604800000, compacted: false, money: false },
  /** Only written when stages are hosted apart. */
  { name: "events.enriched", partitions: 12, retentionMs: 86400000, compacted: false, money: false },
  /** Only written when stages are hosted apart. */
  { name: "events.scored", partitions: 12, retentionMs: 86400000, compacted: false, money: false },
  /**
   * Every stored event with enrichment, fraud and credit. Claims are written by settle, all other
   * events by attribute, so no row version has two authors.
   */
  { name: "events.attributed", partitions: 12, retentionMs: 2592000000, compacted: false, money: false },
  /**
   * All claims about an order, in their order of arrival, so that a sale, its second copy and its
   * refund cannot race.
   */
  { name: "claims", partitions: 4, retentionMs: -1, compacted: false, money: true },
  /**
   * Claims that came when another order had their event id. Read when memory of orders was lost, so
   * that they come second again in whatever order the partitions are read.
   */
  { name: "claims.taken", partitions: 4, retentionMs: -1, compacted: false, money: true },
  /**
   * Conversions that earn or return money. Keyed by partner, because tiers and caps are per
   * partner.
   */
  { name: "conversions", partitions: 4, retentionMs: -1, compacted: false, money: true },
  /**
   * Immutable, balanced, integer minor units; every amount a partner or client sees is a reading of
   * it.
   */
  { name: "ledger.entries", partitions: 4, retentionMs: -1, compacted: false, money: true },
  /**
   * Names the records of reference data that have a new version, for processes that keep a snapshot
   * of them. One partition, so that changes come in the order of saving.
   */
  { name: "reference.changes", partitions: 1, retentionMs: -1, compacted: true, money: false },
  /**
   * Changes that outbound webhooks and the audit read. Keyed so that the changes of one thing stay
   * in order.
   */
  { name: "domain.changes", partitions: 4, retentionMs: 2592000000, compacted: false, money: false },
  /**
   * The audit of the log, with actor, time and offsets: rewinds, replays, restores, reprocessing,
   * dead letters that were retried or discarded. One partition, so that operations stay in order.
   */
  { name: "operations", partitions: 1, retentionMs: -1, compacted: false, money: false },
  /**
   * Events that `tributary restore` reads from the archive, for windows that events.raw no longer
   * holds. Replays and relearning read it; it never goes into events.raw.
   */
  { name: "events.restored", partitions: 12, retentionMs: 604800000, compacted: false, money: false },
  /** Health round trips of the edges. */
  { name: "probe", partitions: 1, retentionMs: 3600000, compacted: false, money: false },
  /** Dead letters of tracking links, original bytes, reasons in headers. */
  {
    name: "clicks.dlq",
    partitions: 4,
    retentionMs: 7776000000,
    retentionBytes: 2147483648,
    compacted: false,
    money: false,
  },
  /** Dead letters of the browser pixel. Strangers write them, so their bytes have an end. */
  {
    name: "pixel.dlq",
    partitions: 4,
    retentionMs: 7776000000,
    retentionBytes: 2147483648,
    compacted: false,
    money: false,
  },
  /** Dead letters of every other source, and of bytes that cannot be read. */
  {
    name: "s2s.dlq",
    partitions: 4,
    retentionMs: 7776000000,
    retentionBytes: 2147483648,
    compacted: false,
    money: false,
  },
] as const;
