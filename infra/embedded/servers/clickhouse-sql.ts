// Rewrites statements that a ClickHouse server takes over HTTP for an engine that takes only text:
// parameters and settings go into the statement.

/** The kind of a statement, by its first word; the front has a lane for each. */
export type StatementKind = "read" | "insert" | "change" | "session";

const LITERAL_OR_COMMENT = /'(?:[^'\\]|\\.|'')*'|`(?:[^`\\]|\\.)*`|"(?:[^"\\]|\\.)*"|--[^\n]*|\/\*[\s\S]*?\*\//.source;
const PLACEHOLDER = /\{\s*([A-Za-z_]\w*)\s*:\s*([^{}'"]+?(?:'[^{}]*')?[^{}]*?)\s*\}/.source;
const LEADING = /^(?:\s|--[^\n]*\n|\/\*[\s\S]*?\*\/|\()*/;
const INSERT_TARGET =
  /^INSERT\s+INTO\s+(?:TABLE\s+)?(?:FUNCTION\s+\w+\s*\([^()]*\)|[\w.`"]+)\s*(?:\((?:[^()]|\([^()]*\))*\))?/i;

// The statements whose grammar ends in SETTINGS; the others (functions, grants, SYSTEM) do not
// accept settings.
const READS_OR_CHANGES =
  /SELECT|WITH|FROM|VALUES|SHOW|DESC|DESCRIBE|EXPLAIN|EXISTS|ALTER\s+TABLE|DELETE|UPDATE|OPTIMIZE|TRUNCATE/.source;
const MOVES = /RENAME|EXCHANGE|CHECK|KILL|(?:CREATE|DROP|ATTACH|DETACH|REPLACE)\s+(?:OR\s+REPLACE\s+)?/.source;
const OBJECT = /(?:TEMPORARY\s+|MATERIALIZED\s+)?(?:TABLE|VIEW|DICTIONARY|DATABASE)/.source;
const TAKES_SETTINGS = new RegExp(`^(?:${READS_OR_CHANGES}|${MOVES}${OBJECT})\\b`, "i");

/** A value in single quotes, for the engine's own parser. */
export const quoted = (text: string): string =>
  `'${text.replace(/\\/g, "\\\\").replace(/'/g, "\\'").replace(/\0/g, "\\0")}'`;

export function kindOf(sql: string): StatementKind {
  const word = /^[a-z]+/i.exec(sql.replace(LEADING, ""))?.[0].toUpperCase() ?? "";
  if (word === "INSERT") return "insert";
  if (word === "SET" || word === "USE") return "session";
  return ["SELECT", "WITH", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "EXISTS", "VALUES", "FROM"].includes(word)
    ? "read"
    : "change";
}

// The engine's grants refuse files as tables, but it would still open these, because it counts as a
// tool of its user and not as a server.
const FILE_CLAUSE = /\b(?:IN|OUT)FILE\b/i;
const FILE_FUNCTION = /(?<!\w)file(?!\w)[^\w.,;)'=<>+*]*(?:\(|\/\*|--|#)/i;
const ESCAPED_NAME = /[`"][^`"'\\]*\\/;
const IDENTIFIER = /\{\s*(\w+)\s*:\s*Identifier\s*\}/g;

/**
 * True for a statement, before its parameters, that may read or write a file of this machine. It
 * checks the plain text, including literals and comments: refusing too much is the safe side.
 */
export const namesFile = (sql: string, parameters: ReadonlyMap<string, string>): boolean =>
  FILE_CLAUSE.test(sql) ||
  FILE_FUNCTION.test(sql) ||
  ESCAPED_NAME.test(sql) ||
  [...sql.matchAll(IDENTIFIER)].some(([, name]) => /^file$/i.test(parameters.get(name!)?.trim() ?? ""));

/**
 * True for several statements in one text, which a server refuses over HTTP. The text after the
 * FORMAT of an insert is rows.
 */
export const isMany = (sql: string): boolean => {
  const bare = sql.replace(new RegExp(LITERAL_OR_COMMENT, "g"), " ");
  return /;\s*\S/.test(kindOf(sql) === "insert" ? bare.replace(/\bFORMAT\b.*$/is, "") : bare);
};

// A text parameter is sent as a field of tab-separated values: these are its escapes.
const ESCAPES: Readonly<Record<string, string>> = {
  t: "\t",
  n: "\n",
  r: "\r",
  b: "\b",
  f: "\f",
  "0": "\0",
  "\\": "\\",
  "'": "'",
};

/** True for one literal in brackets: it closes at its end, and none of its tokens is a name. */
function isLiteral(text: string): boolean {
  const bare = text.replace(/'(?:[^'\\]|\\.)*'/gs, "0").trim();
  if (!/^[[{(](?:[\s[\](){},:]|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|NULL|true|false)*$/i.test(bare)) return false;
  let depth = 0;
  return [...bare].every((letter, at) => {
    if ("[{(".includes(letter)) depth += 1;
    if ("]})".includes(letter)) depth -= 1;
    return depth > 0 || at === bare.length - 1;
  });
}

// A map cannot be cast from a text, and `{` in a statement begins a parameter, so a map is written
// as a call of map().
const asCalls = (literal: string): string =>
  literal.replace(/'(?:[^'\\]|\\.)*'|[{}:]/gs, (token) => ({ "{": "map(", "}": ")", ":": "," })[token] ?? token);

function literalOf(type: string, value: string): string {
  if (type === "Identifier") return `\`${value.replace(/\\/g, "\\\\").replace(/`/g, "\\`")}\``;
  if (value === "\\N") return `_CAST(NULL, ${quoted(type)})`;
  if (type.includes("Map(") && isLiteral(value)) return `_CAST(${asCalls(value)}, ${quoted(type)})`;
  const isText = /^(?:(?:Nullable|LowCardinality)\()*(?:String|FixedString\(\d+\))\)*$/.test(type.replace(/\s/g, ""));
  const meant = isText ? value.replace(/\\(.)/gs, (_, letter: string) => ESCAPES[letter] ?? letter) : value;
  return `_CAST(${quoted(meant)}, ${quoted(type)})`;
}

/**
 * Replaces each `{name:Type}` that has a value by a cast of a quoted text; texts, names and
 * comments are left alone. A parameter without a value stays, and the engine refuses it like a
 * server (code 456).
 */
export function withParameters(sql: string, values: ReadonlyMap<string, string>): string {
  if (values.size === 0) return sql;
  return sql.replace(
    new RegExp(`${LITERAL_OR_COMMENT}|${PLACEHOLDER}`, "g"),
    (found, name: string | undefined, type: string | undefined) => {
      const value = name === undefined ? undefined : values.get(name);
      return value === undefined ? found : literalOf(type!, value);
    },
  );
}

/** `SETTINGS a=1, b='x'`, or nothing. Names are checked, because they cannot be quoted. */
export function settingsClause(settings: ReadonlyMap<string, string>): string {
  const parts = [...settings].map(([name, value]) => {
    if (!/^\w+$/.test(name))
      throw new Error(`Code: 115. DB::Exception: Unknown setting ${quoted(name)}. (UNKNOWN_SETTING)`);
    return `${name}=${/^-?\d+(\.\d+)?$/.test(value) ? value : quoted(value)}`;
  });
  return parts.length === 0 ? "" : `SETTINGS ${parts.join(", ")}`;
}

/**
 * Adds the settings where the grammar wants them: at the end, after `FORMAT Null` for statements
 * that create (otherwise they would be settings of the table), or after the target of an insert. A
 * setting in the statement itself wins.
 */
export function withSettings(sql: string, settings: ReadonlyMap<string, string>): string {
  const text = sql.replace(/[\s;]+$/, "");
  const kind = kindOf(text);
  const clause = settingsClause(settings);
  const bare = text.replace(LEADING, "");
  if (clause === "" || (kind !== "insert" && !TAKES_SETTINGS.test(bare))) return text;
  if (kind !== "insert") return `${text}\n${/^(?:CREATE|ATTACH|REPLACE)\b/i.test(bare) ? "FORMAT Null " : ""}${clause}`;
  const start = LEADING.exec(text)![0].length;
  const target = INSERT_TARGET.exec(text.slice(start));
  if (target === null) return text;
  const end = start + target[0].length;
  const rest = text.slice(end).trimStart();
  return /^SETTINGS\b/i.test(rest)
    ? `${text.slice(0, end)} ${clause}, ${rest.slice("SETTINGS".length)}`
    : `${text.slice(0, end)} ${clause} ${rest}`;
}

/**
 * Target, columns and format of an insert whose rows come separately; undefined for an insert of
 * another form.
 */
export function insertTarget(
  sql: string,
): { readonly table: string; readonly columns?: readonly string[]; readonly format: string } | undefined {
  const match = /^\s*INSERT\s+INTO\s+(?:TABLE\s+)?([\w.`"]+)\s*(?:\(([\w\s,`"]*)\))?\s*FORMAT\s+(\w+)\s*;?\s*$/i.exec(
    sql,
  );
  if (match === null) return undefined;
  const bare = (name: string) => name.replace(/[`"\s]/g, "");
  const columns = match[2]?.split(",").map(bare);
  return { table: bare(match[1]!), ...(columns && { columns }), format: match[3]! };
}
