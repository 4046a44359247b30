// Composes expressions from smaller ones, each with its bound values.
import type { bind, Condition } from "./query.ts";

type Part = Condition | ReturnType<typeof bind>;

/**
 * piece`startsWith(${column}, ${bind("String", text)})`: an expression is inserted with its values,
 * and a value is bound.
 */
export const piece = (strings: TemplateStringsArray, ...parts: readonly Part[]): Condition => {
  const values: Condition["values"][number][] = [];
  let expression = strings[0]!;
  for (const [n, part] of parts.entries()) {
    if ("expression" in part) {
      expression += part.expression;
      values.push(...part.values);
    } else {
      expression += "\0";
      values.push(part);
    }
    expression += strings[n + 1]!;
  }
  return { expression, values };
};

/** An expression of our own without values. */
export const plainPiece = (expression: string): Condition => ({ expression, values: [] });

/**
 * A text of our own (a pattern, a name in code) as a literal. Texts that a person wrote must be
 * bound instead.
 */
export const literal = (text: string): Condition =>
  plainPiece(`'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`);
