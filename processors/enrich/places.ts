// Where an address is and what kind of network it belongs to: the view that enrich looks up, and
// how an app makes it from data files.
import ipaddr from "ipaddr.js";
import { type CityResponse, type Response as Mmdb, Reader } from "mmdb-lib";
import { memo } from "../../domain/memo.ts";
import type { View } from "../../stream/flow.ts";
import type { NetworkClass, Networks } from "./networks.ts";

/**
 * What is known of an address; null what is not, `error` why when something went wrong. An address
 * that no country owns is no error.
 */
export interface Place {
  /** ISO 3166-1 alpha-2 */
  readonly country: string | null;
  /** Subdivision of ISO 3166-2, without the country in front */
  readonly region: string | null;
  readonly city: string | null;
  readonly asn: number | null;
  readonly asn_class: NetworkClass;
  readonly error: "geo_unavailable" | "bad_address" | "geo_failed" | null;
}

export interface Places {
  /** Build date of the data that countries and cities come from, YYYY-MM-DD; null without data. */
  readonly built: string | null;
  readonly placeOf: (address: string) => Place;
}
export const places: View<Places> = { view: "places" };

/**
 * Bytes of MaxMind databases, and the list of networks; null what an operator has not given: then
 * all that it would tell is unknown.
 */
export interface PlaceData {
  readonly country: Buffer | null;
  readonly city: Buffer | null;
  readonly asn: Buffer | null;
  readonly networks: Networks | null;
}
const nothing: PlaceData = { country: null, city: null, asn: null, networks: null };

/**
 * The documentation ranges (RFC 5737) belong to no network, so demo and test traffic uses them; the
 * countries are made up. Keyed by the first three octets.
 */
const demoCountries: Readonly<Record<string, string>> = { "192.0.2": "MX", "198.51.100": "US", "203.0.113": "ES" };

/** Addresses kept with their answer: about 150 bytes each, 3 MB when full. */
const addressesRemembered = 20_000;

/** What stands for an address that is missing, not the visitor's, or nowhere. */
export const noPlace: Place = { country: null, region: null, city: null, asn: null, asn_class: "unknown", error: null };

/**
 * Looks addresses up in MaxMind databases: countries by `country_code` or `country.iso_code`,
 * cities and regions as city files name them. Without country data (null) only the demo ranges are
 * known and every other public address is answered with `geo_unavailable`. Throws when a buffer is
 * no such database.
 */
export const placesOf = (country: Buffer | null, more: Partial<PlaceData> = {}): Places => {
  const data = { ...nothing, ...more, country };
  const readers: Readers = {
    country: readerOf<CountryRecord>(data.country),
    city: readerOf<CountryRecord>(data.city),
    asn: readerOf<SystemRecord>(data.asn),
    networks: data.networks,
  };
  return {
    built: (readers.city ?? readers.country)?.metadata.buildEpoch.toISOString().slice(0, 10) ?? null,
    placeOf: memo(addressesRemembered, (address) => placeIn(readers, address)),
  };
};
const readerOf = <Found extends Mmdb>(data: Buffer | null): Reader<Found> | null =>
  data === null ? null : new Reader<Found>(data);

/** Both spellings of the country occur; mmdb-lib knows the second alone. */
type CountryRecord = CityResponse & { readonly country_code?: string };
type SystemRecord = Mmdb & { readonly autonomous_system_number?: number };
interface Readers {
  readonly country: Reader<CountryRecord> | null;
  readonly city: Reader<CountryRecord> | null;
  readonly asn: Reader<SystemRecord> | null;
  readonly networks: Networks | null;
}

const placeIn = (readers: Readers, given: string): Place => {
  // The parser also takes 0x7f.1 and 127.1; edges have refused what is no address, so a failure
  // here is an edge that let one through.
  if (!ipaddr.isValid(given)) return { ...noPlace, error: "bad_address" };
  const address = ipaddr.process(given);
  const text = address.toString();
  const demo = demoCountries[text.slice(0, text.lastIndexOf("."))];
  if (demo !== undefined) return { ...noPlace, country: demo, asn_class: classIn(readers, text, null) };
  // Private, carrier-grade NAT, loopback, tunnels and the like are in no country and of no network.
  if (address.range() !== "unicast") return noPlace;
  if (readers.country === null && readers.city === null)
    return { ...noPlace, ...networkIn(readers, text), error: "geo_unavailable" };
  try {
    const found = readers.city?.get(text) ?? null;
    const country = countryIn(found) ?? countryIn(readers.country?.get(text) ?? null);
    return {
      country,
      region: found?.subdivisions?.[0]?.iso_code ?? null,
      city: nameIn(found),
      ...networkIn(readers, text),
      error: null,
    };
  } catch {
    return { ...noPlace, error: "geo_failed" };
  }
};

const countryIn = (found: CountryRecord | null): string | null =>
  found?.country_code ?? found?.country?.iso_code ?? null;
/** English, so that one city has one name in every report. */
const nameIn = (found: CountryRecord | null): string | null => found?.city?.names?.en ?? null;

/** Numbers of systems have 32 bits; none beyond 31 is announced publicly. */
const highestSystem = 2 ** 31 - 1;

const networkIn = (readers: Readers, text: string): Pick<Place, "asn" | "asn_class"> => {
  const number = readers.asn?.get(text)?.autonomous_system_number;
  const asn = number === undefined || number > highestSystem ? null : number;
  return { asn, asn_class: classIn(readers, text, asn) };
};

/**
 * A system that is known and on no list is taken for an access provider's; without a list nothing
 * can be said of it.
 */
const classIn = ({ networks }: Readers, text: string, asn: number | null): NetworkClass =>
  networks === null ? "unknown" : (networks.classOf(text, asn) ?? (asn === null ? "unknown" : "isp"));
