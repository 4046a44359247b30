// What a source needs at run time, as its text says: imports, other files that it names, and
// whether it starts apps of the product.
import { walk } from "../house/sources.mjs";

/** Sources that start processes and read pages. */
export const isOfTests = (file) => /^(tests|tools|bench|scripts)\//.test(file);

const PATH = /^(?:\.{0,2}\/)?[\w@.-]+(?:\/[\w@.-]+)*\/?$/;
/** "// Reaches docs/: its pages name ..." says what no rule finds. */
const REACHES = /^\/\/ Reaches ([\w@./-]+?)[.:]?(?= |$)/gm;
const SEPARATORS = /[\s"'`=,()]+/;
/** A word of a sentence is no folder. */
const isPath = (word) => /[/.]/.test(word);
const INNER_IMPORT = { "#failpoint": ["stream/failpoint.ts", "stream/failpoint.armed.ts"] };

const textOf = (node) => (node?.type === "Literal" && typeof node.value === "string" ? node.value : undefined);
const nameOf = (callee) => (callee?.type === "Identifier" ? callee.name : callee?.property?.name);
const isErased = ({ importKind, exportKind }) => importKind === "type" || exportKind === "type";
/** Where `new URL(path, import.meta.url)` and `join(import.meta.dirname, path)` begin. */
const isHere = (node) => node?.type === "MemberExpression" && node.object?.type === "MetaProperty";

/** Stands for an expression between texts. */
const GAP = "\0";
/** join(folder, "a", "b.ts") as "a/b.ts"; "a/" where something follows that is no literal. */
const joinedPaths = (args) =>
  args
    .map((arg) => textOf(arg) ?? GAP)
    .join("/")
    .split(GAP)
    .map((path) => path.replace(/^\//, ""));

/** A template as paths: each piece, one that an expression cuts short as the folder before it. */
const templatePaths = ({ quasis }) =>
  quasis
    .map(({ value }) => value.cooked ?? "")
    .join(GAP)
    .split(SEPARATORS)
    .flatMap((word) =>
      word.split(GAP).map((piece, n, { length }) => {
        const path = n > 0 ? piece.replace(/^\//, "") : piece;
        return n < length - 1 ? path.slice(0, path.lastIndexOf("/") + 1) : path;
      }),
    );

/** `new URL("../../", import.meta.url)` is the root; what follows it is computed elsewhere. */
const isRoot = (path) => {
  const begin = path.type === "TemplateLiteral" ? path.quasis[0].value.cooked : textOf(path);
  return /^(\.\.\/)+$/.test(begin ?? "");
};

/** What each kind of node adds to `said`. */
const visits = {
  ImportDeclaration: (node, said) => {
    const from = textOf(node.source);
    if (from === undefined) return;
    said.used.add(node.source);
    if (/^node:(fs|child_process|worker_threads)/.test(from)) said.readsFiles = true;
    if (isErased(node)) return;
    for (const path of INNER_IMPORT[from] ?? []) said.paths.add(path);
    if (from.startsWith(".")) said.imports.add(from);
    if (from.endsWith("/installation/product.ts")) said.startsApps = true;
  },
  ImportExpression: (node, said) => {
    const from = textOf(node.source);
    if (from === undefined) said.importsLater = true;
    else if (from.startsWith(".")) {
      said.used.add(node.source);
      said.imports.add(from);
    }
  },
  TSImportType: (node, said) => void said.used.add(node.source),
  CallExpression: (node, said) => {
    const { callee, arguments: args } = node;
    const name = nameOf(callee);
    if (/^(join|resolve|at)$/.test(name) && callee.type === "Identifier") {
      for (const arg of args) if (textOf(arg) !== undefined) said.used.add(arg);
      for (const path of joinedPaths(args)) said.path(path);
    }
    if (/^(mock|doMock|importActual)$/.test(name) && textOf(args[0])?.startsWith("."))
      said.imports.add(textOf(args[0]));
    if (!said.isOfTests) return;
    if (name === "URL" && isHere(args[1]) && isRoot(args[0])) said.unknown.add("computes paths of the repository");
    if (textOf(args[0]) === "git" && said.mayAskGit) said.unknown.add("asks git");
    if (name === "startProduct") said.startsApps = true;
  },
  TemplateLiteral: (node, said) => {
    if (said.isOfTests || said.file.startsWith("infra/"))
      for (const path of templatePaths(node)) if (isPath(path)) said.path(path);
  },
  Literal: (node, said, parent) => {
    const whole = textOf(node);
    if (whole === undefined || said.used.has(node) || parent?.type === "TSLiteralType") return;
    if (said.isOfTests && whole.endsWith("typescript/bin/tsc")) said.unknown.add("compiles");
    const words = said.isOfTests ? whole.split(SEPARATORS) : [whole];
    for (const word of words) if (word === whole || isPath(word)) said.path(word);
  },
};
visits.ExportNamedDeclaration = visits.ExportAllDeclaration = visits.ImportDeclaration;
visits.NewExpression = visits.CallExpression;

/**
 * `imports` and `paths` as they are written; `unknown` says why it cannot be known what the file
 * reads; `importsLater` that it imports a path that it computes; `startsApps` that it may start any
 * app of the product.
 */
export const mentionsOf = (file, text) => {
  const said = {
    ...{ file, isOfTests: isOfTests(file), mayAskGit: /^(tests|scripts)\//.test(file) },
    ...{ imports: new Set(), paths: new Set(), unknown: new Set(), used: new Set() },
    ...{ readsFiles: false, importsLater: false, startsApps: false },
    path: (path) => {
      if (PATH.test(path)) said.paths.add(path);
    },
  };
  for (const [, path] of text.matchAll(REACHES)) said.path(path);
  // A program in a string imports too.
  if (said.isOfTests)
    for (const [specifier, targets] of Object.entries(INNER_IMPORT))
      if (text.includes(specifier)) for (const target of targets) said.paths.add(target);
  walk(new Map([[file, text]]), file, (node, parent) => visits[node.type]?.(node, said, parent));
  const { imports, paths, unknown, readsFiles, importsLater, startsApps } = said;
  return { imports: [...imports], paths: [...paths], unknown: [...unknown], readsFiles, importsLater, startsApps };
};
