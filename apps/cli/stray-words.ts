// Explains a word that belongs to no option and no argument: most often its option was left out.
import type { Command } from "commander";

/** Returns the called command, which is the deepest one that was given words. */
const calledOf = (command: Command): Command => {
  const next = command.commands.find((one) => one.name() === command.args[0]);
  return next === undefined ? command : calledOf(next);
};

/** Returns one sentence with the words and the options that they may belong to. */
export const strayWords = (program: Command): string => {
  const command = calledOf(program);
  const stray = command.args.slice(command.registeredArguments.length);
  const options = command.options.filter(({ required, optional }) => required || optional).map(({ long }) => long);
  const belong = stray.length === 1 ? "belongs" : "belong";
  return options.length === 0
    ? `${stray.join(" ")} ${belong} to nothing: this command takes no more words`
    : `${stray.join(" ")} ${belong} to no option: write it behind one of ${options.join(", ")}`;
};
