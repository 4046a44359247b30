// Which version of a server wrote the data of a folder: an older one cannot read them, and may
// damage them.
import { existsSync } from "node:fs";
import { type Home, readJson, writeJson } from "../home.ts";
import type { Place, Service } from "../service.ts";
import type { Layout } from "../stack-layout.ts";

type Versions = Readonly<Record<string, string>>;
const fileOf = (home: Home): string => home.path("versions.json");
const numbersOf = (version: string): readonly number[] => version.split(/\D+/).map(Number);

/** Data of a patch release are those of its release. */
const isNewer = (one: string, other: string): boolean => {
  const [major = 0, minor = 0] = numbersOf(one);
  const [otherMajor = 0, otherMinor = 0] = numbersOf(other);
  return major > otherMajor || (major === otherMajor && minor > otherMinor);
};

const versionsOf = (own: readonly Service[], place: Place): Versions =>
  Object.fromEntries(
    own.flatMap(({ name, version }) => {
      const known = version?.(place);
      return known === undefined ? [] : [[name, known]];
    }),
  );

/** Call it when the servers are ready: their data are of these versions from now on. */
export const keepVersions = ({ own, place }: Pick<Layout, "own" | "place">): void => {
  const before = readJson<Versions>(fileOf(place.home)) ?? {};
  writeJson(fileOf(place.home), { ...before, ...versionsOf(own, place) });
};

export const newerData = ({ own, place }: Pick<Layout, "own" | "place">): readonly string[] => {
  const before = readJson<Versions>(fileOf(place.home)) ?? {};
  return Object.entries(versionsOf(own, place)).flatMap(([name, version]) => {
    const wrote = before[name];
    const folder = place.home.path(name);
    if (wrote === undefined || !existsSync(folder) || !isNewer(wrote, version)) return [];
    const cure = "go back to the release that wrote them, or move that folder away to start afresh";
    return [`The data in ${folder} were written by ${name} ${wrote}, and this is ${version}; ${cure}.`];
  });
};
