// A pushed lead always becomes the same event, with the keys of its browser copy and without
// personal data in plain text.
import { expect, test } from "vitest";
import { identifyFor, pepperOf } from "../../domain/device-id.ts";
import { leadKey } from "../../domain/ids.ts";
import { acceptsBatch, admitBatch } from "../../processors/admit/batch.ts";
import { leadReceived } from "../../processors/admit/outbox/announcements.ts";
import { admitLead, type SentLead } from "../../processors/admit/outbox/lead.ts";
import { clientId, noon } from "../support/builders.ts";

const identify = identifyFor(pepperOf("the secret of an installation", clientId), 100);
const facts = { clientId, segments: [], consentDefault: 255, isClientSide: false, identify };
const admit = (lead: Partial<SentLead>, over: object = {}) =>
  admitLead({ client_lead_id: "L-1", ...lead }, noon, { ...facts, ...over });
const accepted = (lead: Partial<SentLead>, over: object = {}) => {
  const admitted = admit(lead, over);
  if (admitted.kind === "refused") throw new Error(JSON.stringify(admitted.refusal));
  return admitted;
};
const eventOf = (lead: Partial<SentLead>, over: object = {}) => accepted(lead, over).event;

test("the same lead is the same event, whatever else its second push says", () => {
  const first = accepted({ email: "ana@shop.example", product: "loan" });
  const second = accepted({ email: "other@shop.example" });
  expect(second.subjects.lead).toBe(first.subjects.lead);
  expect(second.event.event_id).toBe(first.event.event_id);
  expect(accepted({ client_lead_id: "L-2" }).event.event_id).not.toBe(first.event.event_id);
  const elsewhere = admitLead({ client_lead_id: "L-1" }, noon, { ...facts, clientId: clientId + 1 });
  expect(elsewhere.kind === "accepted" && elsewhere.subjects.lead).not.toBe(first.subjects.lead);
});

test("it has the lead key of the copy that a browser sends, which hashes the e-mail by itself", () => {
  const body = JSON.stringify({
    events: [
      {
        t: "lead_submit",
        ts: noon,
        cid: clientId,
        did: "phone",
        props: { email: "ana@shop.example", product: "loan" },
      },
    ],
  });
  const arrival = { receivedAt: noon, sender: "1", address: null, header: () => undefined };
  const [copy] = [...admitBatch(acceptsBatch(Buffer.from(body)), arrival, facts)];
  const event = eventOf({ email: " ANA@shop.example ", product: "loan" });
  expect(copy!.kind === "accepted" && copy!.data.lead_key).toBe(event.lead_key);
});

test("without an e-mail that is one, its own id is its key", () => {
  for (const email of [undefined, null, "", "ana", "ana@", "@x.mx", "ana@x", "a b@x.mx", "ana@x.mx\r\nBcc: b@x.mx"])
    expect([email, eventOf({ email, product: "loan" }).lead_key]).toEqual([
      email,
      leadKey({ emailHash: null, product: null, clientLeadId: "L-1" }),
    ]);
});

test("several leads of one person are of one device, those of no one known of one each", () => {
  const did = (lead: Partial<SentLead>): string => eventOf(lead).did;
  const same = [
    { client_lead_id: "a", email: "ana@x.mx" },
    { client_lead_id: "b", email: "ANA@x.mx", phone: "1" },
  ];
  expect(new Set(same.map(did)).size).toBe(1);
  expect(did({ phone: "55 1234 5678" })).toBe(did({ client_lead_id: "b", phone: "+52 1 55 1234 5678" }));
  expect(did({ client_lead_id: "a" })).not.toBe(did({ client_lead_id: "b" }));
});

test("nothing plain is on the event: an id, a product or a stage that is shaped like an address is its hash", () => {
  const event = eventOf({
    client_lead_id: "ana@x.mx",
    product: "of ana@x.mx",
    stage: "call ana@x.mx",
    phone: "5512345678",
  });
  expect(JSON.stringify({ ...event, value_minor: null })).not.toMatch(/ana@|5512345678/);
  expect(JSON.parse(event.props).client_lead_id).toBe(identify.plain("ana@x.mx"));
});

test("a person is found by what was sent, be it an address or not; the event has the hash of a good one alone", () => {
  const { subjects, event } = accepted({ email: "ana@", phone: "ask me" });
  expect(subjects).toMatchObject({ email: identify.plain("ana@"), phone: identify.plain("ask me") });
  expect(JSON.parse(event.props)).toEqual({ client_lead_id: "L-1" });
  expect(accepted({ email: "  " }).subjects).toMatchObject({ email: null, phone: null });
});

test("what no one has said of consent is the client's default, and a lead without a time is of when it came", () => {
  expect(eventOf({}, { consentDefault: 0 })).toMatchObject({ consent: 0, ts: noon, warnings: [] });
  expect(eventOf({ event_time: "2026-01-01T00:00:00Z", lead_value: 10.005 }).warnings).toEqual(["amount_rounded"]);
});

test.each([
  ["lead_value", { lead_value: -1 }, "bad_amount"],
  ["currency", { currency: "XQZ" }, "bad_currency"],
  ["event_time", { event_time: "1999-01-01T00:00:00Z" }, "ts_too_old"],
  ["event_time", { event_time: "2999-01-01T00:00:00Z" }, "ts_in_future"],
])("a refusal names the field as it was sent: %s", (field, lead, code) =>
  expect(admit(lead)).toMatchObject({ kind: "refused", refusal: { field, code } }),
);

test("its row in the outbox becomes the event again, of its own time and of when it was received", () => {
  const event = eventOf({ lead_value: "12.30", event_time: new Date(noon - 60_000).toISOString() });
  const row = JSON.parse(JSON.stringify({ received_at: noon, event: { ...event, value_minor: "1230" } }));
  expect(leadReceived({ record: row })).toEqual({ at: noon - 60_000, receivedAt: noon, data: event });
});
