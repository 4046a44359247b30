// Writes JSON without the page's own JSON object: pages overwrite it, and old libraries add toJSON
// to every array.

const ESCAPED: Readonly<Record<string, string>> = { '"': '\\"', "\\": "\\\\" };
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what JSON escapes
const SPECIAL = /["\\\u0000-\u001f\u2028\u2029]|[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]/g;

/** NUL is removed and a lone surrogate becomes U+FFFD, because the server refuses both. */
const quoted = (text: string): string =>
  `"${text.replace(SPECIAL, (found) => {
    if (found.length === 2) return found;
    const code = found.charCodeAt(0);
    if (code >= 0xd800 && code <= 0xdfff) return "\ufffd";
    return code === 0 ? "" : (ESCAPED[found] ?? `\\u${`000${code.toString(16)}`.slice(-4)}`);
  })}"`;

/**
 * Writes texts, finite numbers, booleans, null, lists and plain objects; everything else is left
 * out.
 */
export const toJson = (value: unknown): string => {
  if (typeof value === "string") return quoted(value);
  if (typeof value === "boolean" || value === null) return `${value}`;
  if (typeof value === "number") return Number.isFinite(value) ? `${value}` : "null";
  const parts: string[] = [];
  if (Array.isArray(value)) {
    for (let n = 0; n < value.length; n += 1) parts.push(toJson(value[n]));
    return `[${parts.join(",")}]`;
  }
  if (typeof value !== "object") return "null";
  const held = value as Readonly<Record<string, unknown>>;
  for (const key of Object.keys(held)) {
    const one = held[key];
    if (one !== undefined && typeof one !== "function") parts.push(`${quoted(key)}:${toJson(one)}`);
  }
  return `{${parts.join(",")}}`;
};

/** An upper bound of the bytes in UTF-8: a surrogate pair counts 6 and has 4. */
export const bytesOf = (text: string): number => {
  let bytes = text.length;
  for (let n = 0; n < text.length; n += 1) {
    const code = text.charCodeAt(n);
    if (code > 0x7ff) bytes += 2;
    else if (code > 0x7f) bytes += 1;
  }
  return bytes;
};
