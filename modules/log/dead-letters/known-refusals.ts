// Finds which records refused by a replay are already dead letters from their first reading.
import type { Pool } from "pg";
import type { Letter } from "../../../stream/messages.ts";
import type { UnreadableCode } from "../../../stream/wire.ts";
import { pipeline } from "../../../topology.ts";
import { failureIdOf } from "./failure.ts";
import { knownFailures } from "./letter-index.ts";

/**
 * Codes of undecodable bytes. The first sink of a group reports these, and that sink changes with
 * the hosting.
 */
const unreadable: ReadonlySet<string> = new Set([
  "not_framed",
  "unknown_schema",
  "unreadable_body",
  "content_hash_mismatch",
] satisfies readonly UnreadableCode[]);
const sinksOf = (topic: string): readonly string[] =>
  pipeline.nodes.filter((node) => node.is === "sink" && node.from.name === topic).map(({ name }) => name);

/** Every id under which the index may hold this refusal. */
const idsOf = ({ stage, code, position, key, value }: Letter): readonly string[] =>
  (unreadable.has(code) ? sinksOf(position.topic) : [stage]).map((by) => failureIdOf(by, position, { key, value }));

/** Returns the letters that the index already holds as failures. */
export const knownRefusals = async (pool: Pool, letters: readonly Letter[]): Promise<ReadonlySet<Letter>> => {
  if (letters.length === 0) return new Set();
  const ids = new Map(letters.map((letter) => [letter, idsOf(letter)]));
  const known = await knownFailures(pool, [...ids.values()].flat());
  return new Set(letters.filter((letter) => ids.get(letter)!.some((id) => known.has(id))));
};
