// apps/worker/views.ts - the pictures that stages look things up in, made of files and secrets when a stage first asks for them.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { clickKeys, clickKeysOf } from "../../processors/attribute/click-keys.ts";
import { clickIdKey } from "../../processors/click-id.ts";
import { places, placesOf } from "../../processors/enrich/places.ts";
import type { Source } from "../../sinks/postgres/reference.ts";
import type { Log } from "../../stream/log.ts";
import type { Config } from "./config.ts";

const SHIPPED = "@ip-location-db/geo-whois-asn-country-mmdb/geo-whois-asn-country.mmdb";

/** Computed once, by whoever asks first. */
const once = <T>(make: () => T): (() => T) => {
  let made: { readonly value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
};

/** Without country data events go on, marked `geo_unavailable`. */
const readPlaces = (file: string | undefined, log: Pick<Log, "warn">) => {
  try {
    return placesOf(readFileSync(file ?? createRequire(import.meta.url).resolve(SHIPPED)));
  } catch (error) {
    log.warn("places.unavailable", { file: file ?? SHIPPED, error });
    return placesOf(null);
  }
};

/** By the names of their views, beside the view of the reference data. */
export const viewsOf = (config: Config, log: Pick<Log, "warn">): Readonly<Record<string, Source>> => {
  const world = once(() => readPlaces(config.GEOIP_CITY_DB, log));
  const keys = once(() => clickKeysOf([clickIdKey(config.TRIBUTARY_SECRET, 1)]));
  return { [places.view]: async () => world(), [clickKeys.view]: async () => keys() };
};
