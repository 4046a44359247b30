// The hash functions of one client's identifiers. Only a type, so that the browser's script can
// import it too.

/**
 * Turns one client's identifiers into keyed hashes. They are given in plain text, or as the SHA-256
 * (hex, lower case) that a sender computed.
 */
export interface Identify {
  readonly plain: (identifier: string) => string;
  readonly hashed: (sha256Hex: string) => string;
  /**
   * Hashes a SHA-256 to a value that is the same for every client. Absent where nothing is linked
   * across clients.
   */
  readonly across?: ((sha256Hex: string) => string) | undefined;
}
