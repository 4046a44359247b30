// Finds types and files whose whole name is a participle or a preposition. A name of two words
// passes, because its noun says what it is.
import { basename } from "node:path";
import { walk } from "./sources.mjs";

const wordsOf = (text) => text.trim().split(/\s+/);
const PARTICIPLES = new Set([
  ...wordsOf(`begun bought broken brought built caught chosen come done drawn driven fed forgotten found given gone
    held hidden kept known led left lent lost made meant met overwritten paid read rebuilt said seen sent shown sold
    spent struck taken thrown told torn undone understood unread withdrawn withheld worn written`),
  ...wordsOf(`admitting answering applying asking being carrying deciding delivering doing evaluating going having
    identifying listening moving remembering resting running saving stepping taking waiting`),
]);
/** Nouns that end like a participle; `tiered` is the name of a type of contract. */
const NOUNS = new Set(wordsOf("bed feed need seed shed speed tiered"));
const PREPOSITIONS = new Set(
  wordsOf(`about above after again against around at before behind below beside between beyond by during from in of off
    on onto out over past since to toward towards under until upon with within without`),
);
/** Other file names that say nothing. */
const FILES = new Set(["left-over", "meet", "take", "today", "way"]);

export const isParticiple = (word) => PARTICIPLES.has(word) || (/^[a-z]+ed$/.test(word) && !NOUNS.has(word));
const isBare = (word) => isParticiple(word) || PREPOSITIONS.has(word);

/** The types of the pipeline, whose names are used by the pages and every processor. */
const GRAMMAR = "stream/flow.ts";

/** `{file, name}` of the types and interfaces with such a name. */
export const bareTypes = (tree, files) => {
  const bare = [];
  for (const file of files.filter((one) => one !== GRAMMAR))
    walk(tree, file, ({ type, id }) => {
      if (!/^TS(TypeAlias|Interface)Declaration$/.test(type)) return;
      if (/^[A-Z][a-z]+$/.test(id.name) && isBare(id.name.toLowerCase())) bare.push({ file, name: id.name });
    });
  return bare;
};

export const bareFiles = (files) =>
  files.filter((file) => {
    const name = basename(file, ".ts");
    return name !== "generated" && (isBare(name) || FILES.has(name));
  });
