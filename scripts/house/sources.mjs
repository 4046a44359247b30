// Reads the files of the working tree or of a commit, and their syntax trees.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, posix } from "node:path";
import { parseSync } from "oxc-parser";

const MOST_BYTES = 2 ** 30;
const git = (args, input) => execFileSync("git", args, { input, maxBuffer: MOST_BYTES });
const listed = (args) =>
  git(args)
    .toString()
    .split("\0")
    .filter((file) => /\.(ts|md|yaml)$/.test(file));

/** The text of each TypeScript file and page of the working tree, by path. */
export const workingTree = () =>
  new Map(
    listed(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
      .filter((file) => existsSync(file))
      .map((file) => [file, readFileSync(file, "utf8")]),
  );

/** The same for a commit, read from git's objects. */
export const treeOf = (commit) => {
  const files = listed(["ls-tree", "-r", "-z", "--name-only", commit]);
  const answer = git(["cat-file", "--batch"], files.map((file) => `${commit}:${file}\n`).join(""));
  const tree = new Map();
  let at = 0;
  for (const file of files) {
    const end = answer.indexOf(10, at);
    const size = Number(answer.toString("latin1", at, end).split(" ").at(-1));
    tree.set(file, answer.toString("utf8", end + 1, end + 1 + size));
    at = end + size + 2;
  }
  return tree;
};

const PRODUCT =
  /^((schemas|stream|infra|domain|processors|edges|sinks|modules|apps|tools|browser)\/.+|topics|edges|topology)\.ts$/;
/** What is shipped or started: no tests, benches and scripts. */
export const productFiles = (tree) => [...tree.keys()].filter((file) => PRODUCT.test(file));

const parsed = new Map();
/** The syntax tree of a text. Throws on a syntax error. */
const programOf = (file, text) => {
  const known = parsed.get(file);
  if (known?.text === text) return known.program;
  const { program, errors } = parseSync(file, text);
  if (errors.length > 0) throw new Error(`${file}: ${errors[0].message}`);
  parsed.set(file, { text, program });
  return program;
};

/** Calls `visit(node, parent)` on each node of a file, outer ones first. */
export const walk = (tree, file, visit) => {
  const enter = (node, parent) => {
    if (node === null || typeof node !== "object") return;
    if (Array.isArray(node)) {
      for (const one of node) enter(one, parent);
      return;
    }
    if (typeof node.type !== "string") return;
    visit(node, parent);
    for (const [key, child] of Object.entries(node)) if (key !== "type") enter(child, node);
  };
  enter(programOf(file, tree.get(file)), null);
};

export const lineCount = (text) => (text.match(/\n/g) ?? []).length + (text === "" || text.endsWith("\n") ? 0 : 1);
/** The number of lines that a node covers. */
export const linesOf = (tree, file, { start, end }) => lineCount(tree.get(file).slice(start, end));

const isTypeOnly = ({ type, importKind, exportKind }) =>
  type === "TSImportType" || importKind === "type" || exportKind === "type";
/**
 * The relative imports of a file whose target exists: static ones, and `import("./x.ts")` in a
 * type.
 */
export const importsOf = (tree, file) => {
  const found = [];
  walk(tree, file, (node) => {
    if (!/^(ImportDeclaration|Export(Named|All)Declaration|TSImportType)$/.test(node.type)) return;
    const source = node.source?.value;
    if (typeof source !== "string" || !source.startsWith(".")) return;
    const target = posix.join(dirname(file), source);
    if (tree.has(target)) found.push({ target, isType: isTypeOnly(node) });
  });
  return found;
};
