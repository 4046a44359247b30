// What a path in a source may mean: files and folders of the repository.
import { dirname, posix } from "node:path";

/** Sources that start processes and read pages. */
export const isOfTests = (file) => /^(tests|tools|bench|scripts)\//.test(file);

function* foldersAbove(file) {
  for (let folder = dirname(file); folder !== "."; folder = dirname(folder)) yield folder;
}

/** A compiled file stands for its source. */
const sourcesOf = (path) => {
  if (!path.startsWith("dist/")) return [path, path.replace(/\.js$/, ".ts")];
  if (path.startsWith("dist/pixel")) return ["browser/", "scripts/pixel.mjs"];
  return [path.slice("dist/".length).replace(/\.js$/, ".ts")];
};

/** `meant(file, path, readsFiles)`: places of the tree; `filesIn(place)`: the files of one. */
export const placesIn = (tree) => {
  const files = [...tree.keys()];
  const folders = new Set(files.flatMap((file) => [...foldersAbove(file)]));
  const isFolderFor = (file, place, readsFiles) => {
    if (!folders.has(place.replace(/\/$/, "")) || place.replace(/\/$/, "") === dirname(file)) return false;
    const isLong = place.includes("/");
    return isOfTests(file) ? readsFiles || isLong : readsFiles && isLong;
  };
  return {
    meant: (file, path, readsFiles) => {
      const isRelative = /^\.\.?\//.test(path);
      const fromRoot = isRelative ? [] : [path.replace(/^\//, "")];
      const fromHere = isRelative || /\.\w+$/.test(path) ? [posix.join(dirname(file), path)] : [];
      return [...fromRoot, ...fromHere]
        .flatMap(sourcesOf)
        .filter((place) => tree.has(place) || isFolderFor(file, place, readsFiles));
    },
    filesIn: (place) =>
      tree.has(place) ? [place] : files.filter((file) => file.startsWith(place.replace(/\/?$/, "/"))),
  };
};
