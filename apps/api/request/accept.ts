// Reads what a request brings by the contract of its route: closed, and every fault with its place.
import type { IncomingMessage } from "node:http";
import type { z } from "zod";
import { Problem, type ProblemParts } from "../../../infra/http/problem.ts";
import { checkTexts } from "../../../infra/http/read-json.ts";
import type { Role } from "../../../modules/access/users/users.ts";
import { type Contract, mayAsk } from "../contract/contract.ts";

type Fault = NonNullable<ProblemParts["errors"]>[number];

/** RFC 6901. */
const pointerOf = (path: readonly PropertyKey[]): string =>
  path.map((part) => `/${String(part).replaceAll("~", "~0").replaceAll("/", "~1").slice(0, 100)}`).join("");

/** An unknown field is named by its own place, and a choice by what each of its forms lacks. */
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

/** A check of ours may name its own code in `params`. */
const codeOf = (issue: z.core.$ZodIssue): string =>
  issue.code === "custom" && typeof issue.params?.code === "string" ? issue.params.code : issue.code;

/** More help no one, and each one is longer than what caused it. */
const MOST_FAULTS = 100;

/** Throws Problem 400 with the first 100 faults. */
export const accepted = <S extends z.ZodType>(schema: S, given: unknown, what: string): z.output<S> => {
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  const errors = faultsOf(parsed.error.issues).slice(0, MOST_FAULTS);
  throw new Problem("validation_failed", `${what} is not acceptable`, { errors });
};

/** One fault at a place. */
export const fault = (pointer: string, code: string, detail: string): Problem =>
  new Problem("validation_failed", detail, { errors: [{ pointer, code, detail }] });

/** A row that is not there, and one that the caller may not see: the same words for both. */
export const notFound = (): Problem => new Problem("not_found", "there is nothing of this id that you may see");

type DefinedFields<T> = { readonly [K in keyof T as undefined extends T[K] ? never : K]: T[K] } & {
  readonly [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined>;
};
/** What was given of a body: fields that were left out are not there. */
export const defined = <T extends object>(given: T): DefinedFields<T> =>
  Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as DefinedFields<T>;

/** Ids in a path: what is none is an unknown one. */
export const paramsIn = <C extends Contract>(contract: C, given: unknown): z.output<C["params"]> => {
  const parsed = contract.params.safeParse(given);
  if (!parsed.success) throw notFound();
  return parsed.data as z.output<C["params"]>;
};

/** The query, each name once; `sort` and filters only by what the role is shown. */
export const queryIn = <C extends Contract>(
  contract: C,
  role: Role | undefined,
  given: Readonly<Record<string, unknown>>,
): z.output<C["query"]> => {
  checkTexts(given);
  for (const [name, value] of Object.entries(given))
    if (typeof value !== "string") throw fault(pointerOf([name]), "repeated_parameter", "give it once");
  const query = accepted(contract.query, given, "the query") as Readonly<Record<string, unknown>>;
  for (const name of Object.keys(given))
    if (!mayAsk(contract, role, name)) throw fault(pointerOf([name]), "unknown_field", "there is no such field here");
  const { sort } = query;
  if (typeof sort === "string" && given.sort !== undefined && !mayAsk(contract, role, sort.replace(/^-/, "")))
    throw fault("/sort", "invalid_value", "this list is not sorted by that");
  return query as z.output<C["query"]>;
};

/** The version that the caller has seen, of the header or the body; undefined: any. */
export const expectedVersion = (request: IncomingMessage, body: unknown): number | undefined => {
  const inBody = (body as { readonly version?: unknown } | undefined)?.version;
  const header = request.headers["if-match"];
  if (header === undefined || header.trim() === "*") return typeof inBody === "number" ? inBody : undefined;
  const version = Number(/^\s*(?:W\/)?"?(\d{1,9})"?\s*$/.exec(header)?.[1] ?? Number.NaN);
  if (Number.isNaN(version)) throw new Problem("bad_request", 'If-Match: give one version, like "3"');
  if (typeof inBody === "number" && inBody !== version)
    throw fault("/version", "version_mismatch", "If-Match names another version");
  return version;
};

/** `Idempotency-Key`, when there is one. */
export const idempotencyKey = (request: IncomingMessage): string | undefined => {
  const given = request.headersDistinct["idempotency-key"] ?? [];
  if (given.length === 0) return undefined;
  if (given.length > 1 || !/^[\x21-\x7e]{1,128}$/.test(given[0]!))
    throw new Problem("bad_request", "Idempotency-Key: give one of 1 to 128 visible ASCII characters");
  return given[0];
};
