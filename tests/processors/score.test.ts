// The trust in an event, and the reasons for it.
import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { clickIdKey, mint } from "../../domain/click-id.ts";
import { identifierHash, pepperOf } from "../../domain/device-id.ts";
import { type ReferenceRows, reference } from "../../domain/reference/reference.ts";
import { clickKeys, clickKeysOf } from "../../processors/attribute/facts.ts";
import { identityKeys, identityKeysOf } from "../../processors/enrich/facts.ts";
import { type HintAsked, hints, type ScoreFacts, scoreFacts } from "../../processors/score/facts.ts";
import { rules } from "../../processors/score/rules.ts";
import { score } from "../../processors/score/score.ts";
import type { Enrichment, EventReceived, Fraud, FraudHints } from "../../schemas/generated.ts";
import { topics } from "../../topics.ts";
import {
  client,
  clientId,
  enriched,
  forged,
  linkId,
  longAgo,
  noon,
  partner,
  reads,
  recorded,
  referenceWith,
} from "../support/builders.ts";

const secret = "a secret of these tests";
const key = clickIdKey(secret, 1);
const keys = clickKeysOf([key]);
const identity = identityKeysOf(secret);
const factsWith = (over: Partial<ScoreFacts> = {}, rows: Partial<ReferenceRows> = {}): ScoreFacts => ({
  review: 40,
  reject: 70,
  rules: undefined,
  exclusions: [],
  hints: null,
  clickOf: keys.clickOf,
  identifyOf: identity.identifyOf,
  reference: referenceWith(rows).at(noon, noon),
  ...over,
});
const usual = factsWith();
const clickBefore = (elapsedMs: number): string => mint(linkId, noon - elapsedMs, new Uint8Array(8), key);
const hinted = (over: Partial<FraudHints>): ScoreFacts =>
  factsWith({ hints: { address_conversions: null, click_devices: null, click_country: null, ...over } });

const fraudOf = (event: Partial<EventReceived>, enrichment: Partial<Enrichment> = {}, facts = usual): Fraud => {
  const outcome = score(recorded(topics.eventsEnriched, enriched(event, enrichment)), null, facts);
  if (outcome.kind !== "emit" || outcome.events.length !== 1)
    throw new Error(`score emits one event, not ${outcome.kind}`);
  expect(outcome.events[0]!.data).toMatchObject(enriched(event, enrichment));
  return outcome.events[0]!.data.fraud;
};

test("an ordinary event is trusted, without a reason", () =>
  expect(fraudOf({})).toEqual({ score: 0, band: "ok", reasons: [], hints: null }));

describe("an exclusion of the client", () => {
  const office = {
    kind: "network",
    value: "203.0.113.0/24",
    author: "ana@acme.example",
    reason: "our office",
  } as const;
  const six = { ...office, value: "2001:db8::/48" };
  const device = { ...office, kind: "device", value: "a".repeat(64), reason: "test phone" } as const;
  const facts = factsWith({ exclusions: [office, six, device] });
  const bot = { ua: "Googlebot/2.1" };
  const bandOf = (event: Partial<EventReceived>) => fraudOf({ ...bot, ...event }, { is_bot: true }, facts).band;

  test("trusts its event, and shows what was found, who trusts it and why", () =>
    expect(fraudOf({ ...bot, ip: "203.0.113.9" }, { is_bot: true }, facts)).toEqual({
      score: 0,
      band: "ok",
      reasons: [
        { code: "ua_bot", weight: 0, evidence: expect.any(String) },
        { code: "excluded", weight: 0, evidence: "network 203.0.113.0/24: our office (ana@acme.example)" },
      ],
      hints: null,
    }));

  test("holds for its addresses and devices, and for no other", () => {
    expect(bandOf({ ip: "203.0.114.9" })).toBe("review");
    expect(bandOf({ ip: "2001:db8:0:7::1" })).toBe("ok");
    expect(bandOf({ ip: "2001:db8:1::1" })).toBe("review");
    expect(bandOf({ ip: null, did: "a".repeat(64) })).toBe("ok");
    expect(bandOf({ ip: null, did: "b".repeat(64) })).toBe("review");
  });

  test("does not hold for the address of a server that sends for its visitors", () =>
    expect(bandOf({ ip: "203.0.113.9", ip_source: "request", client_side: false })).toBe("review"));

  test("of an event that no rule suspects says nothing", () =>
    expect(fraudOf({ ip: "203.0.113.9" }, {}, facts).reasons).toEqual([]));
});

