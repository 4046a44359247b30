// Reads JSON that a command is given in a file or by stdin.
import { readFileSync } from "node:fs";
import { text } from "node:stream/consumers";
import { UsageError } from "../../infra/runtime/command-errors.ts";

/** `file` is a path, or - for stdin. Throws UsageError for malformed JSON. */
export const jsonIn = async (file: string): Promise<unknown> => {
  let content: string;
  try {
    content = file === "-" ? await text(process.stdin) : readFileSync(file, "utf8");
  } catch (error) {
    throw new UsageError(`${file}: ${(error as Error).message}`);
  }
  try {
    return JSON.parse(content) as unknown;
  } catch (error) {
    throw new UsageError(`${file === "-" ? "what came in" : file} is no JSON: ${(error as Error).message}`);
  }
};
