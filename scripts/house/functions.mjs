// Measures the length of functions and of handlers of routes.
import { linesOf, walk } from "./sources.mjs";

const FUNCTION = /^(FunctionDeclaration|FunctionExpression|ArrowFunctionExpression)$/;
const nameOf = (node, parent) => node.id?.name ?? parent?.id?.name ?? parent?.key?.name ?? "(no name)";

/**
 * Functions with more than `most` lines, longest first. A nested function counts on its own and in
 * the outer one.
 */
export const longFunctions = (tree, files, most) => {
  const long = [];
  for (const file of files)
    walk(tree, file, (node, parent) => {
      if (!FUNCTION.test(node.type)) return;
      const lines = linesOf(tree, file, node);
      if (lines > most) long.push({ file, name: nameOf(node, parent), lines });
    });
  return long.sort((a, b) => b.lines - a.lines);
};

/** Functions and constants of a file by name, at any depth. */
const declarationsOf = (tree, file) => {
  const declared = new Map();
  walk(tree, file, (node) => {
    if (node.type === "FunctionDeclaration") declared.set(node.id.name, node);
    if (node.type === "VariableDeclarator" && FUNCTION.test(node.init?.type)) declared.set(node.id.name, node.init);
  });
  return declared;
};

/**
 * The functions that `route(contract, handler)` is called with, longest first. A handler that is
 * given by name is looked up in the same file.
 */
export const routeHandlers = (tree, files) => {
  const handlers = [];
  for (const file of files) {
    const declared = declarationsOf(tree, file);
    walk(tree, file, (node) => {
      if (node.type !== "CallExpression" || node.callee.name !== "route") return;
      const [contract, ...rest] = node.arguments;
      for (const argument of rest) {
        const handler = declared.get(argument.name) ?? argument;
        if (!FUNCTION.test(handler.type)) continue;
        const name = contract.property?.name ?? contract.name ?? "(no name)";
        handlers.push({ file, name, lines: linesOf(tree, file, handler) });
      }
    });
  }
  return handlers.sort((a, b) => b.lines - a.lines);
};
