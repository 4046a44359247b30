// The look-up data of stages, from files, secrets and Redis. Each is read when a stage first needs
// it.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Redis } from "ioredis";
import { clickIdKey } from "../../../domain/click-id.ts";
import type { HintRoom } from "../../../infra/redis/room.ts";
import type { Environment } from "../../../infra/runtime/environment.ts";
import type { Log } from "../../../infra/runtime/log.ts";
import { clickKeys, clickKeysOf, identityClicks } from "../../../processors/attribute/facts.ts";
import { identityKeys, identityKeysOf } from "../../../processors/enrich/facts.ts";
import { type Networks, networksOf } from "../../../processors/enrich/networks.ts";
import { type Places, places, placesOf } from "../../../processors/enrich/places.ts";
import { hints } from "../../../processors/score/facts.ts";
import type { Source } from "../reference/reference.ts";
import { redisHints, redisIdentityClicks } from "./hints.ts";

const SHIPPED = "@ip-location-db/geo-whois-asn-country-mmdb/geo-whois-asn-country.mmdb";
const DAY_MS = 86_400_000;
/** Address blocks change owners, so older data of networks causes a warning. */
const OLD_AFTER_DAYS = 60;

type Files = Environment<"GEOIP_CITY_DB" | "GEOIP_ASN_DB" | "NETWORKS_FILE">;
type Settings = Files & Environment<"TRIBUTARY_SECRET" | "KAFKA_TOPIC_PREFIX">;
type Report = Pick<Log, "info" | "warn">;

/** Computes the value at the first call. */
const once = <T>(make: () => T): (() => T) => {
  let made: { readonly value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
};

/**
 * A file that is not configured is logged once and its data is unknown; an unreadable file causes a
 * warning, and its data is unknown too.
 */
const optionalFile = <T>(
  variable: keyof Files,
  config: Files,
  log: Report,
  off: string,
  read: (bytes: Buffer) => T,
): T | null => {
  const file = config[variable];
  if (file === undefined) {
    log.info("enrichment.off", { off, needs: variable });
    return null;
  }
  try {
    return read(readFileSync(file));
  } catch (error) {
    log.warn("enrichment.unavailable", { off, variable, file, error });
    return null;
  }
};

const readNetworks = (bytes: Buffer, file: string, log: Report): Networks => {
  const { networks, problems } = networksOf(bytes.toString());
  const [first] = problems;
  if (first !== undefined)
    log.warn("networks.lines_left_out", { file, lines: problems.length, first: `line ${first.line}: ${first.text}` });
  return networks;
};

/**
 * Fails here for a file that is not a database, where it can be left out, and not at the first
 * event.
 */
const checked = (bytes: Buffer): Buffer => {
  placesOf(bytes);
  return bytes;
};

/**
 * Without country data events are processed and marked `geo_unavailable`. `now` is only used to
 * tell whether the data is old.
 */
export const readPlaces = (config: Files, log: Report, now: number): Places => {
  let country: Buffer | null = null;
  try {
    country = readFileSync(createRequire(import.meta.url).resolve(SHIPPED));
  } catch (error) {
    log.warn("enrichment.unavailable", { off: "country", file: SHIPPED, error });
  }
  const city = optionalFile("GEOIP_CITY_DB", config, log, "city and region", checked);
  const found = placesOf(country, {
    city,
    asn: optionalFile("GEOIP_ASN_DB", config, log, "asn", checked),
    networks: optionalFile("NETWORKS_FILE", config, log, "asn_class and the fraud rule address_class", (bytes) =>
      readNetworks(bytes, config.NETWORKS_FILE!, log),
    ),
  });
  if (city !== null && found.built !== null && now - Date.parse(found.built) > OLD_AFTER_DAYS * DAY_MS)
    log.warn("enrichment.old", { file: config.GEOIP_CITY_DB, built: found.built });
  return found;
};

/** Separates the hints of environments that share a Redis. */
export const hintPrefixOf = ({ KAFKA_TOPIC_PREFIX }: Pick<Settings, "KAFKA_TOPIC_PREFIX">): string =>
  `${KAFKA_TOPIC_PREFIX}tributary`;

/** The prefixes of all keys of hints; no other key has them. */
export const hintKeysOf = (config: Pick<Settings, "KAFKA_TOPIC_PREFIX">): readonly string[] =>
  ["velocity", "hint", "identity-click"].map((name) => `${hintPrefixOf(config)}:${name}:`);

/**
 * Views by name, beside the view of the reference data. No identifier is hashed before `confirmed`
 * resolves, because the pepper must be the installation's.
 */
export const viewsOf = (
  config: Settings,
  { redis, room }: { readonly redis: Redis; readonly room: HintRoom },
  confirmed: Promise<void>,
  log: Report,
): Readonly<Record<string, Source>> => {
  const world = once(() => readPlaces(config, log, Date.now()));
  const keys = once(() => clickKeysOf(config.TRIBUTARY_SECRET.accepted.map((secret) => clickIdKey(secret, 1))));
  const identity = once(() => identityKeysOf(config.TRIBUTARY_SECRET.pepper));
  const counted = redisHints(redis, hintPrefixOf(config), room);
  const linked = redisIdentityClicks(redis, hintPrefixOf(config), room);
  return {
    [places.view]: async () => world(),
    [clickKeys.view]: async () => keys(),
    [identityKeys.view]: async () => {
      await confirmed;
      return identity();
    },
    [hints.view]: async () => counted,
    [identityClicks.view]: async () => linked,
  };
};
