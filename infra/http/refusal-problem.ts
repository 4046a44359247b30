// Turns the refusals of a use case into the answer of a host.
import { Problem, type ProblemKind } from "./problem.ts";

/** The shape of modules/base/refusal.ts, which knows no HTTP. */
interface Refusal {
  readonly kind: keyof typeof KINDS;
  readonly code: string;
  readonly path: string;
  readonly message: string;
  readonly details?: Readonly<Record<string, unknown>>;
  readonly isOfAnswer?: boolean;
}

const KINDS = {
  invalid: "validation_failed",
  conflict: "conflict",
  missing: "not_found",
  forbidden: "forbidden",
  limited: "rate_limited",
} as const satisfies Record<string, ProblemKind>;

const errorOf = ({ path, code, message }: Refusal) => ({ pointer: path, code, detail: message });

/**
 * Invalid input is 400 and lists every place. Any other refusal goes first and alone: its code is
 * the code of the answer.
 */
export const problemOfRefusal = ({ refusals }: { readonly refusals: readonly Refusal[] }): Problem => {
  const first = refusals.find(({ kind }) => kind !== "invalid");
  if (first === undefined) {
    const detail = refusals.length === 1 ? refusals[0]!.message : "the body is not acceptable";
    const code = refusals.find(({ isOfAnswer }) => isOfAnswer)?.code;
    return new Problem("validation_failed", detail, {
      errors: refusals.map(errorOf),
      ...(code !== undefined && { code }),
    });
  }
  const { kind, code, message, details } = first;
  if (kind === "limited") {
    const headers = { "Retry-After": String(details?.retry_after_sec) };
    return new Problem("rate_limited", message, { headers });
  }
  const same = refusals.filter((one) => one.kind === kind && one.code === code && one.path !== "");
  return new Problem(KINDS[kind], message, {
    code,
    errors: same.map(errorOf),
    ...(details !== undefined && { members: details }),
  });
};
