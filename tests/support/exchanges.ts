// The requests and answers that a page of the documentation shows, for the tests that send them.
import { readFileSync } from "node:fs";
import { expect } from "vitest";

export interface Exchange {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
  readonly status: number;
  /** JSON, or empty. */
  readonly answer: string;
}

/** Each block of kind `http` with the answer that follows it, in the order of the page. */
export const exchangesIn = (page: string): readonly Exchange[] =>
  [...readFileSync(page, "utf8").matchAll(/^```http\n([\s\S]*?)^```\n\n^```(?:json)? (\d+)\n([\s\S]*?)^```$/gm)].map(
    ([, request, status, answer]) => {
      const [head, body] = request!.trimEnd().split("\n\n");
      const [first, ...lines] = head!.split("\n");
      const [method, path] = first!.split(" ");
      return {
        method: method!,
        path: path!,
        headers: Object.fromEntries(lines.map((line) => line.split(": ") as [string, string])),
        body,
        status: Number(status),
        answer: answer!,
      };
    },
  );

/** `"..."` matches any value, and objects may have more fields than are shown. */
export const shown = (value: unknown): unknown => {
  if (value === "...") return expect.anything();
  if (Array.isArray(value)) return value.map(shown);
  if (typeof value !== "object" || value === null) return value;
  return expect.objectContaining(Object.fromEntries(Object.entries(value).map(([name, part]) => [name, shown(part)])));
};
