// The person of a device: what an event proves, what is remembered, and what links to no person.
import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { identifierHash, pepperOf } from "../../domain/device-id.ts";
import { enrich } from "../../processors/enrich/enrich.ts";
import { identityKeysOf } from "../../processors/enrich/facts.ts";
import { type Person, person } from "../../processors/enrich/identity.ts";
import { placesOf } from "../../processors/enrich/places.ts";
import type { Enrichment, EventReceived } from "../../schemas/generated.ts";
import { topics } from "../../topics.ts";
import { clientId, dayMs, hourMs, noon, received, recorded } from "../support/builders.ts";
import { bytesOf, stateFrom } from "../support/remembered.ts";

const secret = "a secret of these tests";
const facts = { ...placesOf(null), ...identityKeysOf(secret) };
const hashed = (text: string) => identifierHash(pepperOf(secret, clientId), text);
const ana = hashed("ana@example.com");
const eve = hashed("eve@example.com");
const shows = (props: object, event: Partial<EventReceived> = {}): Partial<EventReceived> => ({
  t: "custom",
  props: JSON.stringify(props),
  ...event,
});

let events = 0;
const meets = (
  known: Person | null,
  event: Partial<EventReceived>,
  at = noon,
): { enrichment: Enrichment; known: Person | null } => {
  events += 1;
  const input = recorded(topics.eventsRaw, received({ event_id: `event ${events}`, ...event }), { at });
  const keys = person.keysOf(input);
  const met = keys.length === 0 ? null : known;
  const outcome = enrich(input, met, facts);
  if (outcome.kind !== "emit") throw new Error(outcome.kind);
  const [change] = bytesOf(person, keys, met, outcome.state);
  const kept = change === undefined ? known : stateFrom(person, keys, [change.value]);
  return { enrichment: outcome.events[0]!.data.enrichment, known: kept };
};

describe("an event that shows an identifier", () => {
  test("is the evidence of an edge: which, how, how sure, until when", () =>
    expect(meets(null, shows({ email: ana })).enrichment).toMatchObject({
      person: `email:${ana}`,
      edges: [
        { kind: "email", identifier: ana, method: "email_on_event", confidence: 100, expires_at: noon + 90 * dayMs },
      ],
    }));
  test("an account id gets the client's key before it is kept", () => {
    const { enrichment } = meets(null, shows({ user_id: "u-17" }));
    expect(enrichment.edges).toMatchObject([
      { kind: "login", identifier: hashed("login:u-17"), method: "login_on_event" },
    ]);
    expect(JSON.stringify(enrichment)).not.toContain("u-17");
  });
  test("a number is an account id too, and login_id one by another name", () =>
    expect(
      [shows({ user_id: 17 }), shows({ login_id: " 17 " })].map((event) => meets(null, event).enrichment.person),
    ).toEqual(Array(2).fill(`login:${hashed("login:17")}`)));
  test.each(["", "0", "null", "guest", "Anonymous", "undefined", "x".repeat(257), true, {}])(
    "the account id %j belongs to no person",
    (user_id) => expect(meets(null, shows({ user_id })).enrichment).toMatchObject({ person: null, edges: [] }),
  );
  test("an e-mail that is no keyed hash never gets this far: it is not kept", () =>
    expect(meets(null, shows({ email: "ana@example.com" })).enrichment).toMatchObject({ person: null, edges: [] }));
  test("equal identifiers of two clients do not meet", () => {
    const plain = createHash("sha256").update("login:17").digest("hex");
    const [mine, theirs] = [clientId, 8].map(
      (client_id) => meets(null, shows({ user_id: "17" }, { client_id })).enrichment.person,
    );
    expect(mine).not.toBe(theirs);
    expect([mine, theirs]).not.toContain(`login:${plain}`);
  });
});

