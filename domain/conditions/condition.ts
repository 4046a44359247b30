// The syntax of a rule's condition: checks it, with the place of every fault, and walks it for code
// that evaluates or translates it.
import type { Condition, Operator } from "../reference/reference.ts";
import { boundOf } from "./comparison.ts";
import { type FieldKind, kindOf } from "./fields.ts";

export type Leaf = Extract<Condition, { readonly field: string }>;

/** One fault: its place (a JSON pointer into the condition), a stable code, and a sentence. */
interface Problem {
  readonly pointer: string;
  readonly code:
    | "bad_condition"
    | "unknown_key"
    | "empty_group"
    | "unknown_field"
    | "unknown_op"
    | "bad_op"
    | "bad_value"
    | "too_many_leaves"
    | "too_deep";
  readonly detail: string;
}
export type ParseResult =
  | { readonly kind: "condition"; readonly condition: Condition }
  | { readonly kind: "problems"; readonly problems: readonly Problem[] };

/**
 * People read rules, and every event is matched against them. More comparisons would be neither
 * readable nor cheap (docs/design/contracts.md, "Records").
 */
export const maxLeaves = 100;
export const maxDepth = 8;
const maxValues = 1_000;
const maxTextLength = 1_024;

const groups = ["all", "any", "not"] as const;
const text: readonly Operator[] = ["eq", "ne", "in", "not_in", "contains", "starts_with", "ends_with", "exists"];
const ordered: readonly Operator[] = ["gt", "gte", "lt", "lte", "between"];
const operators: Readonly<Record<FieldKind, ReadonlySet<string>>> = {
  text: new Set(text),
  money: new Set<Operator>(["eq", "ne", "in", "not_in", "exists", ...ordered]),
  any: new Set([...text, ...ordered]),
};

/**
 * Parses a condition from untrusted JSON. Returns the condition, or everything that is wrong with
 * it.
 */
export const parseCondition = (value: unknown): ParseResult => {
  const problems = faultsIn(value, "", 1, { leaves: 0 });
  return problems.length === 0 ? { kind: "condition", condition: value as Condition } : { kind: "problems", problems };
};

type Node = Readonly<Record<string, unknown>>;
const none: readonly Problem[] = [];

const faultsIn = (value: unknown, pointer: string, depth: number, count: { leaves: number }): readonly Problem[] => {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return [
      {
        pointer,
        code: "bad_condition",
        detail: "a condition is an object with all, any, not, or with field, op and value",
      },
    ];
  if (depth > maxDepth) return [{ pointer, code: "too_deep", detail: `conditions nest at most ${maxDepth} deep` }];
  const node = value as Node;
  const group = groups.find((name) => Object.hasOwn(node, name));
  const strangers = strangersIn(node, group === undefined ? ["field", "op", "value"] : [group], pointer);
  if (group === undefined) {
    count.leaves += 1;
    return [...strangers, ...(leafFault(node, pointer) ?? none)];
  }
  if (group === "not") return [...strangers, ...faultsIn(node.not, `${pointer}/not`, depth + 1, count)];
  return [...strangers, ...faultsOfParts(node[group], `${pointer}/${group}`, depth, count)];
};

const tooManyLeaves = {
  code: "too_many_leaves",
  detail: `a condition has at most ${maxLeaves} comparisons`,
} as const;

const faultsOfParts = (
  parts: unknown,
  pointer: string,
  depth: number,
  count: { leaves: number },
): readonly Problem[] => {
  // An empty `all` would match every event and an empty `any` none. No user means to save either.
  if (!Array.isArray(parts) || parts.length === 0)
    return [{ pointer, code: "empty_group", detail: "a group is a list of at least one condition" }];
  // Each part contains at least one comparison, so too many parts also means too many comparisons.
  if (parts.length > maxLeaves) return [{ pointer: `${pointer}/${maxLeaves}`, ...tooManyLeaves }];
  const problems: Problem[] = [];
  for (const [n, part] of parts.entries()) {
    const there = `${pointer}/${n}`;
    if (count.leaves >= maxLeaves) return [...problems, { pointer: there, ...tooManyLeaves }];
    problems.push(...faultsIn(part, there, depth + 1, count));
  }
  return problems;
};

const strangersIn = (node: Node, known: readonly string[], pointer: string): readonly Problem[] =>
  Object.keys(node)
    .filter((key) => !known.includes(key))
    .map((key) => ({
      pointer: `${pointer}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`,
      code: "unknown_key",
      detail: `beside ${known.join(", ")} nothing else may stand here`,
    }));

