// The columns of a record, and the problems of a refused change.

/** A row as JSON: column names and plain values. */
export type Columns = Readonly<Record<string, any>>;

/**
 * One problem of a change. `field` is its place (`contracts[0].rate`), and `message` says what
 * would be right.
 */
export interface ReferenceProblem {
  readonly code: "invalid" | "unknown" | "conflict";
  readonly field: string;
  readonly message: string;
}
/** The change was refused, and none of it was saved. */
export class ReferenceRefused extends Error {
  readonly problems: readonly ReferenceProblem[];
  constructor(problems: readonly ReferenceProblem[]) {
    super(problems.map(({ field, message }) => `${field}: ${message}`).join("\n"));
    this.name = "ReferenceRefused";
    this.problems = problems;
  }
}
