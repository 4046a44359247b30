// What a record becomes, and why a change of records was refused.

/** What a row says, as JSON: column names, plain values. */
export type Columns = Readonly<Record<string, any>>;

/**
 * One thing wrong with a change. `field` is its place (`contracts[0].rate`), `message` says what
 * would be right.
 */
export interface ReferenceProblem {
  readonly code: "invalid" | "unknown" | "conflict";
  readonly field: string;
  readonly message: string;
}
/** The change was refused and nothing of it was saved. */
export class ReferenceRefused extends Error {
  readonly problems: readonly ReferenceProblem[];
  constructor(problems: readonly ReferenceProblem[]) {
    super(problems.map(({ field, message }) => `${field}: ${message}`).join("\n"));
    this.name = "ReferenceRefused";
    this.problems = problems;
  }
}
