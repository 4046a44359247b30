// Measures imports: circles of files, the files that a start loads, and arrows between areas.
import { importsOf } from "./sources.mjs";

/**
 * Tarjan's algorithm over `targetsOf(file)`. Returns the groups of two or more files in which every
 * file reaches every other one.
 */
export const circlesOf = (files, targetsOf) => {
  const places = new Map();
  const open = [];
  const circles = [];
  const visit = (file) => {
    const place = { index: places.size, low: places.size };
    places.set(file, place);
    open.push(file);
    for (const target of targetsOf(file)) {
      const other = places.get(target);
      if (other === undefined) place.low = Math.min(place.low, visit(target).low);
      else if (open.includes(target)) place.low = Math.min(place.low, other.index);
    }
    if (place.low === place.index) circles.push(open.splice(open.indexOf(file)));
    return place;
  };
  for (const file of files) if (!places.has(file)) visit(file);
  return circles
    .filter(({ length }) => length > 1)
    .map((circle) => circle.sort())
    .sort();
};

/** Circles of static imports, including imports of types. */
export const circlesIn = (tree, files) => circlesOf(files, (file) => importsOf(tree, file).map(({ target }) => target));

/**
 * The files that are loaded before the first line of `roots` runs: static imports of values and
 * everything that they import. Imports of types are erased, and `await import()` comes later.
 */
export const loadedBy = (tree, roots) => {
  const loaded = new Set(roots.filter((file) => tree.has(file)));
  for (const file of loaded) for (const { target, isType } of importsOf(tree, file)) if (!isType) loaded.add(target);
  return [...loaded].sort();
};

/** Areas of modules/, lowest first: each imports those before it. */
export const AREAS = ["base", "log", "figures", "access", "catalog", "intake", "privacy", "money", "running"];

const areaOf = (file) => /^modules\/([^/]+)\//.exec(file)?.[1];
export const areasOf = (files) => [...new Set(files.map(areaOf))].filter((area) => area !== undefined).sort();

/**
 * `from > to` for each pair of areas of which one imports the other, including imports of types.
 */
export const areaArrows = (tree, files) => {
  const arrows = new Set();
  for (const file of files) {
    const from = areaOf(file);
    if (from === undefined) continue;
    for (const { target } of importsOf(tree, file)) {
      const to = areaOf(target);
      if (to !== undefined && to !== from) arrows.add(`${from} > ${to}`);
    }
  }
  return [...arrows].sort();
};

/** The arrows that lead to a later area. Null if the tree has other areas than ours. */
export const arrowsUp = (arrows, areas) => {
  if (areas.some((area) => !AREAS.includes(area))) return null;
  return arrows.filter((arrow) => {
    const [from, to] = arrow.split(" > ").map((area) => AREAS.indexOf(area));
    return to > from;
  });
};
