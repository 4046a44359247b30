// Parses a request by the contract of its route. Unknown fields are faults, and each fault has its
// place.
import type { IncomingMessage } from "node:http";
import type { z } from "zod";
import { Problem, type ProblemParts } from "../../../infra/http/problem.ts";
import { checkTexts } from "../../../infra/http/read-json.ts";
import type { Role } from "../../../modules/access/users/users.ts";
import { invalid, missing } from "../../../modules/base/refusal.ts";
import { type Contract, queryFor } from "../contract/contract.ts";
import type { Input } from "../route.ts";

type Fault = NonNullable<ProblemParts["errors"]>[number];

/** A JSON pointer (RFC 6901). */
const pointerOf = (path: readonly PropertyKey[]): string =>
  path.map((part) => `/${String(part).replaceAll("~", "~0").replaceAll("/", "~1").slice(0, 100)}`).join("");

/** An unknown field is reported at its own place. */
const faultsOf = (issues: readonly z.core.$ZodIssue[], before: readonly PropertyKey[] = []): readonly Fault[] =>
  issues.flatMap((issue): readonly Fault[] => {
    const path = [...before, ...issue.path];
    if (issue.code === "unrecognized_keys")
      return issue.keys.map((key) => ({
        pointer: pointerOf([...path, key]),
        code: "unknown_field",
        detail: "there is no such field here",
      }));
    return [{ pointer: pointerOf(path), code: codeOf(issue), detail: issue.message }];
  });

/** A check of ours may give its own code in `params`. */
const codeOf = (issue: z.core.$ZodIssue): string =>
  issue.code === "custom" && typeof issue.params?.code === "string" ? issue.params.code : issue.code;

/** More faults help no one, and each is longer than its cause in the body. */
const MOST_FAULTS = 100;

/** Throws Problem 400 with the first 100 faults. */
export const accepted = <S extends z.ZodType>(schema: S, given: unknown, what: string): z.output<S> => {
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  const errors = faultsOf(parsed.error.issues).slice(0, MOST_FAULTS);
  throw new Problem("validation_failed", `${what} is not acceptable`, { errors });
};

/** `Ask.input` of a body, or of an object inside of it. */
export const inputOf = <Body>(body: Body): Input<Body> =>
  (typeof body === "object" && body !== null
    ? Object.fromEntries(Object.entries(body).filter(([name, value]) => value !== undefined && name !== "version"))
    : {}) as Input<Body>;

/** The ids in a path. A text that is no id is answered like an unknown id. */
export const paramsIn = <C extends Contract>(contract: C, given: unknown): z.output<C["params"]> => {
  const parsed = contract.params.safeParse(given);
  if (!parsed.success) throw missing();
  return parsed.data as z.output<C["params"]>;
};

/** The query as this role may send it, each name once. */
export const queryIn = <C extends Contract>(
  contract: C,
  role: Role | undefined,
  given: Readonly<Record<string, unknown>>,
): z.output<C["query"]> => {
  checkTexts(given);
  for (const [name, value] of Object.entries(given))
    if (typeof value !== "string") throw invalid(pointerOf([name]), "repeated_parameter", "give it once");
  return accepted(queryFor(contract, role), given, "the query") as z.output<C["query"]>;
};

/** The version that the caller has seen, from the header or the body; undefined: any. */
export const expectedVersion = (request: IncomingMessage, body: unknown): number | undefined => {
  const inBody = (body as { readonly version?: unknown } | undefined)?.version;
  const header = request.headers["if-match"];
  if (header === undefined || header.trim() === "*") return typeof inBody === "number" ? inBody : undefined;
  const version = Number(/^\s*(?:W\/)?"?(\d{1,9})"?\s*$/.exec(header)?.[1] ?? Number.NaN);
  if (Number.isNaN(version)) throw new Problem("bad_request", 'If-Match: give one version, like "3"');
  if (typeof inBody === "number" && inBody !== version)
    throw invalid("/version", "version_mismatch", "If-Match names another version");
  return version;
};

/** The `Idempotency-Key`; undefined when there is none. */
export const idempotencyKey = (request: IncomingMessage): string | undefined => {
  const given = request.headersDistinct["idempotency-key"] ?? [];
  if (given.length === 0) return undefined;
  if (given.length > 1 || !/^[\x21-\x7e]{1,128}$/.test(given[0]!))
    throw new Problem("bad_request", "Idempotency-Key: give one of 1 to 128 visible ASCII characters");
  return given[0];
};
