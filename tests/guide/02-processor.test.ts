// Chapter 2: a processor. A pure function from (event, state, facts) to an outcome, and how it is
// tested: given, when, then.
import { describe, expect, test } from "vitest";
import { enrich } from "../../processors/enrich/enrich.ts";
import { identityKeysOf } from "../../processors/enrich/facts.ts";
import { placesOf } from "../../processors/enrich/places.ts";
import { emptyOrder } from "../../processors/settle/order.ts";
import { settle } from "../../processors/settle/settle.ts";
import type { EventReceived } from "../../schemas/generated.ts";
import { drop, emit, type Processor, reject } from "../../stream/flow.ts";
import { topics } from "../../topics.ts";
import { attributed, claim, clickCredit, partnerId, purchase, received, recorded } from "../support/builders.ts";
import { given } from "../support/given.ts";

const visit = (over: Partial<EventReceived> = {}) => recorded(topics.eventsRaw, received(over));
const sale = (over: Partial<EventReceived> = {}) => recorded(topics.eventsRaw, purchase(over));

// This is a whole one. Its type lists everything that it may do: the record that it reads, its
// outputs and their data, its memory, its look-ups, and every reason for a refusal. The compiler
// enforces that list.

interface Bonus {
  readonly order_id: string;
  readonly points: number;
}
type Award = Processor<EventReceived, { bonus: Bonus }, number, { readonly most: number }, "no_order" | "all_given">;

/** A point for each whole 10.00 of a purchase, up to `most` for one device. */
const award: Award = ({ data: { order_id, value_minor } }, before, { most }) => {
  if (order_id === null) return reject("no_order");
  if (before >= most) return drop("all_given", before);
  const points = Math.min(Number((value_minor ?? 0n) / 10_00n), most - before);
  return emit([{ output: "bonus", data: { order_id, points } }], before + points);
};

test("a purchase of 45.00 earns four points", () =>
  given(award, { state: 0, facts: { most: 10 } })
    .when(sale({ order_id: "A-1", value_minor: 45_00n }))
    .then({ emits: { bonus: { order_id: "A-1", points: 4 } }, state: 4 }));

describe("every event ends in exactly one of three ways", () => {
  test("emit: events go on to the outputs, and there is a new state", () =>
    given(award, { state: 8, facts: { most: 10 } })
      .when(sale({ value_minor: 45_00n }))
      .then({ emits: { bonus: { points: 2 } }, state: 10 }));
  test("drop: a named policy ends the event, with the state that is given back", () =>
    given(award, { state: 10, facts: { most: 10 } })
      .when(sale())
      .then({ drops: "all_given", state: 10 }));
  test("reject: the event itself is wrong, so its bytes go to the dead letters and nothing is remembered", () =>
    given(award, { state: 0, facts: { most: 10 } })
      .when(sale({ order_id: null }))
      .then({ rejects: "no_order" }));
});

// A throw is none of the three. It means that the code is wrong and not the event, and it stops the
// worker (chapter 6).

// Reasons are closed unions: they become labels of metrics and codes of dead letters, so a new one
// must be listed where the type is.

test("a reason that is not listed does not compile", () => {
  // @ts-expect-error "tired" is not a reason of this processor
  const sloppy: Award = (_, before) => drop("tired", before);
  expect(sloppy(sale(), 0, { most: 10 })).toMatchObject({ kind: "drop" });
});

// Pure means: no clock, no I/O, no randomness. Time comes with the event, ids are derived from the
// id of the input, and all look-ups of a batch are done before its first event is folded. So the
// same arguments always give the same outcome. That is why a batch may come twice, a window may be
// replayed, and a simulation runs the code that pays.

test("asked twice, settle gives the same records, ids included", () => {
  const claimed = recorded(topics.claims, claim());
  const [once, again] = [settle(claimed, emptyOrder, null), settle(claimed, emptyOrder, null)];
  expect(once).toEqual(again);
  expect(once).not.toBe(again);
});

// The real ones read the same way. `enrich` has facts (the country of an address) and remembers the
// person of a device, which is not known yet here, hence null. A failed look-up is recorded on the
// event and blocks nothing.

const nothingKnown = { ...placesOf(null), ...identityKeysOf("the secret of an installation") };

test(
  "enrich finds a country for an address of the documentation range, and says so when it has no " + "data for another",
  () => {
    const facts = nothingKnown;
    given(enrich, { state: null, facts })
      .when(visit({ ip: "192.0.2.1", ip_source: "event" }))
      .then({ emits: { enriched: { enrichment: { country: "MX", errors: [] } } } });
    given(enrich, { state: null, facts })
      .when(visit({ ip: "8.8.8.8", ip_source: "event" }))
      .then({ emits: { enriched: { enrichment: { country: null, errors: ["geo_unavailable"] } } } });
  },
);

// Policies are drops with a name. The page view of a visitor without consent is not stored. A sale
// is kept, because a partner may be owed a commission, but without address and URL.

test("without consent to analytics a page view ends in enrich, and a purchase goes on unseen", () => {
  const unseen = { consent: 0xff & ~0x01, ip: "192.0.2.1", url: "https://shop.example/thanks" };
  given(enrich, { state: null, facts: nothingKnown }).when(visit(unseen)).then({ drops: "no_analytics_consent" });
  given(enrich, { state: null, facts: nothingKnown })
    .when(visit({ ...unseen, t: "purchase", order_id: "o1" }))
    .then({ emits: { enriched: { event: { order_id: "o1", ip: null } } } });
});

// `settle` has memory but no facts. Its state is the life of one order, and it only ever emits:
// every readable claim has an outcome.

test("a credited sale opens a conversion for its partner; the same order paid twice does not open another", () => {
  const copy = (event_id: string) =>
    recorded(
      topics.claims,
      claim({ attributed: attributed({ event_id, source: "batch" }, { credit: clickCredit() }) }),
    );
  const first = given(settle, { state: emptyOrder, facts: null }).when(copy("first"));
  first.then({
    emits: {
      attributed: { version: 1 },
      conversions: { kind: "credited", partner_id: partnerId, value_minor: 100_00n },
    },
  });
  given(settle, { state: first.outcome.state!, facts: null })
    .when(copy("second"))
    .then({ emits: { attributed: { merged_into: "first" } } });
});