describe("a bot's user agent", () => {
  test("holds for review and shows itself", () =>
    expect(fraudOf({ ua: "Googlebot/2.1" }, { is_bot: true })).toEqual({
      score: 60,
      band: "review",
      reasons: [{ code: "ua_bot", weight: 60, evidence: "Googlebot/2.1" }],
      hints: null,
    }));
});

describe("a purchase after its click", () => {
  test("within 3 s is suspect", () =>
    expect(fraudOf({ t: "purchase", click_id: clickBefore(2_999) })).toMatchObject({
      score: 30,
      band: "ok",
      reasons: [{ code: "click_to_purchase", weight: 30, evidence: "3.0 s after the click" }],
    }));
  test("after 3 s is not", () => expect(fraudOf({ t: "purchase", click_id: clickBefore(3_000) }).score).toBe(0));
  test("by a bot is refused", () =>
    expect(fraudOf({ t: "purchase", click_id: clickBefore(500) }, { is_bot: true })).toMatchObject({
      score: 90,
      band: "reject",
    }));
  test("of an app is another matter", () =>
    expect(fraudOf({ t: "ext_purchase", click_id: clickBefore(500) }).score).toBe(0));
});

describe("an install after its click", () => {
  test("within 2 s is refused", () =>
    expect(fraudOf({ t: "install", click_id: clickBefore(1_999) })).toMatchObject({
      score: 100,
      band: "reject",
      reasons: [
        { code: "impossible_install", weight: 100, evidence: "2.0 s after the click" },
        { code: "click_to_install", weight: 40, evidence: "2.0 s after the click" },
      ],
    }));
  test("within 10 s is held", () =>
    expect(fraudOf({ t: "install", click_id: clickBefore(2_000) })).toMatchObject({ score: 40, band: "review" }));
  test("after 10 s is not suspect", () =>
    expect(fraudOf({ t: "install", click_id: clickBefore(10_000) }).score).toBe(0));
});

describe("a click id proves nothing", () => {
  test("with a bad MAC", () => {
    const id = clickBefore(500);
    expect(fraudOf({ t: "install", click_id: forged(id) }).score).toBe(0);
  });
  test("of another service", () => expect(fraudOf({ t: "install", click_id: "gclid-123" }).score).toBe(0));
  test.each(["install", "purchase"])("about the %s before it", (t) =>
    expect(fraudOf({ t, click_id: clickBefore(-1) }).score).toBe(0),
  );
});

test("the client draws the lines", () => {
  expect(fraudOf({}, { is_bot: true }, { ...usual, review: 61 }).band).toBe("ok");
  expect(fraudOf({}, { is_bot: true }, { ...usual, review: 60 }).band).toBe("review");
  expect(fraudOf({}, { is_bot: true }, { ...usual, reject: 60 }).band).toBe("reject");
});

test("a score is 0 to 100 and the sum of its reasons below that, and the same event always has the same", () =>
  fc.assert(
    fc.property(
      fc.constantFrom("page_view", "purchase", "install", "click"),
      fc.boolean(),
      fc.option(fc.integer({ min: -5_000, max: 20_000 })),
      (t, isBot, elapsedMs) => {
        const event = { t, click_id: elapsedMs === null ? null : clickBefore(elapsedMs) };
        const fraud = fraudOf(event, { is_bot: isBot });
        expect(fraud).toEqual(fraudOf(event, { is_bot: isBot }));
        expect(fraud.score).toBeGreaterThanOrEqual(0);
        expect(fraud.score).toBe(
          Math.min(
            100,
            fraud.reasons.reduce((sum, { weight }) => sum + weight, 0),
          ),
        );
      },
    ),
  ));

describe("conversions of one address in an hour", () => {
  test("are suspect from the 21st on, this one counted", () => {
    expect(fraudOf({ t: "purchase" }, {}, hinted({ address_conversions: 19 })).score).toBe(0);
    expect(fraudOf({ t: "purchase" }, {}, hinted({ address_conversions: 20 }))).toMatchObject({
      score: 30,
      reasons: [
        { code: "conversions_per_address", weight: 30, evidence: "conversion 21 from this address in the hour" },
      ],
    });
  });
  test("do not make a click suspect", () =>
    expect(fraudOf({ t: "click" }, {}, hinted({ address_conversions: 100 })).score).toBe(0));
});

