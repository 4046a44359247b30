// The place and the network of an address, as far as the operator's files know them.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { enrich } from "../../processors/enrich/enrich.ts";
import { identityKeysOf } from "../../processors/enrich/facts.ts";
import { networksOf } from "../../processors/enrich/networks.ts";
import { noPlace, type Places, placesOf } from "../../processors/enrich/places.ts";
import type { Enrichment, EventReceived } from "../../schemas/generated.ts";
import { topics } from "../../topics.ts";
import { received, recorded } from "../support/builders.ts";
import { mmdb } from "../support/mmdb.ts";

const country = mmdb({
  "8.8.8.0/24": { country_code: "US" },
  "200.33.0.0/16": { country_code: "MX" },
  "1.2.3.0/24": { country_code: "AU" },
});
const city = mmdb(
  {
    "200.33.146.0/24": {
      country: { iso_code: "MX" },
      subdivisions: [{ iso_code: "CMX" }],
      city: { names: { en: "Mexico City", es: "Ciudad de México" } },
    },
  },
  "2026-07-01",
);
const asn = mmdb({
  "8.8.8.0/24": { autonomous_system_number: 64_500 },
  "200.33.0.0/16": { autonomous_system_number: 64_501 },
});
const { networks } = networksOf("AS64500 hosting\n1.2.3.0/24 vpn # a provider\n");
const everything = placesOf(country, { city, asn, networks });

describe("with the operator's files", () => {
  test("an address has a city, its region, and the number of its network", () =>
    expect(everything.placeOf("200.33.146.1")).toEqual({
      country: "MX",
      region: "CMX",
      city: "Mexico City",
      asn: 64_501,
      asn_class: "isp",
      error: null,
    }));
  test("an address that the city file does not know keeps the country of the shipped data", () =>
    expect(everything.placeOf("8.8.8.8")).toEqual({ ...noPlace, country: "US", asn: 64_500, asn_class: "hosting" }));
  test("a range of the list says more than the number of its system", () =>
    expect(everything.placeOf("1.2.3.4")).toMatchObject({ country: "AU", asn: null, asn_class: "vpn" }));
  test("the build date on events is that of the city file", () => expect(everything.built).toBe("2026-07-01"));
  test.each(["10.1.2.3", "127.0.0.1", "100.64.0.1", "fe80::1"])("%s is nowhere and of no network", (ip) =>
    expect(everything.placeOf(ip)).toEqual(noPlace),
  );
});

describe("what is not configured is unknown", () => {
  test("without a city file no city, without an ASN file no number, without a list no class", () =>
    expect(placesOf(country).placeOf("8.8.8.8")).toEqual({ ...noPlace, country: "US" }));
  test("with the number alone nothing can be said about the kind of network", () =>
    expect(placesOf(country, { asn }).placeOf("8.8.8.8")).toMatchObject({ asn: 64_500, asn_class: "unknown" }));
  test("an address that no file knows is of an unknown network, not of an access provider", () =>
    expect(everything.placeOf("9.9.9.9")).toEqual(noPlace));
});

test("a city file that breaks while it is read blocks nothing", () => {
  const broken = Buffer.from(city);
  broken.fill(0xff, 0, 60);
  expect(placesOf(country, { city: broken }).placeOf("200.33.146.1")).toEqual({ ...noPlace, error: "geo_failed" });
});

describe("on the event", () => {
  const enrichmentOf = (event: Partial<EventReceived>, where: Places = everything): Enrichment => {
    const outcome = enrich(recorded(topics.eventsRaw, received(event)), null, {
      ...where,
      ...identityKeysOf("a secret"),
    });
    if (outcome.kind !== "emit") throw new Error(outcome.kind);
    return outcome.events[0]!.data.enrichment;
  };
  test("stand city, region and network of the visitor", () =>
    expect(enrichmentOf({ ip: "200.33.146.1" })).toMatchObject({
      city: "Mexico City",
      region: "CMX",
      asn: 64_501,
      asn_class: "isp",
    }));
  test("stand none of them when the address is a server's", () =>
    expect(enrichmentOf({ ip: "200.33.146.1", ip_source: "request", client_side: false })).toMatchObject({
      city: null,
      asn: null,
    }));
  test("a country that the sender gave stands alone: the address may be somewhere else", () =>
    expect(enrichmentOf({ ip: "200.33.146.1", props: '{"country":"US"}' })).toMatchObject({
      country: "US",
      region: null,
      city: null,
    }));
  test("without consent to analytics a country and a kind of network remain", () =>
    expect(enrichmentOf({ t: "purchase", ip: "8.8.8.8", consent: 0xfe })).toMatchObject({
      country: "US",
      asn_class: "hosting",
      asn: null,
      city: null,
      region: null,
      person: null,
    }));
});

describe("a list of networks", () => {
  test("lets the narrowest range win, whatever the order of lines", () => {
    const lines = ["203.0.113.0/24 hosting", "203.0.113.64/26 vpn", "203.0.113.65 isp"];
    for (const text of [lines.join("\n"), [...lines].reverse().join("\n")]) {
      const list = networksOf(text).networks;
      expect(
        ["203.0.113.1", "203.0.113.64", "203.0.113.65", "203.0.114.1"].map((ip) => list.classOf(ip, null)),
      ).toEqual(["hosting", "vpn", "isp", undefined]);
    }
  });
  test("knows IPv6, takes TOR for an anonymiser, and any case", () => {
    const list = networksOf("2001:db8::/33 TOR\r\nas64511 Hosting").networks;
    expect([
      list.classOf("2001:db8:1::1", null),
      list.classOf("2001:db8:8000::1", null),
      list.classOf("8.8.8.8", 64_511),
    ]).toEqual(["vpn", undefined, "hosting"]);
  });
  test("tells each line that it cannot use, and uses the others", () => {
    const { networks: list, problems } = networksOf(
      "# mine\n8.8.8.0/24 hosting\n8.8.8.0/99 vpn\nnonsense\n9.9.9.0/24 cloud\nAS1 vpn extra",
    );
    expect(problems.map(({ line }) => line)).toEqual([3, 4, 5, 6]);
    expect(list.classOf("8.8.8.8", null)).toBe("hosting");
  });
  test("finds an address in exactly the ranges that hold it", () =>
    fc.assert(
      fc.property(fc.ipV4(), fc.integer({ min: 1, max: 32 }), fc.ipV4(), (range, length, address) => {
        const bits = (ip: string) => ip.split(".").reduce((sum, octet) => sum * 256 + Number(octet), 0);
        const isIn = Math.floor(bits(range) / 2 ** (32 - length)) === Math.floor(bits(address) / 2 ** (32 - length));
        const list = networksOf(`${range}/${length} vpn`).networks;
        expect(list.classOf(address, null)).toBe(isIn ? "vpn" : undefined);
        expect(list.classOf(range, null)).toBe("vpn");
      }),
    ));
});
