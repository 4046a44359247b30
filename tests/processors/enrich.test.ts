// The fields that enrich fills, and the ones that it leaves alone.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import fc from "fast-check";
import { Reader } from "mmdb-lib";
import { describe, expect, test } from "vitest";
import { enrich } from "../../processors/enrich/enrich.ts";
import { enrichFacts, identityKeys, identityKeysOf } from "../../processors/enrich/facts.ts";
import { type Places, places, placesOf } from "../../processors/enrich/places.ts";
import type { Enrichment, EventReceived } from "../../schemas/generated.ts";
import { topics } from "../../topics.ts";
import { noon, reads, received, recorded } from "../support/builders.ts";
import { given } from "../support/given.ts";

const data = readFileSync(
  createRequire(import.meta.url).resolve("@ip-location-db/geo-whois-asn-country-mmdb/geo-whois-asn-country.mmdb"),
);
const keys = identityKeysOf("a secret of these tests");
const world = placesOf(data);
const facts = { ...world, ...keys };
const iphone =
  "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) " +
  "Version/17.0 Mobile/15E148 Safari/604.1";
const chrome =
  "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36";
const googlebot = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";

const enrichmentOf = (event: Partial<EventReceived>, where: Places = world): Enrichment => {
  const outcome = enrich(recorded(topics.eventsRaw, received(event)), null, { ...where, ...keys });
  if (outcome.kind !== "emit" || outcome.events.length !== 1)
    throw new Error(`enrich emits one event, not ${outcome.kind}`);
  return outcome.events[0]!.data.enrichment;
};
/** The event that enrich emits, or null if it drops the event. */
const stored = (event: Partial<EventReceived>): EventReceived | null => {
  const outcome = enrich(recorded(topics.eventsRaw, received(event)), null, facts);
  return outcome.kind === "emit" ? outcome.events[0]!.data.event : null;
};

describe("the country", () => {
  test.each([
    ["200.33.146.1", "MX"],
    ["8.8.8.8", "US"],
    ["193.0.6.139", "NL"],
    ["::ffff:200.33.146.1", "MX"],
    ["2001:4860:4860::8888", "US"],
  ])("of %s is %s", (ip, country) => expect(enrichmentOf({ ip })).toMatchObject({ country, errors: [] }));

  test.each([
    ["192.0.2.77", "MX"],
    ["198.51.100.77", "US"],
    ["203.0.113.77", "ES"],
    ["::ffff:203.0.113.77", "ES"],
  ])("of the documentation address %s is made up: %s", (ip, country) =>
    expect(enrichmentOf({ ip }).country).toBe(country),
  );

  test.each([
    "10.1.2.3",
    "127.0.0.1",
    "169.254.1.1",
    "100.64.0.1",
    "::1",
    "fe80::1",
    "fd00::1",
    "::ffff:192.168.1.1",
    "2001:db8::1",
  ])("of %s is unknown, and that is no error", (ip) =>
    expect(enrichmentOf({ ip })).toMatchObject({ country: null, errors: [] }),
  );

  test("of a purchase that a server sent without an address is unknown: the address is the server's", () =>
    expect(
      enrichmentOf({ source: "batch", client_side: false, ip: "8.8.8.8", ip_source: "request" }).country,
    ).toBeNull());

  test("is known when a server names its visitor's address", () =>
    expect(enrichmentOf({ source: "batch", client_side: false, ip: "8.8.8.8", ip_source: "event" }).country).toBe(
      "US",
    ));

  test("is known from a request of the visitor's own device", () =>
    expect(enrichmentOf({ client_side: true, ip: "8.8.8.8", ip_source: "request" }).country).toBe("US"));

  test("that the sender gave is not overwritten, nor is the address looked up", () => {
    expect(enrichmentOf({ ip: "8.8.8.8", props: '{"country":"fr"}' }).country).toBe("FR");
    expect(enrichmentOf({ ip: "8.8.8.8", props: '{"country":"fr"}' }, placesOf(null)).errors).toEqual([]);
  });

  test("that the sender gave in another form is not taken for one", () =>
    expect(enrichmentOf({ ip: "8.8.8.8", props: '{"country":"France"}' }).country).toBe("US"));

  test("stands beside the build date of the data", () =>
    expect(enrichmentOf({ ip: "8.8.8.8" }).geo_built).toMatch(/^20\d\d-\d\d-\d\d$/));
});

describe("a look-up that fails blocks nothing", () => {
  test("no country data: the event goes on and says so", () =>
    expect(enrichmentOf({ ip: "8.8.8.8" }, placesOf(null))).toMatchObject({
      country: null,
      geo_built: null,
      errors: ["geo_unavailable"],
    }));

  test("an address that is none", () =>
    expect(enrichmentOf({ ip: "not an address" })).toMatchObject({ country: null, errors: ["bad_address"] }));

  test("data that breaks while it is read", () => {
    const broken = Buffer.from(data);
    // The search tree and the metadata stay; the data that the leaves of the tree point to is
    // wiped.
    broken.fill(0, new Reader(data).metadata.searchTreeSize + 16, broken.lastIndexOf("MaxMind.com") - 3);
    expect(enrichmentOf({ ip: "8.8.8.8" }, placesOf(broken))).toMatchObject({ country: null, errors: ["geo_failed"] });
  });
});

