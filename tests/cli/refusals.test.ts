// The answer to an impossible command line: it names the word, flag or order, and the fix.
import { Command } from "commander";
import { expect, test } from "vitest";
import { filterOf, refuseStrangers } from "../../apps/cli/commands/reports/report.ts";
import { fileOf } from "../../apps/cli/commands.ts";
import { strayWords } from "../../apps/cli/stray-words.ts";
import { UsageError } from "../../infra/runtime/command-errors.ts";
import { RefusalError } from "../../modules/base/refusal.ts";
import { refuseCredited } from "../../modules/money/decisions/assign.ts";
import { refuseKeep } from "../../modules/money/decisions/reattribute.ts";

const refusedAs = async (...words: readonly string[]): Promise<string> => {
  const program = new Command("tributary").exitOverride().configureOutput({ writeErr: () => undefined });
  (await fileOf(words[0])!.load())(program);
  for (const command of program.commands) quiet(command);
  const error = await program.parseAsync(["node", "tributary", ...words]).catch((thrown) => thrown);
  expect(error).toMatchObject({ code: "commander.excessArguments" });
  return strayWords(program);
};
const quiet = (command: Command): void => {
  command.exitOverride().configureOutput({ writeErr: () => undefined });
  for (const one of command.commands) quiet(one);
};

test("a word without its option is named, with the options that it may belong to", async () => {
  const assign = ["decide", "assign", "BEA-1", "--client", "casa-verde", "--partner", "5", "--reason", "agreed"];
  expect(await refusedAs(...assign)).toMatch(
    /^BEA-1 belongs to no option: write it behind one of --client, --order, --event, --reason, /,
  );
  expect(await refusedAs("report", "--client", "casa-verde", "2026-11")).toMatch(/^2026-11 belongs to no option/);
  expect(await refusedAs("explain", "A-1", "A-2", "A-3")).toMatch(/^A-2 A-3 belong to no option: .*--client$/);
});

test("a report of days the wrong way round, or of what there is none of, is refused and not empty", () => {
  expect(() => filterOf({ from: "2026-12-01", to: "2026-11-01" })).toThrow("--from: 2026-12-01 lies behind --to");
  expect(filterOf({ from: "2026-11-01", to: "2026-11-01" })).toMatchObject({ partner_id: undefined });
  const known = {
    partner: (id: number) => (id === 5 ? {} : undefined),
    campaign: (id: number) => (id < 3 ? { client_id: id } : undefined),
  } as unknown as Parameters<typeof refuseStrangers>[0];
  const client = { client_id: 2, slug: "casa-verde", segments: ["MX", "DA"] };
  const asked = (filter: object) => () =>
    refuseStrangers(known, client, filter as Parameters<typeof refuseStrangers>[2]);
  expect(asked({ partner_id: 99 })).toThrow("--partner: there is no partner 99");
  for (const campaign_id of [1, 9]) expect(asked({ campaign_id })).toThrow(`--campaign: ${campaign_id} is none of`);
  expect(asked({ segment: "XX" })).toThrow("--segment: XX is none of casa-verde: MX, DA");
  expect(asked({ segment: "XX" })).toThrow(UsageError);
  expect(asked({ partner_id: 5, campaign_id: 2, segment: "DA" })).not.toThrow();
});

test("an order whose every line is credited to others is not assigned, and what moves it is named", () => {
  const credited = { partner_id: 6 };
  expect(() => refuseCredited([credited, credited], 7)).toThrow(RefusalError);
  expect(() => refuseCredited([credited, { partner_id: 7 }], 7)).toThrow("a partner is credited: reattribute it");
  expect(() => refuseCredited([credited, { partner_id: null }], 7)).not.toThrow();
  // The same order twice, and an order whose sale is still to come.
  expect(() => refuseCredited([credited, credited], 6)).not.toThrow();
  expect(() => refuseCredited([], 7)).not.toThrow();
});

test("a release of a total and lines that differ says which stands, and nothing else does", () => {
  const [disputed, held] = [{ lines: [{ review: "disputed_total" }] }, { lines: [{ review: "fraud_review" }] }];
  expect(() => refuseKeep({ review: "release" }, [held, disputed])).toThrow("say which of both stands");
  expect(() => refuseKeep({ review: "release", keep: "lines" }, [disputed])).not.toThrow();
  expect(() => refuseKeep({ review: "release" }, [held])).not.toThrow();
  expect(() => refuseKeep({ review: "reject" }, [disputed])).not.toThrow();
  expect(() => refuseKeep({ review: "reject", keep: "total" }, [disputed])).toThrow("it is part of a release");
});
