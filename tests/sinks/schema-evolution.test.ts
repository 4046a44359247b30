// After a field with a default is added to a schema, older records become the same rows as before,
// and the money tables still see the same content.
import { inspect } from "node:util";
import { expect, test } from "vitest";
import { eventTypes } from "../../processors/admit/event-types.ts";
import { decisionOnOrder } from "../../processors/settle/decision-claim.ts";
import type { EventAttributed } from "../../schemas/generated.ts";
import { conversionRows } from "../../sinks/conversions/rows.ts";
import { ledgerRows } from "../../sinks/ledger/rows.ts";
import { type AnySink, type AnyTopic, type Recorded, writesRows } from "../../stream/flow.ts";
import { topics } from "../../topics.ts";
import { pipeline } from "../../topology.ts";
import { attributed, choice, claim, clickCredit, conversion, recorded } from "../support/builders.ts";
import { laterRelease, readLater, recordsOf, rewritten } from "../support/later-release.ts";
import { entry } from "../support/money-builders.ts";

const edge = { kind: "email", identifier: "a".repeat(64), method: "email_on_event", confidence: 100, expires_at: 9 };
const candidate = { method: "click", reference: "x", partner_id: 22, campaign_id: null, outcome: "click_expired" };
const reason = { code: "datacenter", weight: 45, evidence: "asn" };
const hints = { address_conversions: 3, click_devices: 1, click_country: "ES" };
/** A sale with a value in every optional record. */
const sale = attributed(
  { ip: "8.8.8.8", click_id: "c", across: [{ kind: "email", identifier: "b".repeat(64) }] },
  {
    credit: clickCredit({ candidates: [candidate] }),
    enrichment: { edges: [edge], person: "email:x" },
    fraud: { score: 45, band: "review", reasons: [reason], hints },
  },
);
/** Of a person, about a refund that was moved: it has every record that a claim may have. */
const decision = decisionOnOrder(1, "o1", {
  ...{ decision_id: "00000000-0000-8000-8000-000000000001", kind: "release", actor: "user:ana", reason: "by phone" },
  ...{ partner_id: null, campaign_id: null, at: 9, flags: [reason], review_from: 101, reject_from: 101 },
}).decision;
const moved = { move_id: "00000000-0000-8000-8000-000000000002", at: 9, received_at: 9 };
/** A sink gets the first record of its topic that it writes rows for. */
const samples = new Map<AnyTopic, readonly unknown[]>([
  [
    topics.eventsAttributed,
    [
      sale,
      attributed(choice({ across: sale.event.across }, 0x01), sale),
      ...eventTypes.map((t): EventAttributed => ({ ...sale, event: { ...sale.event, t } })),
    ],
  ],
  [topics.claims, [claim({ attributed: sale, decision, moved })]],
  [topics.conversions, [conversion()]],
  [topics.ledgerEntries, [entry()]],
]);
const sampleOf = (sink: AnySink): Recorded<any> => {
  const events = (samples.get(sink.from) ?? []).map((data) => recorded(sink.from, data));
  return events.find((event) => sink.rows(event).length > 0) ?? events[0]!;
};

const sinks = pipeline.nodes.filter((node): node is AnySink => node.is === "sink" && writesRows(node));
/** A row of positional columns by its values, whichever event it comes from. */
const writtenOf = (sink: AnySink, event: Recorded<any>): readonly unknown[] =>
  sink.rows(event).map((row) => (row as { readonly values?: unknown }).values ?? row);
const cases = sinks.flatMap((sink) => recordsOf(sink.from).map((record) => ({ sink, record, name: sink.name })));

test.each(cases)("$name writes the same rows when $record has one field more", ({ sink, record }) => {
  const event = sampleOf(sink);
  const later = laterRelease(sink.from, record);
  const rows = writtenOf(sink, event);
  expect(rows.length).toBeGreaterThan(0);
  const read = readLater(sink.from, later, event);
  expect(inspect(read.data, { depth: null })).toContain("added_later");
  expect(writtenOf(sink, read)).toEqual(rows);
  expect(writtenOf(sink, rewritten(sink.from, later, event))).toEqual(rows);
});

test("the content of a conversion and of a ledger entry has the hash that the first release stored", () => {
  const [conversionRow] = conversionRows(recorded(topics.conversions, conversion()));
  const [entryRow] = ledgerRows(recorded(topics.ledgerEntries, entry()));
  expect([conversionRow!.content_hash, entryRow!.content_hash]).toEqual([
    "c58a98882e7f2c78972ec194e21ced4dec42a7b302e017a6e3ed820d27b2962a",
    "be96a50cee479c86adb2c921d7110455e9479b5a6bf1963ce57907838d6173cb",
  ]);
});

/**
 * Columns that were added after rows had been stored: contents that differ only in them are equal.
 */
const addedLater: readonly string[] = [];

test.each([
  { data: conversion(), rows: conversionRows, topic: topics.conversions },
  { data: entry(), rows: ledgerRows, topic: topics.ledgerEntries },
] as readonly { data: any; rows: AnySink["rows"]; topic: AnyTopic }[])(
  "every field of $topic.name is part of the content, unless it was added later",
  ({ data, rows, topic }) => {
    const hashOf = (one: unknown) => (rows(recorded(topic, one))[0] as { content_hash: string }).content_hash;
    const uncounted = Object.keys(data).filter(
      (field) => hashOf({ ...data, [field]: changed(data[field]) }) === hashOf(data),
    );
    expect(uncounted).toEqual(addedLater);
  },
);
const changed = (value: unknown): unknown => {
  if (typeof value === "bigint") return value + 1n;
  if (typeof value === "number") return value + 1;
  if (typeof value === "boolean") return !value;
  return Array.isArray(value) ? value.slice(1) : `${value} changed`;
};
