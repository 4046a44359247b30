// Chapter 2: a processor. A pure function from (event, state, facts) to an outcome, and how it is
// tested: given, when, then.
import { describe, expect, test } from "vitest";
import { enrich } from "../../processors/enrich/enrich.ts";
import { identityKeysOf } from "../../processors/enrich/identity-keys.ts";
import { placesOf } from "../../processors/enrich/places.ts";
import { emptyOrder } from "../../processors/settle/order.ts";
import { settle } from "../../processors/settle/settle.ts";
import type { EventReceived } from "../../schemas/generated.ts";
import { drop, emit, type Processor, reject } from "../../stream/flow.ts";
import { topics } from "../../topics.ts";
import { attributed, claim, clickCredit, partnerId, received, recorded } from "../support/builders.ts";
import { given } from "../support/given.ts";

// Here is a whole one. Its type lists everything it may do: the record it takes, the outputs it may
// write to and with what, what it remembers, what it may look up, and every reason for which it may
// say no. The compiler holds it to that list.

interface Out {
  readonly greeted: EventReceived;
}
const greet: Processor<EventReceived, Out, number, { readonly most: number }, "nobody_there" | "often_enough"> = (
  { data },
  times,
  { most },
) => {
  if (data.did === "") return reject("nobody_there");
  if (times >= most) return drop("often_enough", times);
  return emit<Out, number>([{ output: "greeted", data }], times + 1);
};
const twice = { most: 2 };
const visit = (over: Partial<EventReceived> = {}) => recorded(topics.eventsRaw, received(over));

describe("every event ends in exactly one of three ways", () => {
  test("emit: events go on to the outputs, and there is a new state", () =>
    given(greet, { state: 0, facts: twice })
      .when(visit())
      .then({ emits: { greeted: { t: "page_view" } }, state: 1 }));
  test("drop: it is known why nothing goes on; the state is that which is given back", () =>
    given(greet, { state: 2, facts: twice }).when(visit()).then({ drops: "often_enough", state: 2 }));
  test("reject: the event itself is no good, so its bytes go to the dead letters and nothing is remembered", () =>
    given(greet, { state: 0, facts: twice })
      .when(visit({ did: "" }))
      .then({ rejects: "nobody_there" }));
});

// A throw is none of the three. It means that the code is wrong, not the event, and it stops the
// worker (chapter 6).

// Reasons are closed unions: they become labels of metrics and codes of dead letters, so a new one
// must be listed where the type is.

test("a reason that nobody listed does not compile", () => {
  // @ts-expect-error "tired" is not a reason of this processor
  const sloppy: typeof greet = (_, times) => drop("tired", times);
  expect(sloppy(visit(), 0, twice)).toMatchObject({ kind: "drop" });
});

// Pure means: no clock, no I/O, no randomness. Time comes in with the event, ids are derived from
// the id of the input, and whatever must be looked up was looked up for the whole batch before the
// first event was folded. So the same arguments have the same outcome for ever, which is why a
// batch may come twice, a window may be replayed, and a simulation runs the very code that pays.

test("asked twice, settle gives the same records, ids included", () => {
  const sale = recorded(topics.claims, claim());
  const [once, again] = [settle(sale, emptyOrder, null), settle(sale, emptyOrder, null)];
  expect(once).toEqual(again);
  expect(once).not.toBe(again);
});

// The real ones read the same way. `enrich` has facts (which country owns an address) and remembers
// whom a device belongs to: of this one nobody yet, hence null. A look-up that fails is written on
// the event and blocks nothing.

const nothingKnown = { ...placesOf(null), ...identityKeysOf("the secret of an installation") };

test("enrich finds a country for an address of the documentation range, and says so when it has no data for another", () => {
  const facts = nothingKnown;
  given(enrich, { state: null, facts })
    .when(visit({ ip: "192.0.2.1", ip_source: "event" }))
    .then({ emits: { enriched: { enrichment: { country: "MX", errors: [] } } } });
  given(enrich, { state: null, facts })
    .when(visit({ ip: "8.8.8.8", ip_source: "event" }))
    .then({ emits: { enriched: { enrichment: { country: null, errors: ["geo_unavailable"] } } } });
});

// Policies are drops with a name. A visitor who did not agree to be seen is not seen; what somebody
// is owed something by is kept without address and way.

test("without consent to analytics a page view ends in enrich, and a purchase goes on unseen", () => {
  const unseen = { consent: 0xff & ~0x01, ip: "192.0.2.1", url: "https://shop.example/thanks" };
  given(enrich, { state: null, facts: nothingKnown }).when(visit(unseen)).then({ drops: "no_analytics_consent" });
  given(enrich, { state: null, facts: nothingKnown })
    .when(visit({ ...unseen, t: "purchase", order_id: "o1" }))
    .then({ emits: { enriched: { event: { order_id: "o1", ip: null, url: null } } } });
});

// `settle` has memory but no facts. Its state is the life of one order, and it only ever emits:
// whatever can be read has an outcome.

test("a credited sale opens a conversion for its partner; the same order paid twice does not open another", () => {
  const sale = (event_id: string) =>
    recorded(
      topics.claims,
      claim({ attributed: attributed({ event_id, source: "batch" }, { credit: clickCredit() }) }),
    );
  const first = given(settle, { state: emptyOrder, facts: null }).when(sale("first"));
  first.then({
    emits: {
      attributed: { version: 1 },
      conversions: { kind: "credited", partner_id: partnerId, value_minor: 100_00n },
    },
  });
  given(settle, { state: first.outcome.state!, facts: null })
    .when(sale("second"))
    .then({ emits: { attributed: { merged_into: "first" } } });
});
