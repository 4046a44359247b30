// How many files a recipe of CONTRIBUTING.md has a person touch.

/** The text below a heading `### title`, up to the next heading; null: there is no such recipe. */
const sectionOf = (page, title) => {
  const lines = page.split("\n");
  const start = lines.indexOf(`### ${title}`);
  if (start === -1) return null;
  const isEnd = (line) => /^#{1,3} /.test(line);
  let end = start + 1;
  for (let isFence = false; end < lines.length && (isFence || !isEnd(lines[end])); end += 1)
    if (lines[end].startsWith("```")) isFence = !isFence;
  return lines.slice(start + 1, end).join("\n");
};

/**
 * Files that a recipe writes by hand: those that its blocks name, and those that its steps name or
 * another recipe (`[A migration](#a-migration)`) adds. Its test is not counted.
 */
export const filesOfRecipe = (page, title) => {
  const section = sectionOf(page, title);
  if (section === null) return null;
  const blocks = [...section.matchAll(/^```\w+ (\S+)$/gm)].map(([, file]) => file);
  const steps = section.replaceAll(/^```[\s\S]*?^```/gm, "");
  const prose = [...steps.matchAll(/`([\w./-]+\.(?:ts|yml|yaml|avsc|sql|json|md))`/g)].map(([, file]) => file);
  const recipes = [...steps.matchAll(/\]\(#([\w-]+)\)/g)].map(([, recipe]) => `(${recipe})`);
  return [...new Set([...blocks, ...prose, ...recipes])].filter((file) => !file.startsWith("tests/")).sort();
};
