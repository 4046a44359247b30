// All measures of the house. Each has a value, an aim, and the names behind its value.
import { longFunctions, routeHandlers } from "./functions.mjs";
import { areaArrows, areasOf, arrowsUp, circlesIn, loadedBy } from "./imports.mjs";
import { walkedByPurchase } from "./purchase.mjs";
import { filesOfRecipe } from "./recipes.mjs";
import { decidedByTwoModules, decidedTwice } from "./refusals.mjs";
import { lineCount, productFiles } from "./sources.mjs";
import { isLong } from "./subjects.mjs";
import { bareFiles, bareTypes } from "./words.mjs";

const NONE = { text: "0", holds: (value) => value === 0 };
const atMost = (most) => ({ text: `at most ${most}`, holds: (value) => value <= most });
const under = (limit) => ({ text: `under ${limit.toLocaleString("en")}`, holds: (value) => value < limit });
const fewer = { text: "fewer", holds: () => true };

/** A measure that cannot be taken has the value null; `why` gives the reason. */
const absent = (name, aim, why) => ({ name, aim, value: null, why, items: [] });
const counted = (name, aim, items) => ({ name, aim, value: items.length, items });

const codeLine = ({ code, places }) => `${code}: ${places.join(", ")}`;
const lengthLine = ({ file, name, lines }) => `${lines} ${file} ${name}`;

const ofRefusals = (tree, files) => [
  counted("refusal codes decided in apps/api and in modules", NONE, decidedTwice(tree, files).map(codeLine)),
  counted("refusal codes decided in two files of modules", fewer, decidedByTwoModules(tree, files).map(codeLine)),
];

const ofDoors = (tree, files) => {
  const handlers = routeHandlers(
    tree,
    files.filter((file) => file.startsWith("apps/api/routes/")),
  );
  const long = handlers.filter(({ lines }) => lines > 15).map(lengthLine);
  const api = [...tree.keys()].filter((file) => file.startsWith("apps/api/"));
  const lines = api.reduce((sum, file) => sum + lineCount(tree.get(file)), 0);
  return [
    { name: "longest route handler, lines", aim: atMost(15), value: handlers[0]?.lines ?? 0, items: long },
    { name: "lines of apps/api", aim: under(7_000), value: lines, items: [] },
  ];
};

const ofAreas = (tree, files) => {
  const areas = areasOf(files);
  const arrows = areaArrows(tree, files);
  const [name, up] = ["pairs of areas that import upwards", arrowsUp(arrows, areas)];
  return [
    counted("siblings of modules", atMost(9), areas),
    counted("pairs of areas of which one imports the other", fewer, arrows),
    up === null ? absent(name, NONE, "the areas have no order") : counted(name, NONE, up),
  ];
};

const ofWords = (tree, files) => [
  counted(
    "types named by a participle or preposition",
    NONE,
    bareTypes(tree, files).map(({ file, name }) => `${name} ${file}`),
  ),
  counted("files named by a participle or preposition", NONE, bareFiles(files)),
];

const ofSizes = (tree, files) => [
  counted("functions above 50 lines", under(60), longFunctions(tree, files, 50).map(lengthLine)),
  counted("functions above 100 lines", fewer, longFunctions(tree, files, 100).map(lengthLine)),
  counted(
    "files above 300 lines",
    NONE,
    files
      .filter((file) => !file.includes("generated"))
      .map((file) => [lineCount(tree.get(file)), file])
      .filter(([lines]) => lines > 300)
      .sort(([a], [b]) => b - a)
      .map(([lines, file]) => `${lines} ${file}`),
  ),
];

const ofCommits = (subjects) => {
  const name = "commit subjects above 72 columns";
  if (subjects === null) return absent(name, NONE, "the first commit of the rule is not in this clone");
  const long = subjects.filter(({ subject }) => isLong(subject));
  return counted(
    name,
    NONE,
    long.map(({ hash, subject }) => `${hash} ${subject}`),
  );
};

const ofRecipe = (tree, name, title, most) => {
  const files = filesOfRecipe(tree.get("CONTRIBUTING.md") ?? "", title);
  return files === null ? absent(name, atMost(most), "no such recipe") : counted(name, atMost(most), files);
};

/** The pipeline, and the code that drives it in memory. */
const IN_MEMORY = ["topology.ts", "stream/testing/drive.ts"];

const ofPurchase = (tree) => {
  const name = "files that a credited purchase walks in memory";
  const walked = walkedByPurchase(tree);
  return walked instanceof Error ? absent(name, under(85), walked.message) : counted(name, under(85), walked);
};

/**
 * All measures of a tree of files. `subjects` are the subjects of its commits, or null if they are
 * unknown.
 */
export const measuresOf = (tree, subjects) => {
  const files = productFiles(tree);
  return [
    ...ofRefusals(tree, files),
    ...ofDoors(tree, files),
    ...ofAreas(tree, files),
    counted(
      "circles of files",
      NONE,
      circlesIn(tree, files).map((circle) => circle.join(" ")),
    ),
    ...ofWords(tree, files),
    ...ofSizes(tree, files),
    ofCommits(subjects),
    counted("files that apps/links loads at its start", under(80), loadedBy(tree, ["apps/links/main.ts"])),
    ofPurchase(tree),
    counted(`files that ${IN_MEMORY.join(" and ")} load`, fewer, loadedBy(tree, IN_MEMORY)),
    ofRecipe(tree, "files that a stored event property touches", "A stored event property", 4),
    ofRecipe(tree, "files that a sink touches", "A sink", 4),
    ofRecipe(tree, "files that a route touches, its row among them", "A route of the platform API", 4),
  ];
};
