// The reason why a use case refuses its input. It is decided once, below HTTP and the terminal: the
// platform API answers it as a problem, the command line as a sentence.

/**
 * invalid: the input is wrong at `path`. conflict: it contradicts the saved data. missing: the
 * thing does not exist, or the caller may not see it. forbidden: the caller may not do this.
 * limited: the caller has too much in progress and should try again later.
 */
type RefusalKind = "invalid" | "conflict" | "missing" | "forbidden" | "limited";

export interface Refusal {
  readonly kind: RefusalKind;
  /** A stable code, e.g. month_approved. */
  readonly code: string;
  /** JSON pointer into the input of the use case, e.g. /then/partner_id; empty: the whole input. */
  readonly path: string;
  /** Tells the caller what is wrong and how to fix it. */
  readonly message: string;
  /** Further values for programs, e.g. current_version. */
  readonly details?: Readonly<Record<string, unknown>>;
  /**
   * Wrong input is normally answered as `validation_failed`, with this code at its place. If true,
   * the whole answer has this code, e.g. bad_range.
   */
  readonly isOfAnswer?: boolean;
}

/** Thrown by a use case. It ends the transaction, so that nothing is saved. */
export class RefusalError extends Error {
  readonly refusals: readonly Refusal[];
  constructor(refusals: readonly Refusal[]) {
    super(refusals.map(({ path, message }) => (path === "" ? message : `${path}: ${message}`)).join("\n"));
    this.name = "RefusalError";
    this.refusals = refusals;
  }
}

/** The code of a single refusal, e.g. for one item of many. */
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

/** `path` is the field that this caller may not set. */
export const forbidden = (path: string, message: string, code = "forbidden"): RefusalError =>
  new RefusalError([{ kind: "forbidden", code, path, message }]);

/** A missing thing and one that the caller may not see are refused in the same words. */
export const missing = (): RefusalError =>
  new RefusalError([
    { kind: "missing", code: "not_found", path: "", message: "there is nothing of this id that you may see" },
  ]);

/** The caller may repeat the request after this many seconds. */
export const limited = (message: string, retry_after_sec: number): RefusalError =>
  new RefusalError([{ kind: "limited", code: "rate_limited", path: "", message, details: { retry_after_sec } }]);

/** Throws the refusals, if there are any. */
export const refuseAll = (refusals: readonly Refusal[]): void => {
  if (refusals.length > 0) throw new RefusalError(refusals);
};

/** Throws a conflict unless the caller has seen the saved version; undefined: any version. */
export const checkVersion = (expected: number | undefined, current: number): void => {
  if (expected === undefined || expected === current) return;
  const details = { current_version: current };
  throw conflict("version_conflict", `this has changed: version ${current} is there now`, { details });
};
