// Where refusal codes are decided. A file decides a code if it writes the code as a literal
// - into a property or a constant named `code`,
// - into a call that makes a refusal, e.g. conflict("month_approved", ...), or
// - as what a function answers.
// It does not decide a code that it compares, lists or types: contracts name the codes of a route.
import { walk } from "./sources.mjs";

/**
 * Functions that make a refusal. `refuse(field, sentence)` of users and recordings takes no code.
 */
const MAKERS = new Set(["conflict", "refusal", "refused", "fault", "invalid", "forbidden", "RefusalError", "BadFile"]);
/**
 * The code of a rule has two or more words. A single word is a kind of problem, e.g. "conflict".
 */
const CODE = /^[a-z]+(_[a-z0-9]+)+$/;

/** The codes that an expression may evaluate to: a literal, or either side of a condition. */
const codesIn = (node) => {
  switch (node?.type) {
    case "Literal":
      return typeof node.value === "string" && CODE.test(node.value) ? [node.value] : [];
    case "ConditionalExpression":
      return [...codesIn(node.consequent), ...codesIn(node.alternate)];
    case "LogicalExpression":
      return [...codesIn(node.left), ...codesIn(node.right)];
    case "TSAsExpression":
    case "ParenthesizedExpression":
      return codesIn(node.expression);
    default:
      return [];
  }
};

const codesOf = (node) => {
  switch (node.type) {
    case "Property":
      return node.key.name === "code" ? codesIn(node.value) : [];
    case "VariableDeclarator":
      return node.id.name === "code" ? codesIn(node.init) : [];
    case "CallExpression":
    case "NewExpression":
      return MAKERS.has(node.callee.name) ? node.arguments.flatMap(codesIn) : [];
    case "ReturnStatement":
      return codesIn(node.argument);
    case "ArrowFunctionExpression":
      return codesIn(node.body);
    default:
      return [];
  }
};

/** The files that decide each code. */
export const decisionsOf = (tree, files) => {
  const decisions = new Map();
  for (const file of files)
    walk(tree, file, (node) => {
      for (const code of codesOf(node)) decisions.set(code, (decisions.get(code) ?? new Set()).add(file));
    });
  return decisions;
};

const isDoor = (file) => file.startsWith("apps/api/") && !/^apps\/api\/(contract|generate)\//.test(file);
const isModule = (file) => file.startsWith("modules/");

/** Codes that are decided both in apps/api and in modules. */
export const decidedTwice = (tree, files) =>
  [
    ...decisionsOf(
      tree,
      files.filter((file) => isDoor(file) || isModule(file)),
    ),
  ]
    .map(([code, places]) => ({ code, places: [...places].sort() }))
    .filter(({ places }) => places.some(isDoor) && places.some(isModule));

/** Codes that are decided in two files of modules. */
export const decidedByTwoModules = (tree, files) =>
  [...decisionsOf(tree, files.filter(isModule))]
    .map(([code, places]) => ({ code, places: [...places].sort() }))
    .filter(({ places }) => places.length > 1);