const leafFault = ({ field, op, value }: Node, pointer: string): readonly [Problem] | undefined => {
  const kind = typeof field === "string" ? kindOf(field) : undefined;
  if (kind === undefined)
    return [
      {
        pointer: `${pointer}/field`,
        code: "unknown_field",
        detail: `there is no field ${JSON.stringify(field) ?? "here"}`,
      },
    ];
  if (typeof op !== "string" || !operators.any.has(op))
    return [{ pointer: `${pointer}/op`, code: "unknown_op", detail: `op is one of ${[...operators.any].join(", ")}` }];
  if (!operators[kind].has(op))
    return [{ pointer: `${pointer}/op`, code: "bad_op", detail: `${op} does not apply to ${String(field)}` }];
  const fault = valueFault(op as Operator, value, kind);
  return fault && [{ pointer: `${pointer}/value${fault.at ?? ""}`, code: "bad_value", detail: fault.detail }];
};

const valueFault = (
  op: Operator,
  value: unknown,
  kind: FieldKind,
): { readonly at?: string; readonly detail: string } | undefined => {
  switch (op) {
    case "exists":
      return typeof value === "boolean" ? undefined : { detail: "exists takes true or false" };
    case "contains":
    case "starts_with":
    case "ends_with":
      return isText(value) && value !== ""
        ? undefined
        : { detail: `${op} takes a text of 1 to ${maxTextLength} characters` };
    case "in":
    case "not_in": {
      if (!Array.isArray(value) || value.length === 0 || value.length > maxValues)
        return { detail: `${op} takes a list of 1 to ${maxValues} values` };
      const wrong = value.findIndex((item) => !isScalar(item, kind));
      return wrong === -1 ? undefined : { at: `/${wrong}`, detail: `${op} takes ${scalarsOf[kind]}` };
    }
    case "between": {
      const [low, high] = Array.isArray(value) && value.length === 2 ? value.map((bound) => boundOf(bound, kind)) : [];
      if (low === undefined || high === undefined || low.unit !== high.unit)
        return { detail: `between takes two ${boundsOf(kind)}: [from, to]` };
      return low.from <= high.from ? undefined : { detail: "between takes the smaller value first" };
    }
    case "gt":
    case "gte":
    case "lt":
    case "lte":
      return boundOf(value, kind) === undefined ? { detail: `${op} compares with ${boundsOf(kind)}` } : undefined;
    default:
      return isScalar(value, kind) ? undefined : { detail: `${op} takes ${scalarsOf[kind]}` };
  }
};

const isText = (value: unknown): value is string => typeof value === "string" && value.length <= maxTextLength;
const isNumber = (value: unknown): boolean => typeof value === "number" && Number.isFinite(value);
/**
 * Values are never coerced, so a value of another type than its field could never match. It is
 * refused when the rule is saved.
 */
const isScalar = (value: unknown, kind: FieldKind): boolean =>
  kind === "money"
    ? isNumber(value)
    : isText(value) || (kind === "any" && (isNumber(value) || typeof value === "boolean"));
const scalarsOf: Readonly<Record<FieldKind, string>> = {
  money: "numbers",
  text: `texts of at most ${maxTextLength} characters`,
  any: "texts, numbers, true or false",
};
const boundsOf = (kind: FieldKind): string =>
  kind === "money" ? "numbers" : "numbers or dates (YYYY-MM-DD or RFC 3339)";

/**
 * The actions of a walk at each kind of node. `path` is the node's JSON pointer, which names a leaf
 * in explanations.
 */
export interface NodeVisitor<Result> {
  readonly leaf: (leaf: Leaf, path: string) => Result;
  readonly all: (parts: readonly Result[]) => Result;
  readonly any: (parts: readonly Result[]) => Result;
  readonly not: (part: Result) => Result;
}

/**
 * Evaluates or translates a condition from the leaves up: to a closure here, to an expression of a
 * store's language elsewhere. Both use this walk, so both agree on paths.
 */
export const walk = <Result>(condition: Condition, meaning: NodeVisitor<Result>, path = ""): Result => {
  if ("all" in condition) return meaning.all(condition.all.map((part, n) => walk(part, meaning, `${path}/all/${n}`)));
  if ("any" in condition) return meaning.any(condition.any.map((part, n) => walk(part, meaning, `${path}/any/${n}`)));
  if ("not" in condition) return meaning.not(walk(condition.not, meaning, `${path}/not`));
  return meaning.leaf(condition, path);
};
