// The location and network of an address: the view that enrich uses, and how an app builds it from
// data files.
import ipaddr from "ipaddr.js";
import { type CityResponse, type Response as Mmdb, Reader } from "mmdb-lib";
import { memo } from "../../domain/memo.ts";
import type { View } from "../../stream/flow.ts";
import type { NetworkClass, Networks } from "./networks.ts";

/**
 * The known facts about an address; unknown fields are null. `error` is the reason of a failure; an
 * address without a country is no failure.
 */
export interface Place {
  /** ISO 3166-1 alpha-2 */
  readonly country: string | null;
  /** The subdivision of ISO 3166-2, without the country prefix. */
  readonly region: string | null;
  readonly city: string | null;
  readonly asn: number | null;
  readonly asn_class: NetworkClass;
  readonly error: "geo_unavailable" | "bad_address" | "geo_failed" | null;
}

export interface Places {
  /** The build date of the country and city data, YYYY-MM-DD. Null without data. */
  readonly built: string | null;
  readonly placeOf: (address: string) => Place;
}
export const places: View<Places> = { view: "places" };

/**
 * The bytes of MaxMind databases, and the list of networks. Null for data that the operator has not
 * supplied; the fields that it would fill are then unknown.
 */
export interface PlaceData {
  readonly country: Buffer | null;
  readonly city: Buffer | null;
  readonly asn: Buffer | null;
  readonly networks: Networks | null;
}
const nothing: PlaceData = { country: null, city: null, asn: null, networks: null };

/**
 * Demo and test traffic uses the documentation ranges (RFC 5737), which belong to no network. The
 * countries are invented. Keyed by the first three octets.
 */
const demoCountries: Readonly<Record<string, string>> = { "192.0.2": "MX", "198.51.100": "US", "203.0.113": "ES" };

/** The number of cached addresses: about 150 bytes each, 3 MB when full. */
const addressesRemembered = 20_000;

/** Used for an address that is missing, not the visitor's, or without a location. */
export const noPlace: Place = { country: null, region: null, city: null, asn: null, asn_class: "unknown", error: null };

/**
 * Looks up addresses in MaxMind databases: countries by `country_code` or `country.iso_code`,
 * cities and regions as in city files. Without country data (null), only the demo ranges are known,
 * and every other public address gets `geo_unavailable`. Throws if a buffer is not such a database.
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

/** Both spellings of the country occur. mmdb-lib has a type only for the second one. */
type CountryRecord = CityResponse & { readonly country_code?: string };
type SystemRecord = Mmdb & { readonly autonomous_system_number?: number };
interface Readers {
  readonly country: Reader<CountryRecord> | null;
  readonly city: Reader<CountryRecord> | null;
  readonly asn: Reader<SystemRecord> | null;
  readonly networks: Networks | null;
}

const placeIn = (readers: Readers, given: string): Place => {
  // The parser also accepts 0x7f.1 and 127.1, but edges refuse invalid addresses. So a failure here
  // means that an edge let one through.
  if (!ipaddr.isValid(given)) return { ...noPlace, error: "bad_address" };
  const address = ipaddr.process(given);
  const text = address.toString();
  const demo = demoCountries[text.slice(0, text.lastIndexOf("."))];
  if (demo !== undefined) return { ...noPlace, country: demo, asn_class: classIn(readers, text, null) };
  // Private, carrier-grade NAT, loopback, tunnel and similar addresses have no country and no
  // network.
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
/** The English name, so that a city has one name in every report. */
const nameIn = (found: CountryRecord | null): string | null => found?.city?.names?.en ?? null;

/** Numbers of autonomous systems have 32 bits, but none above 31 bits is announced publicly. */
const highestSystem = 2 ** 31 - 1;

const networkIn = (readers: Readers, text: string): Pick<Place, "asn" | "asn_class"> => {
  const number = readers.asn?.get(text)?.autonomous_system_number;
  const asn = number === undefined || number > highestSystem ? null : number;
  return { asn, asn_class: classIn(readers, text, asn) };
};

/**
 * A known system that is not on the list counts as an access provider. Without a list the class is
 * unknown.
 */
const classIn = ({ networks }: Readers, text: string, asn: number | null): NetworkClass =>
  networks === null ? "unknown" : (networks.classOf(text, asn) ?? (asn === null ? "unknown" : "isp"));
