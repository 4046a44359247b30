// The host, path and query of an address, split as RFC 3986 does it: by rules so plain that a store
// can follow them too.

/** `query` is undecoded and without the question mark; undefined: the address has none. */
export interface UrlParts {
  /** Lower case, without user and port. */
  readonly host: string;
  /** As it was written; "/" when there is none. */
  readonly path: string;
  readonly query: string | undefined;
}

/**
 * scheme://user@host:port/path?query#fragment, the groups being host, path and query. Also what a
 * store matches with (RE2 knows all of it), so the text holds no `#`, which begins a comment there.
 * A parser of browsers does more (it encodes, mends and resolves), and no store has one.
 */
export const urlForm =
  "^[A-Za-z][A-Za-z0-9+.-]*://(?:[^/?\\x23]*@)?(\\[[^\\]/?\\x23]+\\]|[^/?\\x23@:]+)(?::[0-9]*)?" +
  "(/[^?\\x23]*)?(?:\\?([^\\x23]*))?(?:\\x23|$)";
const form = new RegExp(urlForm);

/** Null for a text that is no absolute URL with a host. */
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
 * The first value of a parameter, decoded as forms are (`+` is a space); undefined without one, and
 * when its bytes are no UTF-8.
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
/** A percent sign that begins no byte stands for itself. */
const decoded = (text: string): string | undefined => {
  try {
    return text.replaceAll("+", " ").replace(escapes, decodeURIComponent);
  } catch {
    return undefined;
  }
};
