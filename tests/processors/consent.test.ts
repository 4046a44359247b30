// Which events are choices of consent, and how far a refused event travels: to the table of choices
// and nowhere else.
import { describe, expect, test } from "vitest";
import { allowedBy, chosenBy, isWithheld } from "../../domain/personal/consent.ts";
import { attribute } from "../../processors/attribute/attribute.ts";
import { enrich } from "../../processors/enrich/enrich.ts";
import { identityKeysOf } from "../../processors/enrich/facts.ts";
import type { EventAttributed, EventReceived } from "../../schemas/generated.ts";
import { eventRows } from "../../sinks/analytics/rows.ts";
import { consentRows } from "../../sinks/consent/rows.ts";
import { devicesOf } from "../../sinks/consent/table.ts";
import { topics } from "../../topics.ts";
import { attributed, choice, fraud, noon, received, recorded, referenceWith } from "../support/builders.ts";

const nowhere = { built: null, placeOf: () => ({ country: null, region: null, city: null, asn: null, error: null }) };

/** The result of enrich and attribute; null if one of them drops the event. */
const passed = (event: EventReceived): EventAttributed | null => {
  const facts = { ...nowhere, ...identityKeysOf("a secret of these tests") } as never;
  const outcome = enrich(recorded(topics.eventsRaw, event), null, facts);
  if (outcome.kind !== "emit") return null;
  const data = { ...outcome.events[0]!.data, fraud: fraud() };
  const reference = referenceWith().at(noon, noon);
  const known = { reference, referenceAtReceipt: reference, clickOf: () => null, referenceAsOf: null };
  const made = attribute(recorded(topics.eventsScored, data), { clicks: [] }, { ...known, identityClick: null });
  const [emitted] = made.kind === "emit" ? made.events : [];
  return emitted?.output === "attributed" ? emitted.data : null;
};

describe("a choice", () => {
  test.each([
    ["is the mask that the event names", choice({}, 0x6b), 0x6b],
    ["of nothing is 0", choice({}, 0), 0],
    ["loses what the browser's signals turn off", choice({}, 0xff, { gpc: true }), 0xfa],
    ["loses it too where an edge read them in a header", choice({ warnings: ["dnt"] }, 0xff), 0xfb],
    ["keeps bit 7", choice({}, 0x80), 0x80],
    ["is none above 255", choice({}, 256), null],
    ["is none below 0", choice({}, -1), null],
    ["is none with a fraction", choice({}, 1.5), null],
    ["is none without a mask", choice({ props: '{"page":"banner"}' }, 0), null],
    ["is none with a text for a mask", choice({ props: '{"mask":"255"}' }, 0), null],
    ["is none of broken props", choice({ props: '{"mask":' }, 0), null],
    ["is none of a device that has no id of its own", choice({ warnings: ["weak_did"] }, 0), null],
    ["is none of an event of another name", choice({ custom_name: "quiz" }, 0), null],
  ])("%s", (_, event, mask) => expect(chosenBy(event)).toBe(mask));
});

describe("a refusal of analytics", () => {
  const refusal = choice({ ip: "192.0.2.1", ua: "Firefox", url: "https://shop.example/", ref: "https://x.example" }, 0);
  test("reaches the sinks without the way and the device of its visitor", () =>
    expect(passed(refusal)?.event).toMatchObject({ ip: null, ua: null, url: null, ref: null }));
  test("becomes a choice, and no event that reads could show", () => {
    const made = recorded(topics.eventsAttributed, passed(refusal)!);
    expect(consentRows(made)).toHaveLength(1);
    expect(eventRows(made)).toEqual([]);
  });
  test("counts as an event that is not stored, as its receipt says", () => expect(isWithheld(refusal)).toBe(true));
  test("takes no other event along", () => {
    expect(allowedBy(0, received())).toBeNull();
    expect(passed(choice({ props: "{}" }, 0))).toBeNull();
    expect(passed(received({ t: "custom", custom_name: "quiz", consent: 0 }))).toBeNull();
  });
});

test("a choice has the time of its event, at most that of its receipt", () => {
  const at = (ts: number) =>
    consentRows(
      recorded(topics.eventsAttributed, attributed(choice({ ts }, 0)), {
        receivedAt: noon,
        position: { topic: "events.raw", partition: 3, offset: 41 },
      }),
    )[0]!.values.slice(3);
  expect(at(noon - 5)).toEqual([0, noon - 5, 41]);
  expect(at(noon + 5)).toEqual([0, noon, 41]);
});

test("a device that chose more than once in a write is marked once, each client's own", () => {
  const marked = devicesOf([
    { client_id: 1, did: "a" },
    { client_id: 1, did: "a" },
    { client_id: 2, did: "a" },
  ]);
  expect(marked).toEqual([
    { client_id: 1, did: "a" },
    { client_id: 2, did: "a" },
  ]);
});
