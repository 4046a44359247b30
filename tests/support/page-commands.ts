// The commands on a page of docs/, as a person would type them.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

export interface PageCommand {
  readonly page: string;
  /** The command without prompt, comment and line breaks. */
  readonly text: string;
}

export const pagesOf = (): readonly string[] =>
  execFileSync("git", ["ls-files", "README.md", "docs"], { encoding: "utf8" })
    .split("\n")
    .filter((file) => file.endsWith(".md"));

/** A block that begins like this is run as a whole, because its later lines need its variables. */
const SCRIPT = /^(?:\w+=|\w+\(\) \{|export |echo |printf |cat > )/;
const TYPED = /^(?:\$ )?((?:npx tributary|curl|openssl|df|find|grep|jq) .+)$/;
const withoutComment = (line: string): string => line.replace(/\s+# .*$/, "").trim();

/**
 * The commands in the blocks of a page, in their order. Lines that end with a backslash are joined.
 */
export const commandsIn = (page: string): readonly PageCommand[] =>
  [...readFileSync(page, "utf8").matchAll(/^( *)```[^\n]*\n([\s\S]*?)^ *```/gm)].flatMap(([, indent, block]) => {
    const lines = block!
      .replaceAll(/\\\n\s*/g, " ")
      .trimEnd()
      .split("\n");
    if (SCRIPT.test(lines[0]!.trim()) && /npx tributary|curl /.test(block!))
      return [{ page, text: lines.map((line) => line.slice(indent!.length)).join("\n") }];
    return lines.flatMap((line) => {
      const typed = TYPED.exec(line.trim());
      return typed === null ? [] : [{ page, text: withoutComment(typed[1]!) }];
    });
  });

/** Every mention of a `tributary` command, in blocks and in sentences. Sentences may shorten it. */
export const mentionsIn = (page: string): readonly (PageCommand & { readonly isWhole: boolean })[] => {
  const text = readFileSync(page, "utf8");
  const inProse = [...text.replaceAll(/^ *```[\s\S]*?^ *```/gm, "").matchAll(/`(?:npx )?(tributary [^`]+)`/g)];
  const inBlocks = commandsIn(page).flatMap(({ text: line }) =>
    [...line.matchAll(/npx (tributary .+?)(?= \||\)| > | && | +#|$)/gm)].map(([, command]) => command!),
  );
  return [
    ...inBlocks.map((command) => ({ page, text: command, isWhole: true })),
    ...inProse.map(([, command]) => ({ page, text: command!.replaceAll(/\s+/g, " "), isWhole: false })),
  ];
};

/**
 * Splits a command as a shell does: words, some in quotes. A placeholder in `<...>` is one word.
 */
export const wordsOf = (command: string): readonly string[] =>
  [
    ...command
      .replaceAll(/ > \S+$/g, "")
      .replaceAll(/<[^>]+>/g, "1")
      .matchAll(/(?:[^\s"']+|"[^"]*"|'[^']*')+/g),
  ].map(([word]) => word.replaceAll(/["']/g, ""));