describe("an address in a data centre or behind a VPN", () => {
  test.each(["hosting", "vpn"])("of class %s adds 25", (asn_class) =>
    expect(fraudOf({}, { asn_class, asn: 64_500 })).toMatchObject({
      score: 25,
      reasons: [{ code: "address_class", weight: 25, evidence: `${asn_class} network AS64500` }],
    }),
  );
  test.each(["isp", "unknown"])("of class %s is as good as any", (asn_class) =>
    expect(fraudOf({}, { asn_class }).score).toBe(0),
  );
  test("never refuses alone, however strict a client is; with a reason of the event itself it may", () => {
    const strict = factsWith({ review: 10, reject: 20 });
    expect(fraudOf({}, { asn_class: "vpn" }, strict)).toMatchObject({ score: 25, band: "review" });
    expect(fraudOf({}, { asn_class: "vpn", is_bot: true }, strict).band).toBe("reject");
  });
});

describe("a buyer who is the partner", () => {
  const hashed = (text: string) => identifierHash(pepperOf(secret, clientId), text);
  const props = JSON.stringify({ email: hashed("ana@example.com") });
  const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");
  const partners = [partner({ email_sha256: sha256("eve@example.com"), referral_code: "ANA" })];
  const anas = { partners: [partner({ email_sha256: sha256("ana@example.com"), referral_code: "ANA" })] };
  test("is found by the e-mail of the lead, through the click", () =>
    expect(fraudOf({ t: "lead_submit", click_id: clickBefore(60_000), props }, {}, factsWith({}, anas))).toMatchObject({
      score: 60,
      reasons: [{ code: "self_referral", weight: 60, evidence: "the e-mail is that of the partner" }],
    }));
  test("is found through the code that a source names", () =>
    expect(fraudOf({ t: "purchase", partner_ref: "ANA", props }, {}, factsWith({}, anas)).score).toBe(60));
  test("is somebody else when the e-mail is, when there is none, and when no partner would be paid", () => {
    const facts = factsWith({}, anas);
    const click_id = clickBefore(60_000);
    expect(fraudOf({ t: "lead_submit", click_id, props }, {}, factsWith({}, { partners })).score).toBe(0);
    expect(fraudOf({ t: "lead_submit", click_id }, {}, facts).score).toBe(0);
    expect(fraudOf({ t: "lead_submit", props }, {}, facts).score).toBe(0);
  });
});

describe("a conversion from another country than its click", () => {
  const fromSpain = hinted({ click_country: "ES" });
  test("adds 10", () =>
    expect(fraudOf({ t: "purchase" }, { country: "MX" }, fromSpain)).toMatchObject({
      score: 10,
      reasons: [{ code: "country_differs", weight: 10, evidence: "click from ES, conversion from MX" }],
    }));
  test("is only known when both countries are", () => {
    expect(fraudOf({ t: "purchase" }, { country: "ES" }, fromSpain).score).toBe(0);
    expect(fraudOf({ t: "purchase" }, { country: null }, fromSpain).score).toBe(0);
    expect(fraudOf({ t: "purchase" }, { country: "MX" }, hinted({})).score).toBe(0);
  });
});

describe("a click id on many devices", () => {
  test("is suspect from the fourth on", () => {
    expect(fraudOf({ t: "purchase" }, {}, hinted({ click_devices: 2 })).score).toBe(0);
    expect(fraudOf({ t: "purchase" }, {}, hinted({ click_devices: 3 }))).toMatchObject({
      score: 30,
      reasons: [{ code: "click_on_many_devices", weight: 30, evidence: "4 devices carry this click id" }],
    });
  });
});

test("what was read across keys stands on the event, suspect or not", () =>
  expect(fraudOf({ t: "purchase" }, {}, hinted({ address_conversions: 3 })).hints).toEqual({
    address_conversions: 3,
    click_devices: null,
    click_country: null,
  }));

describe("a client", () => {
  const bot = { is_bot: true };
  test("may switch a rule off, and no other with it", () => {
    const off = factsWith({ rules: { ua_bot: { active: false } } });
    expect(fraudOf({}, { ...bot, asn_class: "vpn" }, off).reasons.map(({ code }) => code)).toEqual(["address_class"]);
  });
  test("may give a rule another weight", () =>
    expect(fraudOf({}, bot, factsWith({ rules: { ua_bot: { weight: 5 } } })).score).toBe(5));
  test("may draw a rule's line elsewhere", () => {
    const slow = factsWith({ rules: { click_to_purchase: { threshold: 60_000 } } });
    expect(fraudOf({ t: "purchase", click_id: clickBefore(59_999) }, {}, slow).score).toBe(30);
    expect(fraudOf({ t: "purchase", click_id: clickBefore(60_000) }, {}, slow).score).toBe(0);
  });
  test("of no opinion has the rules as they are shipped", () =>
    expect(fraudOf({}, bot, factsWith({ rules: {} }))).toEqual(fraudOf({}, bot)));
});

