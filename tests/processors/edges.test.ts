// The identity edges that an event proves, with evidence, confidence and end.
import { hash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { acrossPepperOf, identifierHash, identifyFor, keyedHash, pepperOf } from "../../domain/device-id.ts";
import { subjectsOf } from "../../domain/personal/suppression.ts";
import { admitEvent } from "../../processors/admit/event.ts";
import { requestTerms } from "../../processors/admit/request-terms.ts";
import { enrich } from "../../processors/enrich/enrich.ts";
import { identityKeysOf } from "../../processors/enrich/facts.ts";
import { placesOf } from "../../processors/enrich/places.ts";
import type { EventReceived, IdentityEdge } from "../../schemas/generated.ts";
import { identityLinkRows } from "../../sinks/identity/rows.ts";
import { topics } from "../../topics.ts";
import { attributed, clickCredit, clientId, dayMs, noon, received, recorded } from "../support/builders.ts";

const secret = "a secret of these tests";
const facts = { ...placesOf(null), ...identityKeysOf(secret) };
const hashed = (text: string) => identifierHash(pepperOf(secret, clientId), text);
const phone = hashed("+525512345678");
const fingerprint = "ab".repeat(32);

const edgesOf = (event: Partial<EventReceived>): readonly IdentityEdge[] => {
  const outcome = enrich(recorded(topics.eventsRaw, received(event)), null, facts);
  if (outcome.kind !== "emit") throw new Error(outcome.kind);
  return outcome.events[0]!.data.enrichment.edges;
};
const kindsOf = (event: Partial<EventReceived>): readonly string[] => edgesOf(event).map(({ kind }) => kind);
const lead = { t: "lead_submit", sid: "s-1", click_id: "a-click" };

test("a lead proves its session, phone and click, each with its method, confidence and expiry", () =>
  expect(edgesOf({ ...lead, props: JSON.stringify({ phone }) })).toEqual([
    {
      kind: "phone",
      identifier: phone,
      method: "phone_on_event",
      confidence: 100,
      expires_at: noon + 90 * dayMs,
    },
    {
      kind: "session",
      identifier: hashed("session:s-1"),
      method: "session_on_event",
      confidence: 100,
      expires_at: noon + dayMs,
    },
    {
      kind: "click",
      identifier: hashed("click:a-click"),
      method: "click_on_event",
      confidence: 100,
      expires_at: noon + 30 * dayMs,
    },
  ]));

test("a fingerprint is only likely, is kept under the client's key, and names its session", () => {
  const shown = edgesOf({
    t: "custom",
    custom_name: "environment",
    sid: "s-1",
    props: JSON.stringify({ fingerprint }),
  });
  expect(shown).toMatchObject([
    { kind: "session" },
    { kind: "fingerprint", method: "fingerprint_of_browser", confidence: 40, expires_at: noon + 30 * dayMs },
  ]);
  expect(shown[1]!.identifier).toBe(hashed(`fingerprint:${fingerprint}`));
  expect(JSON.stringify(shown)).not.toContain(fingerprint);
});

test("a page view proves nothing by its session alone: it would be nearly every event", () => {
  expect(kindsOf({ sid: "s-1", click_id: "a-click" })).toEqual([]);
  expect(kindsOf({ sid: "s-1", props: JSON.stringify({ user_id: "17" }) })).toEqual(["login", "session"]);
});

test.each([
  ["analytics", { ...lead, consent: 0xfe }],
  ["personalization", { ...lead, consent: 0xfd }],
  ["a real device id", { ...lead, warnings: ["weak_did"] }],
])("without %s nothing is linked", (_, event) =>
  expect(kindsOf({ ...event, props: JSON.stringify({ phone, fingerprint }) })).toEqual([]),
);

test.each(["+525512345678", 17, "ab", null, fingerprint.toUpperCase()])(
  "what is no hash is no phone and no fingerprint: %j",
  (value) => expect(kindsOf({ t: "custom", props: JSON.stringify({ phone: value, fingerprint: value }) })).toEqual([]),
);

test("a click id links its device only if attribute found its MAC good", () => {
  const edges = edgesOf(lead);
  const kinds = (credit: object) =>
    identityLinkRows(
      recorded(topics.eventsAttributed, attributed(lead, { credit: clickCredit(credit), enrichment: { edges } })),
    ).map(({ kind }) => kind);
  expect(kinds({ clicked_at: noon })).toEqual(["session", "click"]);
  expect(kinds({ clicked_at: null })).toEqual(["session"]);
  expect(kinds({ clicked_at: noon, method: "identity" })).toEqual(["session"]);
});

describe("across clients", () => {
  const sends = (consent: number, props: object, shop = clientId): EventReceived => {
    const identify = identifyFor(pepperOf(secret, shop), 10, acrossPepperOf(secret));
    const arrival = { receivedAt: noon, sender: "x", address: null, header: () => undefined };
    const client = { clientId: shop, segments: [], consentDefault: 0, identify };
    const texts = { mayBeBroken: false, mayHoldEmail: true };
    const terms = requestTerms({ texts, source: "batch", isClientSide: false, batchId: null }, arrival, client);
    const admitted = admitEvent({ t: "signup", ts: noon, cid: shop, did: "d1", consent, props }, terms);
    if (admitted.kind !== "accepted") throw new Error(admitted.refusal.message);
    return admitted.data;
  };
  const email = "Ana@Example.com";
  const sha256 = hash("sha256", "ana@example.com", "hex");
  const across = keyedHash(acrossPepperOf(secret), sha256);

  test("an e-mail has one hash for every client, whether it comes in plain text or hashed before", () => {
    const shown = [sends(0xff, { email }), sends(0xff, { email: sha256 }), sends(0x09, { email }, clientId + 1)];
    expect(shown.map((event) => event.across)).toEqual(Array(3).fill([{ kind: "email", identifier: across }]));
    expect(new Set(shown.map(({ props }) => props)).size).toBe(2);
    expect(kindsOf(shown[0]!)).toEqual(["email", "email_across"]);
    expect(edgesOf(shown[0]!)[1]).toEqual({
      ...{ kind: "email_across", identifier: across, method: "email_across_clients" },
      ...{ confidence: 100, expires_at: noon + 90 * dayMs },
    });
  });

  test.each([
    ["cross-client", 0xf7],
    ["analytics", 0xfe],
    ["anything", 0x00],
  ])("without consent to %s the hash that clients share is never made", (_, consent) => {
    const event = sends(consent, { email, phone: "+525512345678" });
    expect(event.across).toEqual([]);
    expect(JSON.stringify(event)).not.toContain(across);
  });

  test("personalization is not asked, and a browser's refusal of analytics counts though the mask allows it", () => {
    expect(kindsOf(sends(0xfd, { email }))).toEqual(["email_across"]);
    expect(kindsOf({ ...sends(0xff, { email }), t: "purchase", warnings: ["gpc"] })).toEqual([]);
  });

  test("a phone meets only with its country, and neither what is no address nor a placeholder device does", () => {
    expect(sends(0xff, { phone: "55 1234 5678" }).across).toEqual(sends(0xff, { phone: "+525512345678" }).across);
    expect(sends(0xff, { phone: "55 1234 5678" }).across).toHaveLength(1);
    expect(sends(0xff, { phone: "14155552671", email: "unknown" }).across).toEqual([]);
    expect(kindsOf({ ...sends(0xff, { email }), warnings: ["weak_did"] })).toEqual([]);
  });

  test("who is erased by an e-mail is found under both peppers", () => {
    const identify = identifyFor(pepperOf(secret, clientId), 10, acrossPepperOf(secret));
    for (const value of [email, sha256])
      expect(subjectsOf("email", value, identify)).toEqual(expect.arrayContaining([hashed("ana@example.com"), across]));
  });
});
