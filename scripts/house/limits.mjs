// The number of names from before a rule, which may only fall. The list is a file of lines such as
// `type Asked 15` and `file way 1`.
import { basename } from "node:path";
import { bareFiles, bareTypes } from "./words.mjs";

/**
 * The places of each `type <name>` and `file <name>`. A file is identified by its base name, so it
 * may be moved.
 */
export const placesOf = (tree, files) => {
  const places = new Map();
  const add = (key, place) => places.set(key, [...(places.get(key) ?? []), place]);
  for (const { file, name } of bareTypes(tree, files)) add(`type ${name}`, file);
  for (const file of bareFiles(files)) add(`file ${basename(file, ".ts")}`, file);
  return places;
};

/**
 * Parses the list. Other lines, e.g. marks of a merge conflict, are ignored. If a name has two
 * lines, the lower number counts.
 */
export const limitsIn = (text) => {
  const limits = new Map();
  for (const [, key, most] of text.matchAll(/^((?:type|file) \S+) (\d+)$/gm))
    limits.set(key, Math.min(limits.get(key) ?? Number.POSITIVE_INFINITY, Number(most)));
  return limits;
};

/** Names that occur more often than their limit allows, with their places. */
export const tooMany = (limits, places) =>
  [...places]
    .filter(([key, { length }]) => length > (limits.get(key) ?? 0))
    .map(([key, files]) => `${key} ${files.length} of ${limits.get(key) ?? 0}: ${files.join(", ")}`);

/** Limits that are higher than necessary. */
export const tooHigh = (limits, places) =>
  [...limits]
    .map(([key, most]) => [key, most, places.get(key)?.length ?? 0])
    .filter(([, most, count]) => count < most)
    .map(([key, most, count]) => `${key} ${most}: there are ${count}`);

/** The list with each limit as low as possible. No limit is raised or added. */
export const lowered = (limits, places) =>
  [...limits]
    .map(([key, most]) => [key, Math.min(most, places.get(key)?.length ?? 0)])
    .filter(([, most]) => most > 0)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, most]) => `${key} ${most}\n`)
    .join("");