test("each rule has a code of its own, and a weight that can be added", () => {
  expect(new Set(rules.map(({ code }) => code)).size).toBe(rules.length);
  for (const { weight } of rules) expect(weight).toSatisfy((n: number) => Number.isInteger(n) && n > 0 && n <= 100);
});

test("switching a rule off never makes an event more suspect, and a higher threshold of time never less", () =>
  fc.assert(
    fc.property(
      fc.constantFrom("page_view", "purchase", "install", "click", "lead_submit"),
      fc.boolean(),
      fc.integer({ min: -5_000, max: 20_000 }),
      fc.record({
        address_conversions: fc.option(fc.nat(50)),
        click_devices: fc.option(fc.nat(6)),
        click_country: fc.constantFrom(null, "MX", "ES"),
      }),
      fc.subarray(rules.map(({ code }) => code)),
      (t, isBot, elapsedMs, hint, off) => {
        const event = { t, click_id: clickBefore(elapsedMs) };
        const seen = { is_bot: isBot, country: "MX", asn_class: "vpn" };
        const all = fraudOf(event, seen, factsWith({ hints: hint }));
        const fewer = fraudOf(
          event,
          seen,
          factsWith({ hints: hint, rules: Object.fromEntries(off.map((code) => [code, { active: false }])) }),
        );
        expect(fewer.score).toBeLessThanOrEqual(all.score);
        expect(fewer.reasons).toEqual(all.reasons.filter(({ code }) => !off.includes(code)));
        const wider = fraudOf(
          event,
          seen,
          factsWith({ hints: hint, rules: { click_to_purchase: { threshold: 10_000 } } }),
        );
        expect(wider.score).toBeGreaterThanOrEqual(all.score);
      },
    ),
  ));

const load = (
  batch: Parameters<typeof scoreFacts.load>[0],
  rows: Partial<ReferenceRows> = {},
  answers = new Map<string, FraudHints>(),
) => {
  const asked: HintAsked[] = [];
  const lookUp = async (all: readonly HintAsked[]) => {
    asked.push(...all);
    return answers;
  };
  const known = reads(
    [reference, referenceWith(rows)],
    [clickKeys, keys],
    [identityKeys, identity],
    [hints, { lookUp }],
  );
  return scoreFacts.load(batch, known).then((factsOf) => ({ factsOf, asked }));
};

test("thresholds are those in force at event time, and a client that is not known has the usual ones", async () => {
  const clients = [
    client(),
    client({ fraud_review: 10, fraud_reject: 20, valid_from: noon, recorded_at: longAgo + 1 }),
  ];
  const batch = [noon - 1, noon].map((at) => recorded(topics.eventsEnriched, enriched(), { at, receivedAt: noon }));
  const stranger = recorded(topics.eventsEnriched, enriched({ client_id: 999 }));
  const { factsOf } = await load([...batch, stranger], { clients });
  expect([...batch, stranger].map(factsOf).map(({ review, reject }) => [review, reject])).toEqual([
    [40, 70],
    [10, 20],
    [40, 70],
  ]);
});

describe("hints", () => {
  const of = (event: Partial<EventReceived>) => recorded(topics.eventsEnriched, enriched(event));
  test("are asked for by claims and clicks, and by nothing else", async () => {
    const click_id = clickBefore(1_000);
    const all = ["page_view", "custom", "refund", "purchase", "ext_purchase", "lead_submit", "install", "click"];
    const { asked } = await load(all.map((t) => of({ t, event_id: t, click_id, ip: "8.8.8.8" })));
    expect(asked.map(({ event_id }) => event_id)).toEqual(all.slice(3));
    expect(asked[0]).toEqual({
      client_id: clientId,
      event_id: "purchase",
      at: noon,
      did: "d1",
      address: "8.8.8.8",
      click_id,
    });
    expect(asked.at(-1)!.address).toBeNull();
  });
  test("are not asked about a server's address, nor about a click id that anybody can make up", async () => {
    const purchase = { t: "purchase", ip: "8.8.8.8", ip_source: "request", client_side: false, click_id: "gclid-1" };
    expect((await load([of(purchase)])).asked).toEqual([]);
  });
  test("reach the event that they were asked for", async () => {
    const hint = { address_conversions: 4, click_devices: null, click_country: null };
    const [sale, other] = [
      of({ t: "purchase", event_id: "a", ip: "8.8.8.8" }),
      of({ t: "purchase", event_id: "b", ip: "8.8.8.8" }),
    ];
    const { factsOf } = await load([sale, other], {}, new Map([["a", hint]]));
    expect([sale, other].map((event) => factsOf(event).hints)).toEqual([hint, null]);
  });
});