describe("the user agent", () => {
  test("of a phone", () =>
    expect(enrichmentOf({ ua: iphone })).toMatchObject({
      device: "mobile",
      browser: "Safari",
      os: "iOS",
      is_bot: false,
    }));
  test("of a desktop", () =>
    expect(enrichmentOf({ ua: chrome })).toMatchObject({
      device: "desktop",
      browser: "Chrome",
      os: "Windows",
      is_bot: false,
    }));
  test("of a bot is flagged, and the event goes on", () =>
    expect(enrichmentOf({ ua: googlebot })).toMatchObject({ device: "unknown", is_bot: true }));
  test("of the server that sent a batch says nothing about the visitor", () =>
    expect(enrichmentOf({ source: "batch", client_side: false, ua: "curl/8.0", ua_source: "request" })).toMatchObject({
      device: "unknown",
      browser: null,
      is_bot: false,
    }));
  test("may be missing, empty or nonsense", () => {
    for (const ua of [null, ""])
      expect(enrichmentOf({ ua })).toMatchObject({ device: "unknown", is_bot: false, errors: [] });
    for (const ua of ["x", "\u0000"])
      expect(enrichmentOf({ ua })).toMatchObject({ device: "unknown", browser: null, errors: [] });
  });
});

describe("the consent in force", () => {
  test("is the mask as given", () => expect(enrichmentOf({ consent: 0x35 }).consent).toBe(0x35));
  test("loses analytics and DSP export under Global Privacy Control", () =>
    expect(enrichmentOf({ t: "purchase", props: '{"gpc":true}' }).consent).toBe(0xfa));
  test("loses DSP export under Do Not Track", () => expect(enrichmentOf({ props: '{"dnt":"1"}' }).consent).toBe(0xfb));
  test("follows a signal that an edge read in a header", () =>
    expect(enrichmentOf({ t: "install", warnings: ["gpc"] }).consent).toBe(0xfa));
  test("is untouched by a signal that is off", () =>
    expect(enrichmentOf({ props: '{"gpc":false,"dnt":0}' }).consent).toBe(0xff));
  test("is never widened", () =>
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 255 }), fc.boolean(), fc.boolean(), (consent, gpc, dnt) => {
        const inForce = enrichmentOf({ t: "purchase", consent, props: JSON.stringify({ gpc, dnt }) }).consent;
        return (inForce & ~consent) === 0 && (inForce & 0x80) === (consent & 0x80);
      }),
    ));
});

describe("without consent to analytics (bit 0x01)", () => {
  const consent = 0xfe;
  const way = { url: "https://shop.example/thanks?o=1", ref: "https://blog.example/", ip: "8.8.8.8", ua: iphone };
  const unseen = { ip: null, ua: null };

  test.each(["page_view", "view_product", "add_to_cart", "begin_checkout", "click", "form_start"])(
    "a %s ends here, for that reason",
    (t) =>
      given(enrich, { state: null, facts })
        .when(recorded(topics.eventsRaw, received({ t, consent })))
        .then({ drops: "no_analytics_consent" }),
  );
  test.each(["purchase", "ext_purchase", "refund", "lead_submit", "install", "custom"])(
    "a %s goes on without the visitor's device, for a partner may earn by it",
    (t) => {
      const event = { t, consent, order_id: "o1", click_id: "a click", value_minor: 100_00n, ...way };
      expect(stored(event)).toEqual(received({ ...event, ...unseen }));
    },
  );
  test("a country and a kind of device are all that remains of address and user agent", () =>
    expect(enrichmentOf({ t: "purchase", consent, ...way })).toMatchObject({
      country: "US",
      device: "mobile",
      consent,
    }));
  test("it makes no difference whether the visitor or the browser said no", () => {
    expect(stored({ props: '{"gpc":1}' })).toBeNull();
    expect(stored({ warnings: ["gpc"] })).toBeNull();
    expect(stored({ t: "purchase", warnings: ["gpc"], ...way })).toMatchObject(unseen);
  });
  test("Do Not Track alone withholds nothing here: it is about exports", () =>
    expect(stored({ props: '{"dnt":1}', ...way })).toMatchObject(way));
});
test("with consent to analytics every event goes on as it came", () =>
  fc.assert(
    fc.property(
      fc.record({
        t: fc.constantFrom("page_view", "click", "custom", "purchase", "refund", "install"),
        consent: fc.integer({ min: 0, max: 255 }).map((mask) => mask | 0x01),
        ip: fc.ipV4(),
        ua: fc.string(),
        ref: fc.webUrl(),
      }),
      (event) => {
        expect(stored(event)).toEqual(received(event));
      },
    ),
  ));

test("the same event has the same outcome, whatever was looked up before", () =>
  fc.assert(
    fc.property(fc.array(fc.ipV4(), { minLength: 1, maxLength: 50 }), fc.string(), (addresses, ua) => {
      const first = addresses.map((ip) => enrichmentOf({ ip, ua }, placesOf(data.subarray())));
      const again = addresses.map((ip) => enrichmentOf({ ip, ua }));
      expect(again).toEqual(first);
    }),
    { numRuns: 20 },
  ));

test("all events of a batch meet the same data, asked for with the newest receive time", async () => {
  const asked: number[] = [];
  const batch = [1, 3, 2].map((n) => recorded(topics.eventsRaw, received(), { receivedAt: noon + n }));
  const at = await enrichFacts.load(batch, (view, asOf) => {
    asked.push(asOf);
    return reads([places, world], [identityKeys, keys])(view, asOf);
  });
  expect(asked).toEqual([noon + 3, noon + 3]);
  expect(batch.map(at)).toEqual([facts, facts, facts]);
});
