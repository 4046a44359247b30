// `tributary dlq retry` and `discard`: show the letters concerned, and change them with --yes.
import type { Command } from "commander";
import { UsageError } from "../../../../../infra/runtime/command-errors.ts";
import { print, printJson, tell } from "../../../../../infra/runtime/output.ts";
import { actorOf } from "../../../../../modules/base/operations/operations.ts";
import { discardLetters, retryLetters } from "../../../../../modules/log/dead-letters/actions.ts";
import type { LetterState } from "../../../../../modules/log/dead-letters/letter.ts";
import { countLetters, type LetterFilter } from "../../../../../modules/log/dead-letters/letter-reads.ts";
import { withRewinding } from "../../../connections.ts";
import { countTable } from "./count-table.ts";
import { filtered, filterOf, type Options } from "./options.ts";

const lettersIn = (count: number): string => (count === 1 ? "1 letter" : `${count} letters`);

/** Throws UsageError unless letters are chosen, or --all is given. */
const checkNarrow = (ids: readonly string[], filter: LetterFilter, options: Options): void => {
  if (ids.length === 0 && Object.keys(filter).length === 0 && options.all !== true)
    throw new UsageError(
      "name letters, or filter them (--kind, --state, --stage, --code, --client, --event, --order, --since), " +
        "or say --all",
    );
};

const change =
  (verb: "retry" | "discard", states: readonly LetterState[]) =>
  (ids: readonly string[], options: Options): Promise<void> =>
    withRewinding(async ({ pool, audit }) => {
      const asked = await filterOf(pool, ids, options);
      checkNarrow(ids, asked, options);
      const { reason } = options;
      if (verb === "discard" && (reason ?? "").trim() === "")
        throw new UsageError("--reason: say why; it is kept with each letter");
      const filter = { ...asked, states: asked.states?.filter((one) => states.includes(one)) ?? states };
      if (!options.yes) {
        const counts = await countLetters(pool, filter, null);
        const count = counts.reduce((sum, one) => sum + one.count, 0);
        if (options.json) return printJson({ letters: count, counts, done: false });
        await countTable(pool, filter);
        print(`${lettersIn(count)} would be ${verb === "retry" ? "sent again now" : "given up for good"}`);
        return tell(`nothing was changed; add --yes to ${verb} them`);
      }
      const by = actorOf();
      const done =
        verb === "retry"
          ? await retryLetters({ pool, audit }, filter, by)
          : await discardLetters({ pool, audit }, filter, { actor: by, reason: reason! });
      if (options.json)
        return printJson({ letters: done.ids.length, operation: done.operation, ids: done.ids, done: true });
      print(
        `${lettersIn(done.ids.length)} ` +
          `${verb === "retry" ? "due now; the keeper sends within seconds" : "given up"}; ${done.operation}`,
      );
    });

export const retryCommand = (dlq: Command): void => {
  filtered(dlq.command("retry [letters...]"))
    .description("sends waiting and parked letters again now; shows which, and does it with --yes")
    .option("--all", "every one")
    .option("--yes", "do it")
    .addHelpText(
      "before",
      "Examples:\n  $ tributary dlq retry dl_0123456789abcdef0123456789abcdef --yes\n  $ tributary dlq " +
        "retry --code refused_by_store --client casa-verde --yes\n",
    )
    .action(change("retry", ["waiting", "parked"]));
};

export const discardCommand = (dlq: Command): void => {
  filtered(dlq.command("discard [letters...]"))
    .description("gives open letters up for good; shows which, and does it with --yes")
    .requiredOption("--reason <text>", "why, in words; kept with each letter")
    .option("--all", "every one")
    .option("--yes", "do it")
    .addHelpText(
      "before",
      "Example:\n  $ tributary dlq discard --code not_framed --stage enrich --reason 'test garbage' --yes\n",
    )
    .action(change("discard", ["waiting", "retrying", "parked"]));
};
