// A decision removes an identifier from a device, which from then on names no person there,
// whatever the device sends.
import { describe, expect, test } from "vitest";
import { identifierHash, pepperOf } from "../../domain/device-id.ts";
import { unlinkEvent } from "../../domain/personal/unlink.ts";
import { enrich } from "../../processors/enrich/enrich.ts";
import { identityKeysOf } from "../../processors/enrich/facts.ts";
import { type Person, person } from "../../processors/enrich/identity.ts";
import { placesOf } from "../../processors/enrich/places.ts";
import type { Enrichment, EventReceived } from "../../schemas/generated.ts";
import { identityLinkRows } from "../../sinks/identity/rows.ts";
import { velocityRows } from "../../sinks/velocity/rows.ts";
import { topics } from "../../topics.ts";
import { attributed, clientId, noon, purchase, received, recorded } from "../support/builders.ts";
import { bytesOf, stateFrom } from "../support/remembered.ts";

const secret = "a secret of these tests";
const facts = { ...placesOf(null), ...identityKeysOf(secret) };
const hashed = (text: string) => identifierHash(pepperOf(secret, clientId), text);
const [ana, eve] = [hashed("ana@example.com"), hashed("eve@example.com")];
const did = hashed("a device");
const decided = (identifier: string, n = 1): EventReceived =>
  unlinkEvent({
    decision_id: `00000000-0000-4000-8000-00000000000${n}`,
    ...{
      client_id: clientId,
      did,
      kind: "email",
      identifier,
      actor: "operator:ana",
      reason: "a shared phone",
      at: noon,
    },
  });
const shows = (email: string, over: Partial<EventReceived> = {}) =>
  received({ did, t: "custom", props: JSON.stringify({ email }), ...over });

/** The enrichment of the last event, and what is known about the device then. */
const afterEvents = (
  ...events: readonly EventReceived[]
): { readonly last: Enrichment; readonly known: Person | null } => {
  let known: Person | null = null;
  let last: Enrichment | undefined;
  for (const [n, event] of events.entries()) {
    const input = recorded(topics.eventsRaw, { ...event, event_id: `event ${n}` }, { at: noon + n });
    const keys = person.keysOf(input);
    const met: Person | null = keys.length === 0 ? null : known;
    const outcome = enrich(input, met, facts);
    if (outcome.kind !== "emit") throw new Error(outcome.kind);
    last = outcome.events[0]!.data.enrichment;
    const [change]: ReturnType<typeof bytesOf> = bytesOf(person, keys, met, outcome.state);
    if (change !== undefined) known = stateFrom(person, keys, [change.value]);
  }
  return { last: last!, known };
};
const buys = purchase({ did });

describe("a device from which an e-mail was taken", () => {
  test("belongs to no person at its next sale, and did before", () => {
    expect(afterEvents(shows(ana), buys).last.person).toBe(`email:${ana}`);
    expect(afterEvents(shows(ana), decided(ana), buys).last.person).toBeNull();
  });
  test("does not get the e-mail back by showing it again, not even in a sale", () => {
    const again = { ...buys, props: JSON.stringify({ email: ana }) };
    expect(afterEvents(decided(ana), shows(ana)).last).toMatchObject({ person: null, edges: [] });
    expect(afterEvents(shows(ana), decided(ana), again).last).toMatchObject({ person: null, edges: [] });
  });
  test("is another person's by another e-mail, and the decision outlives that", () => {
    expect(afterEvents(shows(ana), decided(ana), shows(eve), buys).last.person).toBe(`email:${eve}`);
    const { known } = afterEvents(shows(ana), decided(ana), shows(eve), shows(ana));
    expect(known).toMatchObject({ email: { identifier: eve }, unlinked: [ana] });
  });
  test("keeps who it is now, when an e-mail of before is taken", () =>
    expect(afterEvents(shows(ana), shows(eve), decided(ana), buys).last.person).toBe(`email:${eve}`));
  test("remembers a decision once, and so many decisions at most", () => {
    expect(afterEvents(decided(ana), decided(ana)).known?.unlinked).toEqual([ana]);
    const many = Array.from({ length: 30 }, (_, n) => decided(hashed(String(n))));
    expect(afterEvents(...many).known?.unlinked).toEqual(
      many.slice(10).map(({ props }) => JSON.parse(props).identifier),
    );
  });
});

test("an event that a sender calls so decides nothing", () => {
  const pretended = { ...decided(ana), source: "batch" };
  expect(afterEvents(shows(ana), pretended, buys).last.person).toBe(`email:${ana}`);
});

test("the sinks end the edge and take the device out of those of the person", () => {
  const event = recorded(topics.eventsAttributed, attributed(decided(ana)));
  expect(identityLinkRows(event)).toMatchObject([
    { client_id: clientId, did, kind: "email", identifier: ana, unlinked_at: noon },
  ]);
  expect(velocityRows(event)).toEqual([
    { client_id: clientId, set: `${clientId}:person:email:${ana}`, member: did, at: null, is_gone: true },
  ]);
});
