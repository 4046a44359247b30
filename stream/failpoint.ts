// Marks a place where a crash test may end the process; empty here, and the only one that
// production can load.

/**
 * Does nothing. Under `node --conditions=faults` the import `#failpoint` gives failpoint.armed.ts
 * instead.
 */
export const hit = (_name: string): void => undefined;
