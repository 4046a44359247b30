// Paths into a payload: a dot path (order.items.0.id) or a JSON Pointer (/order/id, RFC 6901). Only
// the payload's own properties are found, never inherited ones.

export interface SourcePath {
  /** The path as configured. */
  readonly text: string;
  readonly steps: readonly string[];
}

const MAX_LENGTH = 256;
const MAX_STEPS = 32;
/** Names that every JavaScript object inherits. No accepted payload uses them as keys. */
const INHERITED: ReadonlySet<string> = new Set(["__proto__", "constructor", "prototype"]);
const UNESCAPED = /~(?![01])/;

/** Parses a path, or returns the problem with the text. */
export const readPath = (text: string): SourcePath | { readonly problem: string } => {
  if (text.length === 0 || text.length > MAX_LENGTH) return { problem: `give 1 to ${MAX_LENGTH} characters` };
  const isPointer = text.startsWith("/");
  if (isPointer && UNESCAPED.test(text)) return { problem: "write ~ as ~0 and / as ~1 in a JSON Pointer" };
  const steps = isPointer
    ? text
        .slice(1)
        .split("/")
        .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"))
    : text.split(".");
  if (steps.length > MAX_STEPS) return { problem: `give at most ${MAX_STEPS} steps` };
  if (!isPointer && steps.includes(""))
    return { problem: "a step of a dot path is empty: write order.id, or /order/id" };
  const inherited = steps.find((step) => INHERITED.has(step));
  if (inherited !== undefined) return { problem: `${inherited} is no name of a payload` };
  return { text, steps };
};

/** The value at the path. Undefined if there is none. */
export const valueAt = (payload: unknown, { steps }: SourcePath): unknown => {
  let value = payload;
  for (const step of steps) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, step)) return undefined;
    value = (value as Readonly<Record<string, unknown>>)[step];
  }
  return value;
};

/**
 * Describes where the path ends in the payload, for the person who configured it, without quoting
 * any value.
 */
export const endOf = (payload: unknown, { steps }: SourcePath): string => {
  let value = payload;
  for (const [n, step] of steps.entries()) {
    if (typeof value !== "object" || value === null) return `${steps.slice(0, n).join(".")} is ${kindOf(value)}`;
    if (!Object.hasOwn(value, step)) {
      const place = n === 0 ? "the payload" : steps.slice(0, n).join(".");
      return Array.isArray(value) ? `${place} is a list of ${value.length}` : `${place} has no ${step}`;
    }
    value = (value as Readonly<Record<string, unknown>>)[step];
  }
  return kindOf(value);
};

/** Names the kind of a value. A text is described by its length only. */
export const kindOf = (value: unknown): string => {
  if (value === undefined) return "nothing";
  if (value === null) return "null";
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (typeof value === "object") return "an object";
  if (typeof value === "string") return value === "" ? "an empty text" : `a text of ${value.length} characters`;
  return typeof value === "number" ? "a number" : "true or false";
};