describe("a device", () => {
  const known = meets(null, shows({ email: ana })).known;
  test("that showed an e-mail is that person at its next sale", () =>
    expect(meets(known, { t: "purchase" }, noon + hourMs).enrichment).toMatchObject({
      person: `email:${ana}`,
      edges: [],
    }));
  test("belongs to no person again 90 days after it was last shown", () => {
    expect(meets(known, { t: "purchase" }, noon + 90 * dayMs).enrichment.person).toBe(`email:${ana}`);
    expect(meets(known, { t: "purchase" }, noon + 90 * dayMs + 1).enrichment.person).toBeNull();
  });
  test("that showed an account and then an e-mail is known by the e-mail, as other devices are", () => {
    const account = meets(null, shows({ user_id: "17" })).known;
    const both = meets(account, shows({ email: ana }), noon + 1).known;
    expect(meets(both, { t: "purchase" }, noon + 2).enrichment.person).toBe(`email:${ana}`);
    expect(meets(both, shows({ user_id: "17" }), noon + 2).enrichment.person).toBe(`email:${ana}`);
  });
  test("handed over to somebody else takes nothing along", () => {
    const both = meets(known, shows({ user_id: "17" }), noon + 1).known;
    const hers = meets(both, shows({ email: eve }), noon + 2).known;
    expect(hers?.login).toBeNull();
    expect(meets(hers, { t: "purchase" }, noon + 3).enrichment.person).toBe(`email:${eve}`);
  });
  test("is not taken back by an event that comes late, which is its own person's all the same", () => {
    const hers = meets(known, shows({ email: eve }), noon + hourMs).known;
    const late = meets(hers, shows({ email: ana }), noon + 1);
    expect(late.enrichment.person).toBe(`email:${ana}`);
    expect(late.known).toEqual(hers);
  });
  test("that shows the same identifier all day is written once a day", () => {
    expect(meets(known, shows({ email: ana }), noon + dayMs - 1).known).toBe(known);
    expect(meets(known, shows({ email: ana }), noon + dayMs).known?.email?.at).toBe(noon + dayMs);
  });
});

describe("no person is linked", () => {
  const known = meets(null, shows({ email: ana })).known;
  test("by a placeholder of a device", () => {
    const weak = { warnings: ["weak_did"] };
    expect(meets(null, shows({ email: ana }, weak)).enrichment).toMatchObject({ person: null, edges: [] });
    expect(person.keysOf(recorded(topics.eventsRaw, received(shows({ email: ana }, weak))))).toEqual([]);
  });
  test.each([
    ["analytics", 0xfe],
    ["personalization", 0xfd],
  ])("without consent to %s", (_, consent) => {
    const purchase = shows({ email: ana }, { t: "purchase", consent });
    expect(meets(null, purchase).enrichment).toMatchObject({ person: null, edges: [] });
    expect(meets(null, purchase).known).toBeNull();
    expect(meets(known, { t: "purchase", consent }).enrichment.person).toBeNull();
  });
});

describe("memory", () => {
  const reads = (event: Partial<EventReceived>) =>
    person.keysOf(recorded(topics.eventsRaw, received(event))).length > 0;
  test("is read by claims, clicks and whatever teaches it", () =>
    expect(
      [{ t: "purchase" }, { t: "click" }, { t: "install" }, shows({ email: ana }), shows({ user_id: 1 })].map(reads),
    ).toEqual(Array(5).fill(true)));
  test("is not read by page views, whatever they show, nor by events of no use for it", () =>
    expect(
      [{}, { props: JSON.stringify({ email: ana }) }, { t: "add_to_cart" }, shows({ colour: "red" })].map(reads),
    ).toEqual(Array(4).fill(false)));
  test("gives back what was put in", () =>
    fc.assert(
      fc.property(
        fc.option(fc.record({ identifier: fc.string(), event_id: fc.string(), at: fc.nat() })),
        fc.option(fc.record({ identifier: fc.string(), event_id: fc.string(), at: fc.nat() })),
        (email, login) => {
          const [change] = bytesOf(person, ["k"], null, { email, login });
          expect(stateFrom(person, ["k"], [change!.value])).toEqual({ email, login });
        },
      ),
    ));
});

test("whatever a device shows in whatever order, no person is joined with another's identifier of the same kind", () =>
  fc.assert(
    fc.property(
      fc.array(
        fc.record({
          email: fc.constantFrom(ana, eve),
          user_id: fc.constantFrom("1", "2"),
          which: fc.integer({ min: 1, max: 3 }),
        }),
      ),
      (shown) => {
        let known: Person | null = null;
        for (const [n, { email, user_id, which }] of shown.entries()) {
          const props = { ...(which & 1 ? { email } : {}), ...(which & 2 ? { user_id } : {}) };
          const next = meets(known, shows(props), noon + n);
          for (const { kind, identifier } of next.enrichment.edges)
            expect(next.known?.[kind as "email" | "login"]?.identifier).toBe(identifier);
          if (which & 1) expect(next.enrichment.person).toBe(`email:${email}`);
          known = next.known;
        }
      },
    ),
  ));
