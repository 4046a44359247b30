// What a source needs at run time, as its text says: imports, other files that it names, and
// processes of the product that it starts.
import { walk } from "../house/sources.mjs";
import { isOfTests } from "./places.mjs";

const PATH = /^(?:\.{0,2}\/)?[\w@.-]+(?:\/[\w@.-]+)*\/?$/;
/** "// Reaches docs/: its pages name ..." says what no rule finds. */
const REACHES = /^\/\/ Reaches ([\w@./-]+?)[.:]?(?= |$)/gm;
const SEPARATORS = /[\s"'`=,()]+/;
/** A word of a sentence is no folder. */
const isPath = (word) => /[/.]/.test(word);
const INNER_IMPORT = { "#failpoint": ["stream/failpoint.ts", "stream/failpoint.armed.ts"] };

const textOf = (node) => (node?.type === "Literal" && typeof node.value === "string" ? node.value : undefined);
const nameOf = (callee) => (callee?.type === "Identifier" ? callee.name : callee?.property?.name);
const isChoice = (callee) => /^(filter|find)$/.test(nameOf(callee));
const isErased = ({ importKind, exportKind }) => importKind === "type" || exportKind === "type";
/** A property that is called so is not the variable. */
const isName = (node, parent) =>
  (parent?.type === "MemberExpression" && parent.property === node && !parent.computed) ||
  (parent?.type === "Property" && parent.key === node && !parent.shorthand);
/** Where `new URL(path, import.meta.url)` and `join(import.meta.dirname, path)` begin. */
const isHere = (node) => node?.type === "MemberExpression" && node.object?.type === "MetaProperty";

/** join(folder, "a", "b.ts") as "a/b.ts"; "a/" where something follows that is no literal. */
const joinedPaths = (args) => {
  const paths = [];
  let parts = [];
  for (const [n, arg] of args.entries()) {
    const text = textOf(arg);
    if (text !== undefined) parts.push(text);
    if (parts.length > 0 && (text === undefined || n === args.length - 1)) {
      paths.push(`${parts.join("/")}${text === undefined ? "/" : ""}`);
      parts = [];
    }
  }
  return paths;
};

/** A template as paths: each piece, one that an expression cuts short as the folder before it. */
const templatePaths = ({ quasis }) =>
  quasis.flatMap(({ value: { cooked } }, n) => {
    const text = cooked ?? "";
    const words = text.split(SEPARATORS);
    const last = words.length - 1;
    return words.map((word, at) => {
      const isCut = at === last && n < quasis.length - 1;
      const whole = n > 0 && at === 0 ? word.replace(/^\//, "") : word;
      return isCut ? whole.slice(0, whole.lastIndexOf("/") + 1) : whole;
    });
  });

/** A list of names that stands beside the call is read in its place. */
const withLists = (call, text) =>
  call.replaceAll(
    /\b[A-Z][A-Z_]+\b/g,
    (name) => new RegExp(`const ${name} = (\\[[^\\]]*\\]);`).exec(text)?.[1] ?? name,
  );
/** What apps.filter(({ name }) => name === "ingest") names; null means all of them. */
const appsIn = (call) => {
  const names = [...call.matchAll(/"([\w/.-]+)"/g)].map(([, name]) => name);
  return names.length === 0 || /!/.test(call) ? null : names;
};
const HELPER = /const (\w+) = \((\w+)(?:: string)?\) =>[^;]*?new URL\(`(?:\.\.\/)+\$\{\2\}`/;
/**
 * Whether `new URL(path, import.meta.url)` is not the root of the repository, or stands in a helper
 * `at(path)` of which every call has a literal.
 */
const isHelped = (path, text) => {
  const begin = path.type === "TemplateLiteral" ? path.quasis[0].value.cooked : textOf(path);
  if (!/^(\.\.\/)+$/.test(begin ?? "")) return true;
  const [, helper] = (path.type === "TemplateLiteral" && HELPER.exec(text)) || [];
  return helper !== undefined && !new RegExp(`\\b${helper}\\((?!\\s*["\`])`).test(text);
};
/** git ls-files <path> ...: then the paths say what is listed. */
const listsNamed = (args) => {
  const [first, ...rest] = (args?.elements ?? []).map(textOf);
  return (
    first === "ls-files" &&
    rest.length > 0 &&
    rest.every((path) => path !== undefined && /^\w/.test(path) && PATH.test(path))
  );
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
    if (from.endsWith("/installation/product.ts"))
      for (const { local, imported } of node.specifiers ?? [])
        if (/^apps/.test(imported?.name ?? "")) said.appLists.add(local.name);
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
    if (name === "URL" && isHere(args[1]) && !isHelped(args[0], said.text))
      said.unknown.add("computes paths of the repository");
    if (textOf(args[0]) === "git" && said.mayAskGit && !listsNamed(args[1])) said.unknown.add("asks git");
    const given = () => withLists(args.map(({ start, end }) => said.text.slice(start, end)).join(" "), said.text);
    if (said.appLists.has(callee.object?.name) && isChoice(callee)) said.start(appsIn(given()));
    if (name === "startProduct" && /^(undefined\b|$)/.test(given())) said.start(null);
    if (name === "armedApp" || name === "appsNamed") said.start(appsIn(given()));
  },
  Identifier: (node, said, parent) => {
    if (!said.isOfTests || !said.appLists.has(node.name) || /^Import/.test(parent?.type) || isName(node, parent))
      return;
    // What apps.filter(...) is given says which.
    if (parent?.object !== node || !isChoice(parent)) said.start(null);
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
 * `imports` and `paths` as they are written; `apps` are the names of those that it starts, "*" for
 * all of them; `unknown` says why it cannot be known what the file reads; `importsLater` that it
 * imports a path that it computes.
 */
export const mentionsOf = (file, text) => {
  const said = {
    ...{ file, text, isOfTests: isOfTests(file), mayAskGit: /^(tests|scripts)\//.test(file) },
    ...{ imports: new Set(), paths: new Set(), apps: new Set(), unknown: new Set() },
    ...{ used: new Set(), appLists: new Set(), readsFiles: false, importsLater: false },
    path: (path) => {
      if (PATH.test(path)) said.paths.add(path);
    },
    start: (names) => {
      for (const name of names ?? ["*"]) said.apps.add(name);
    },
  };
  for (const [, path] of text.matchAll(REACHES)) said.path(path);
  // A program in a string imports too.
  if (said.isOfTests)
    for (const [specifier, targets] of Object.entries(INNER_IMPORT))
      if (text.includes(specifier)) for (const target of targets) said.paths.add(target);
  walk(new Map([[file, text]]), file, (node, parent) => visits[node.type]?.(node, said, parent));
  const { imports, paths, apps, unknown, readsFiles, importsLater } = said;
  const lists = Object.entries({ imports, paths, apps, unknown }).map(([name, set]) => [name, [...set]]);
  return { ...Object.fromEntries(lists), readsFiles, importsLater };
};
