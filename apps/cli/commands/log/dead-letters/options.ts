// The options that the commands about dead letters share, and the filter made of them.
import type { Command } from "commander";
import type pg from "pg";
import { spellingsOf } from "../../../../../domain/ids.ts";
import { type LetterKind, letterKinds } from "../../../../../edges/dead-letters.ts";
import { UsageError } from "../../../../../infra/runtime/command-errors.ts";
import { type LetterState, letterStates } from "../../../../../modules/log/dead-letters/letter.ts";
import type { LetterFilter } from "../../../../../modules/log/dead-letters/letter-reads.ts";
import { momentOf } from "../../../moments.ts";
import { clientOf } from "../../../pool.ts";

export interface Options {
  readonly kind?: string;
  readonly state?: string;
  readonly stage?: string;
  readonly code?: string;
  readonly client?: string;
  readonly event?: string;
  readonly order?: string;
  readonly since?: string;
  readonly limit?: string;
  readonly all?: boolean;
  readonly reason?: string;
  readonly yes?: boolean;
  readonly json?: boolean;
}

/** Adds the options by which letters are chosen. */
export const filtered = (command: Command): Command =>
  command
    .option("--kind <kind>", letterKinds.join(", "))
    .option("--state <state,...>", letterStates.join(", "))
    .option("--stage <name>", "who refused it")
    .option("--code <code>", "why")
    .option("--client <slug or id>", "whose event it is")
    .option("--event <id>", "by the id that the event has in the log")
    .option("--order <id>", "by the shop's id of the order")
    .option("--since <time>", "failed last since then: -24h, or a time with its zone")
    .option("--json", "as JSON");

const ID = /^dl_[0-9a-f]{32}$/;

const oneOf = <T extends string>(flag: string, text: string, known: readonly T[]): T => {
  const found = known.find((one) => one === text);
  if (found === undefined) throw new UsageError(`${flag}: ${text} is none of ${known.join(", ")}`);
  return found;
};

/** Throws UsageError for an unknown letter, kind, state or client, and for a malformed time. */
export const filterOf = async (pool: pg.Pool, ids: readonly string[], options: Options): Promise<LetterFilter> => {
  const wrong = ids.find((id) => !ID.test(id));
  if (wrong !== undefined) throw new UsageError(`${wrong} is not a letter; see: tributary dlq list`);
  const { kind, state, stage, code, client, event, order, since } = options;
  return {
    ...(ids.length > 0 && { ids }),
    ...(kind !== undefined && { kind: oneOf<LetterKind>("--kind", kind, letterKinds) }),
    ...(state !== undefined && {
      states: state.split(",").map((one) => oneOf<LetterState>("--state", one, letterStates)),
    }),
    ...(stage !== undefined && { stage }),
    ...(code !== undefined && { code }),
    ...(client !== undefined && { client_id: (await clientOf(pool, client)).client_id }),
    ...(event !== undefined && { event_id: event }),
    ...(order !== undefined && { order_ids: spellingsOf(order) }),
    ...(since !== undefined && { since: momentOf("--since", since, Date.now()) }),
  };
};
