// Splits an address into host, path and query as RFC 3986 does. The rules are so simple that a
// store can apply them too.

/** `query` is undecoded and lacks the question mark. Undefined if the address has no query. */
export interface UrlParts {
  /** The host in lower case, without user and port. */
  readonly host: string;
  /** The path as written. "/" if there is none. */
  readonly path: string;
  readonly query: string | undefined;
}

/**
 * Matches scheme://user@host:port/path?query#fragment, with the groups host, path and query. A
 * store uses this pattern too (RE2 supports all of it), so it contains no `#`, which begins a
 * comment there. A browser's URL parser also encodes, repairs and resolves, which no store can do.
 */
export const urlForm =
  "^[A-Za-z][A-Za-z0-9+.-]*://(?:[^/?\\x23]*@)?(\\[[^\\]/?\\x23]+\\]|[^/?\\x23@:]+)(?::[0-9]*)?" +
  "(/[^?\\x23]*)?(?:\\?([^\\x23]*))?(?:\\x23|$)";
const form = new RegExp(urlForm);

/** Null if the text is not an absolute URL with a host. */
export const urlPartsOf = (text: string | null): UrlParts | null => {
  const match = text === null ? null : form.exec(text);
  if (match === null) return null;
  return {
    host: match[1]!.replace(/[A-Z]+/g, (letters) => letters.toLowerCase()),
    path: match[2] ?? "/",
    query: match[3],
  };
};

/**
 * The first value of a parameter, form-decoded (`+` is a space). Undefined if it is absent or its
 * bytes are not UTF-8.
 */
export const queryValueOf = (query: string | undefined, name: string): string | undefined => {
  if (query === undefined) return undefined;
  for (const piece of query.split("&")) {
    const at = piece.indexOf("=");
    if (decoded(at === -1 ? piece : piece.slice(0, at)) === name) return at === -1 ? "" : decoded(piece.slice(at + 1));
  }
  return undefined;
};

const escapes = /(?:%[0-9A-Fa-f]{2})+/g;
/** A percent sign without two hex digits stands for itself. */
const decoded = (text: string): string | undefined => {
  try {
    return text.replaceAll("+", " ").replace(escapes, decodeURIComponent);
  } catch {
    return undefined;
  }
};
