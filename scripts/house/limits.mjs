// Names that are left from before a rule, and how many of each: the numbers may only fall. The list
// is a file of lines `type Asked 15` and `file way 1`.
import { basename } from "node:path";
import { bareFiles, bareTypes } from "./words.mjs";

/** `type <name>` and `file <name>` to its places; a file counts by its name, so it may move. */
export const placesOf = (tree, files) => {
  const places = new Map();
  const add = (key, place) => places.set(key, [...(places.get(key) ?? []), place]);
  for (const { file, name } of bareTypes(tree, files)) add(`type ${name}`, file);
  for (const file of bareFiles(files)) add(`file ${basename(file, ".ts")}`, file);
  return places;
};

/** Other lines, e.g. marks of a conflict, say nothing; of two lines for a name the lower holds. */
export const limitsIn = (text) => {
  const limits = new Map();
  for (const [, key, most] of text.matchAll(/^((?:type|file) \S+) (\d+)$/gm))
    limits.set(key, Math.min(limits.get(key) ?? Number.POSITIVE_INFINITY, Number(most)));
  return limits;
};

/** Names that there are more of than their limit, with the places to look at. */
export const tooMany = (limits, places) =>
  [...places]
    .filter(([key, { length }]) => length > (limits.get(key) ?? 0))
    .map(([key, files]) => `${key} ${files.length} of ${limits.get(key) ?? 0}: ${files.join(", ")}`);

/** Limits that are higher than they need to be. */
export const tooHigh = (limits, places) =>
  [...limits]
    .map(([key, most]) => [key, most, places.get(key)?.length ?? 0])
    .filter(([, most, count]) => count < most)
    .map(([key, most, count]) => `${key} ${most}: there are ${count}`);

/** The list with each limit as low as it can be; none is raised and none is new. */
export const lowered = (limits, places) =>
  [...limits]
    .map(([key, most]) => [key, Math.min(most, places.get(key)?.length ?? 0)])
    .filter(([, most]) => most > 0)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, most]) => `${key} ${most}\n`)
    .join("");
