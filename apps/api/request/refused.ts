// A refusal of a use case as the platform API answers it.
import { Problem, type ProblemKind } from "../../../infra/http/problem.ts";
import type { Refusal, RefusalError, RefusalKind } from "../../../modules/base/refusal.ts";

const KINDS: Readonly<Record<RefusalKind, ProblemKind>> = {
  invalid: "validation_failed",
  conflict: "conflict",
  missing: "not_found",
  forbidden: "forbidden",
};

const errorOf = ({ path, code, message }: Refusal) => ({ pointer: path, code, detail: message });

/**
 * Input that is wrong is 400 with every place. Any other refusal comes first, and alone: its code
 * is that of the answer.
 */
export const problemOfRefusal = ({ refusals }: RefusalError): Problem => {
  const first = refusals.find(({ kind }) => kind !== "invalid");
  if (first === undefined) {
    const detail = refusals.length === 1 ? refusals[0]!.message : "the body is not acceptable";
    return new Problem("validation_failed", detail, { errors: refusals.map(errorOf) });
  }
  const { kind, code, message, details } = first;
  const same = refusals.filter((one) => one.kind === kind && one.code === code && one.path !== "");
  return new Problem(KINDS[kind], message, {
    code,
    errors: same.map(errorOf),
    ...(details !== undefined && { members: details }),
  });
};
