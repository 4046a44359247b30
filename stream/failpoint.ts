// Marks a place where a crash test may kill the process. This empty version is the only one that
// production can load.

/**
 * Does nothing. Under `node --conditions=faults`, the import `#failpoint` loads failpoint.armed.ts
 * instead.
 */
export const hit = (_name: string): void => undefined;
