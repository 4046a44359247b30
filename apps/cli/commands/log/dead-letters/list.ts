// `tributary dlq list`, `show` and `export`: the dead letters and their reasons.
import type { Command } from "commander";
import { UsageError } from "../../../../../infra/runtime/command-errors.ts";
import { print, printJson, table, tell } from "../../../../../infra/runtime/output.ts";
import { within } from "../../../../../infra/runtime/timing/time-limit.ts";
import { findLetter } from "../../../../../modules/log/dead-letters/actions.ts";
import type { Letter } from "../../../../../modules/log/dead-letters/letter.ts";
import { countLetters, listLetters } from "../../../../../modules/log/dead-letters/letter-reads.ts";
import { kafkaOf, withAdmin } from "../../../connections.ts";
import { withPool } from "../../../pool.ts";
import { openProgress } from "../../../progress.ts";
import { ofContents, openLetterWire } from "./contents.ts";
import { countTable, time } from "./count-table.ts";
import { filtered, filterOf, type Options } from "./options.ts";

const letterTable = (letters: readonly Letter[]): string =>
  table(
    ["letter", "state", "stage", "code", "client", "event", "order", "attempts", "last failed", "next attempt"],
    letters.map((letter) => [
      letter.letter_id,
      letter.state,
      letter.stage,
      letter.code,
      letter.client_id,
      letter.event_id,
      letter.order_id,
      letter.attempts,
      time(letter.last_failed_at),
      time(letter.next_attempt_at),
    ]),
  );

const LOG_MS = 5_000;
/** How many records of letters the list lacks; null while the log does not answer. */
const unlistedRecords = async (): Promise<number | null> => {
  const { unreadLetters } = await import("../../../../../modules/log/dead-letters/letter-depth.ts");
  const counts = within(LOG_MS, withAdmin(unreadLetters), "the log does not answer");
  return counts.then(
    (known) => Object.values(known).reduce((sum, count) => sum + count, 0),
    () => null,
  );
};
const unlistedNote = (records: number | null): string | null => {
  if (records === null) return "the log does not answer, so letters may be missing here";
  return records === 0
    ? null
    : `${records} records of letters are not listed yet; the keeper reads them: tributary lag`;
};

const list = (options: Options): Promise<void> =>
  withPool(async (pool) => {
    const limit = Number(options.limit ?? 20);
    if (!Number.isInteger(limit) || limit < 0 || limit > 1_000)
      throw new UsageError(`--limit: ${options.limit} is not 0 to 1,000`);
    const filter = await filterOf(pool, [], options);
    const [letters, unlisted] = await Promise.all([
      listLetters(pool, filter, { scope: null, limit }),
      unlistedRecords(),
    ]);
    if (options.json) {
      const { shownLetter } = await ofContents();
      return printJson({ counts: await countLetters(pool, filter, null), data: letters.map(shownLetter), unlisted });
    }
    const note = unlistedNote(unlisted);
    if (note !== null) tell(note);
    const count = await countTable(pool, filter);
    if (count === 0) return print("there is no such letter");
    print("");
    print(letterTable(letters));
    if (letters.length < count) tell(`the newest ${letters.length} of ${count}; more with --limit`);
    tell("one of them: tributary dlq show <letter>");
  });

const show = (id: string, { json }: Options): Promise<void> =>
  withPool(async (pool) => {
    await filterOf(pool, [id], {});
    const letter = await findLetter(pool, id, null);
    if (letter === undefined) throw new Error(`there is no letter ${id}; see: tributary dlq list`);
    const { contentsOf, failuresShown } = await ofContents();
    const [contents] = await contentsOf({ kafka: kafkaOf(), wire: await openLetterWire() }, [letter]);
    const failures = await failuresShown(pool, id);
    const { record, hex, bytes, headers, key, ...facts } = contents!;
    if (json) return printJson({ ...facts, key, bytes, record, hex, headers, failures });
    for (const [name, value] of Object.entries({ ...facts, key, bytes }))
      if (value !== null) print(`${name.padEnd(16)} ${value}`);
    print(
      `\nheaders\n${Object.entries(headers)
        .map(([name, value]) => `  ${name}: ${value}`)
        .join("\n")}`,
    );
    if (record !== null) {
      print("\nrecord");
      printJson(record);
    } else print(bytes === null ? "\nno value" : `\nunreadable; bytes in hex\n${hex}`);
    print("\nfailures");
    print(
      table(
        ["failed at", "record", "code", "message"],
        failures.map((one) => [one.failed_at, one.source, one.code, one.message]),
      ),
    );
  });

const exportLetters = (options: Options): Promise<void> =>
  withPool(async (pool) => {
    const filter = await filterOf(pool, [], options);
    const total = (await countLetters(pool, filter, null)).reduce((sum, { count }) => sum + count, 0);
    const ports = { kafka: kafkaOf(), wire: await openLetterWire() };
    const { eachWithContents } = await ofContents();
    const progress = openProgress("letters");
    let done = 0;
    for await (const letters of eachWithContents(pool, ports, filter)) {
      for (const one of letters)
        print(JSON.stringify(one, (_, part) => (typeof part === "bigint" ? String(part) : part)));
      done += letters.length;
      progress.at(done, total);
    }
    progress.done();
  });

export const listCommand = (dlq: Command): void => {
  filtered(dlq.command("list"))
    .description("counts by reason, then the newest letters")
    .option("--limit <n>", "how many letters", "20")
    .addHelpText(
      "before",
      "Examples:\n  $ tributary dlq list\n  $ tributary dlq list --state parked,waiting --code " +
        "refused_by_store --since -24h\n",
    )
    .action(list);
};

export const showCommand = (dlq: Command): void => {
  dlq
    .command("show <letter>")
    .description("the record (as JSON, or its bytes), its headers, every failure")
    .option("--json", "as JSON")
    .addHelpText("before", "Example:\n  $ tributary dlq show dl_0123456789abcdef0123456789abcdef\n")
    .action(show);
};

export const exportCommand = (dlq: Command): void => {
  filtered(dlq.command("export"))
    .description("every letter with its record, one JSON object a line, on stdout")
    .addHelpText("before", "Example:\n  $ tributary dlq export --state parked > letters.ndjson\n")
    .action(exportLetters);
};
