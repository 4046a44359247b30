// Which visits are recorded where a client records only some: drawn from the session's id, so that
// browser and host draw the same, on every page of the visit.

/** 0 to 100, without 100. `sha256Hex`: of the session's id. */
export const drawOf = (sha256Hex: string): number => (Number.parseInt(sha256Hex.slice(0, 8), 16) / 2 ** 32) * 100;
