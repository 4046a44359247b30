// Why a use case does not do what it was asked to: decided once, below HTTP and the terminal. The
// platform API answers it as a problem, the command line as a sentence.

/**
 * invalid: the input is wrong at `path`. conflict: it does not go with what is saved. missing:
 * there is no such thing, or the caller may not see it. forbidden: the caller may not do this.
 * limited: too much of the caller's is under way, so it is to be sent again later.
 */
type RefusalKind = "invalid" | "conflict" | "missing" | "forbidden" | "limited";

export interface Refusal {
  readonly kind: RefusalKind;
  /** Stable, e.g. month_approved. */
  readonly code: string;
  /** JSON pointer into the input of the use case, e.g. /then/partner_id; empty: all of it. */
  readonly path: string;
  /** For the caller: what is wrong, and the cure. */
  readonly message: string;
  /** What a program needs beside it, e.g. current_version. */
  readonly details?: Readonly<Record<string, unknown>>;
  /**
   * Wrong input is answered as `validation_failed`, and its code is that of the place. With this
   * the answer as a whole has the code, e.g. bad_range.
   */
  readonly isOfAnswer?: boolean;
}

/** Thrown by a use case; ends its transaction, so that nothing of it is saved. */
export class RefusalError extends Error {
  readonly refusals: readonly Refusal[];
  constructor(refusals: readonly Refusal[]) {
    super(refusals.map(({ path, message }) => (path === "" ? message : `${path}: ${message}`)).join("\n"));
    this.name = "RefusalError";
    this.refusals = refusals;
  }
}

/** The code of a refusal of one thing, e.g. for the outcome of one of many. */
export const codeOf = ({ refusals }: RefusalError): string => refusals[0]!.code;

type RefusalParts = Partial<Pick<Refusal, "path" | "details">>;

export const invalid = (
  path: string,
  code: string,
  message: string,
  more: Pick<Refusal, "isOfAnswer"> = {},
): RefusalError => new RefusalError([{ kind: "invalid", code, path, message, ...more }]);

export const conflict = (code: string, message: string, { path = "", ...more }: RefusalParts = {}): RefusalError =>
  new RefusalError([{ kind: "conflict", code, path, message, ...more }]);

/** `path` is what this caller may not set. */
export const forbidden = (path: string, message: string): RefusalError =>
  new RefusalError([{ kind: "forbidden", code: "forbidden", path, message }]);

/**
 * A thing that is not there, and one that the caller may not see, are refused in the same words.
 */
export const missing = (): RefusalError =>
  new RefusalError([
    { kind: "missing", code: "not_found", path: "", message: "there is nothing of this id that you may see" },
  ]);

/** For the same again, after so many seconds. */
export const limited = (message: string, retry_after_sec: number): RefusalError =>
  new RefusalError([{ kind: "limited", code: "rate_limited", path: "", message, details: { retry_after_sec } }]);

/** Throws the refusals, if there are any. */
export const refuseAll = (refusals: readonly Refusal[]): void => {
  if (refusals.length > 0) throw new RefusalError(refusals);
};

/**
 * Throws a conflict unless the caller has seen the version that is saved; undefined: any version.
 */
export const checkVersion = (expected: number | undefined, current: number): void => {
  if (expected === undefined || expected === current) return;
  const details = { current_version: current };
  throw conflict("version_conflict", `this has changed: version ${current} is there now`, { details });
};
