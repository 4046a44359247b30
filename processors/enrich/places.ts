// processors/enrich/places.ts - which country an address belongs to: the view that enrich looks up, and how an app makes it from a data file.
import ipaddr from "ipaddr.js";
import { type CountryResponse, Reader } from "mmdb-lib";
import type { EventReceived } from "../../schemas/generated.ts";
import type { FactsFor, View } from "../../stream/flow.ts";
import { memo } from "../memo.ts";

/** ISO 3166-1 alpha-2, or null with the reason when something went wrong; null without a reason is an address that no country owns. */
export interface Place {
  readonly country: string | null;
  readonly error: "geo_unavailable" | "bad_address" | "geo_failed" | null;
}

export interface Places {
  /** Build date of the data, YYYY-MM-DD; null without data. */
  readonly built: string | null;
  readonly placeOf: (address: string) => Place;
}
export const places: View<Places> = { view: "places" };

/** Every event of a batch meets the same data: which build it was stands on the event. */
export const placesFacts: FactsFor<EventReceived, Places> = {
  name: "places",
  load: async (batch, read) => {
    const current = await read(places, newestOf(batch));
    return () => current;
  },
};
const newestOf = (batch: readonly { readonly receivedAt: number }[]): number =>
  batch.reduce((newest, event) => Math.max(newest, event.receivedAt), 0);

/**
 * The documentation ranges (RFC 5737) belong to nobody, so demo and test traffic uses them; the countries are made up. Keyed by the first three octets.
 */
const demoCountries: Readonly<Record<string, string>> = { "192.0.2": "MX", "198.51.100": "US", "203.0.113": "ES" };

/** Addresses kept with their answer: about 100 bytes each, 2 MB when full. */
const addressesRemembered = 20_000;

/**
 * Country look-up in a MaxMind database that holds `country_code` (or `country.iso_code`, as city files of operators do). Without data (null) only the demo
 * ranges are known and every other public address is answered with `geo_unavailable`. Throws when the buffer is no such database.
 */
export const placesOf = (data: Buffer | null): Places => {
  const reader = data === null ? null : new Reader<CountryRecord>(data);
  return {
    built: reader === null ? null : reader.metadata.buildEpoch.toISOString().slice(0, 10),
    placeOf: memo(addressesRemembered, (address) => placeIn(reader, address)),
  };
};

/** Both spellings occur; mmdb-lib knows the second alone. */
type CountryRecord = CountryResponse & { readonly country_code?: string };

const nowhere: Place = { country: null, error: null };

const placeIn = (reader: Reader<CountryRecord> | null, given: string): Place => {
  // The parser also takes 0x7f.1 and 127.1; edges have refused what is no address, so a failure here is an edge that let one through.
  if (!ipaddr.isValid(given)) return { country: null, error: "bad_address" };
  const address = ipaddr.process(given);
  const text = address.toString();
  const demo = demoCountries[text.slice(0, text.lastIndexOf("."))];
  if (demo !== undefined) return { country: demo, error: null };
  // Private, carrier-grade NAT, loopback, tunnels and the like are in no country.
  if (address.range() !== "unicast") return nowhere;
  if (reader === null) return { country: null, error: "geo_unavailable" };
  try {
    const found = reader.get(text);
    const country = found?.country_code ?? found?.country?.iso_code;
    return country === undefined ? nowhere : { country, error: null };
  } catch {
    return { country: null, error: "geo_failed" };
  }
};
