// How the identifiers of one client become hashes. A type alone, so that the browser's script can
// use it too.

/**
 * How one client's identifiers become keyed hashes: given as they are, or as the SHA-256 (hex,
 * lower case) that a sender made of them.
 */
export interface Identify {
  readonly plain: (identifier: string) => string;
  readonly hashed: (sha256Hex: string) => string;
  /** The same for every client, of a SHA-256; absent where nothing is linked across clients. */
  readonly across?: ((sha256Hex: string) => string) | undefined;
}
