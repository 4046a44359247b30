// Decides which visits are recorded if a client records only a share of them. The draw depends on
// the session id, so that browser and host agree on every page of a visit.

/** A number from 0 up to, but not including, 100. `sha256Hex` is the hash of the session id. */
export const drawOf = (sha256Hex: string): number => (Number.parseInt(sha256Hex.slice(0, 8), 16) / 2 ** 32) * 100;
