// Which edges an event proves, by what evidence, how sure, and until when.
import { expect, test } from "vitest";
import { identifierHash, pepperOf } from "../../domain/device-id.ts";
import { enrich } from "../../processors/enrich/enrich.ts";
import { identityKeysOf } from "../../processors/enrich/identity-keys.ts";
import { placesOf } from "../../processors/enrich/places.ts";
import type { EventReceived, IdentityEdge } from "../../schemas/generated.ts";
import { edgeRows } from "../../sinks/identity/rows.ts";
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
    edgeRows(
      recorded(topics.eventsAttributed, attributed(lead, { credit: clickCredit(credit), enrichment: { edges } })),
    ).map(({ kind }) => kind);
  expect(kinds({ clicked_at: noon })).toEqual(["session", "click"]);
  expect(kinds({ clicked_at: null })).toEqual(["session"]);
  expect(kinds({ clicked_at: noon, method: "identity" })).toEqual(["session"]);
});
