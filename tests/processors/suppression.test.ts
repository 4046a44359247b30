// Which records are about an erased person: by device, e-mail, phone, lead and order, in every
// topic that stores are written from, up to the moment of the erasure.
import { expect, test } from "vitest";
import { identifyFor, pepperOf } from "../../domain/device-id.ts";
import { leadKey } from "../../domain/ids.ts";
import { hidesOf, type SubjectKind, subjectsOf } from "../../domain/personal/suppression.ts";
import { topics } from "../../topics.ts";
import { attributed, clientId, conversion, enrichment, hourMs, noon, received, recorded } from "../support/builders.ts";
import { entry } from "../support/money-builders.ts";

const identify = identifyFor(pepperOf("the secret of an installation", clientId), 10);
const erased = (kind: SubjectKind, value: string, since = noon) =>
  hidesOf(subjectsOf(kind, value, identify).map((subject) => ({ client_id: clientId, kind, subject, since })))!;
const did = identify.plain("phone");
const [email] = subjectsOf("email", " Ana@Shop.Example ", identify) as [string];
const { eventsAttributed, eventsRaw, conversions, ledgerEntries } = topics;
const hidesAttributed = (hides: ReturnType<typeof erased>, ...given: Parameters<typeof attributed>) =>
  hides(recorded(eventsAttributed, attributed(...given)), eventsAttributed.name);

test("an empty list costs nothing: there is nothing to ask", () => {
  expect(hidesOf([])).toBeUndefined();
});

test("a device is hidden up to the moment of its erasure, and what it does later is new", () => {
  const hides = erased("did", "phone");
  const at = (ms: number) => hides(recorded(eventsAttributed, attributed({ did }), { at: ms }), eventsAttributed.name);
  expect([at(noon - hourMs), at(noon), at(noon + 1)]).toEqual([true, true, false]);
  expect(hidesAttributed(hides, { did: "another" })).toBe(false);
  expect(hidesAttributed(hides, { did, client_id: clientId + 1 }), "a device of another client is another device").toBe(
    false,
  );
});

test("the later of two erasures of one subject counts", () => {
  const one = { client_id: clientId, kind: "did" as const, subject: did };
  const hides = hidesOf([
    { ...one, since: noon },
    { ...one, since: noon - hourMs },
  ])!;
  expect(hidesAttributed(hides, { did })).toBe(true);
});

test("an e-mail is found in props, in an address, as a person and as an identity edge, however it was written", () => {
  const hides = erased("email", "ana@shop.example");
  expect(hidesAttributed(hides, { props: JSON.stringify({ form: { email } }) })).toBe(true);
  expect(hidesAttributed(hides, { url: `https://shop.example/?mail=${email}` })).toBe(true);
  expect(hidesAttributed(hides, {}, { enrichment: enrichment({ person: `email:${email}` }) })).toBe(true);
  const edge = {
    kind: "email" as const,
    identifier: email,
    method: "email_on_event",
    confidence: 100,
    expires_at: noon,
  };
  expect(hidesAttributed(hides, {}, { enrichment: enrichment({ edges: [edge] }) })).toBe(true);
  expect(hidesAttributed(hides, { props: JSON.stringify({ email: identify.plain("somebody else") }) })).toBe(false);
});

test("a lead is found by the client's own id, also one whose key is that of its e-mail", () => {
  const hides = erased("client_lead_id", "L-7");
  const lead_key = leadKey({ emailHash: email, product: "loan", clientLeadId: "L-7" });
  const lead = (id: unknown) =>
    hidesAttributed(hides, { t: "lead_submit", lead_key, props: JSON.stringify({ email, client_lead_id: id }) });
  expect([lead("L-7"), lead("L-8"), lead(7)]).toEqual([true, false, false]);
  expect(hidesAttributed(hides, { t: "lead_submit", lead_key: null, props: "no JSON" })).toBe(false);
  const shaped = erased("client_lead_id", "ana@shop.example");
  const props = JSON.stringify({ client_lead_id: identify.plain("ana@shop.example") });
  expect(hidesAttributed(shaped, { t: "lead_submit", lead_key: null, props }), "the log has it as its hash").toBe(true);
});

test("an e-mail is found in every form that was ever hashed, and one that was sent hashed by its key alone", () => {
  const full = "ＡＮＡ+a@shop.example";
  const hides = erased("email", full);
  const seen = (text: string) => hidesAttributed(hides, { props: JSON.stringify({ text: identify.plain(text) }) });
  const held = ["ana+a@shop.example", full.toLowerCase(), "ana@shop.example", "ana+b@shop.example"];
  expect(held.map(seen)).toEqual([true, true, false, false]);
  const inUrl = erased("email", "ana+a@shop.example");
  const escaped = { url: `https://shop.example/?m=${identify.plain("ana%2ba@shop.example")}` };
  expect(hidesAttributed(inUrl, escaped), "as form 1 has hashed it").toBe(true);
  const sha256 = "A".repeat(64);
  expect(subjectsOf("email", sha256, identify)).toEqual([identify.hashed("a".repeat(64))]);
});

test("a phone is found by its digits, a lead by the client's own id, an order by its number", () => {
  const ofPhone = erased("phone", "+52 1 (55) 1234 5678");
  const seen = (phone: string) => hidesAttributed(ofPhone, { props: JSON.stringify({ phone }) });
  expect(seen(identify.plain("+525512345678"))).toBe(true);
  expect(seen(identify.plain("+5215512345678")), "as form 1 has hashed it").toBe(true);
  expect(seen(identify.plain("+525512345679"))).toBe(false);
  const lead = leadKey({ emailHash: null, product: null, clientLeadId: "L-1" });
  expect(hidesAttributed(erased("client_lead_id", "L-1"), { lead_key: lead })).toBe(true);
  expect(hidesAttributed(erased("order_id", "o1"), { order_id: "o1" })).toBe(true);
  expect(hidesAttributed(erased("order_id", "o1"), { order_id: "o2" })).toBe(false);
  expect(subjectsOf("order_id", "o1", identify).join()).not.toContain("o1");
});

test("the raw event, and a conversion by its customer or order, are hidden too; the ledger keeps its amounts", () => {
  const ofDevice = erased("did", "phone");
  expect(ofDevice(recorded(eventsRaw, received({ did })), eventsRaw.name)).toBe(true);
  expect(ofDevice(recorded(conversions, conversion({ customer: did, occurred_at: noon })), conversions.name)).toBe(
    true,
  );
  expect(ofDevice(recorded(conversions, conversion({ customer: did, occurred_at: noon + 1 })), conversions.name)).toBe(
    false,
  );
  const ofPerson = conversion({ customer: "email:x", device: did, occurred_at: noon });
  expect(ofDevice(recorded(conversions, ofPerson), conversions.name)).toBe(true);
  const ofOrder = erased("order_id", "o9");
  expect(ofOrder(recorded(conversions, conversion({ order_id: "o9", occurred_at: noon })), conversions.name)).toBe(
    true,
  );
  expect(
    erased("email", "ana@shop.example")(
      recorded(conversions, conversion({ customer: `email:${email}`, occurred_at: noon })),
      conversions.name,
    ),
  ).toBe(true);
  expect(ofOrder(recorded(ledgerEntries, entry({})), ledgerEntries.name)).toBe(false);
});
