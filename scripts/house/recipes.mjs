// Counts the files that a recipe of CONTRIBUTING.md touches by hand.

/**
 * The text below a heading `### title`, up to the next heading. Null if there is no such recipe.
 */
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

const slugOf = (title) => title.toLowerCase().replaceAll(" ", "-");

/**
 * Files that a recipe writes by hand: those that its blocks and its steps name, and those of a
 * recipe that a step refers to (`[A migration](#a-migration)`). Its own test stands beside them and
 * is not counted. Notes (`> ...`) are not counted either: they say what another case takes.
 */
export const filesOfRecipe = (page, title) => {
  const section = sectionOf(page, title);
  if (section === null) return null;
  const blocks = [...section.matchAll(/^```\w+ (\S+)$/gm)].map(([, file]) => file);
  const steps = section.replaceAll(/^```[\s\S]*?^```/gm, "").replaceAll(/^>.*$/gm, "");
  const prose = [...steps.matchAll(/`(\w[\w./-]*\.(?:ts|yml|yaml|avsc|sql|json|md))`/g)].map(([, file]) => file);
  const recipes = [...steps.matchAll(/\]\(#([\w-]+)\)/g)].flatMap(([, slug]) => {
    const other = [...page.matchAll(/^### (.+)$/gm)].map(([, name]) => name).find((name) => slugOf(name) === slug);
    return other === undefined ? [] : filesOfRecipe(page, other);
  });
  return [...new Set([...blocks, ...prose, ...recipes])].filter((file) => !file.startsWith("tests/")).sort();
};
