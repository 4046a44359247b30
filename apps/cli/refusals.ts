// Words the refusals of use cases for the command line.
import { CommandRefused, UsageError } from "../../infra/runtime/command-errors.ts";
import { RefusalError } from "../../modules/base/refusal.ts";

/** Returns `contracts[0].rate` for /contracts/0/rate. */
const fieldOf = (path: string): string =>
  path
    .slice(1)
    .replace(/\/(\d+)(?=\/|$)/g, "[$1]")
    .replaceAll("/", ".");

/** The options of a command by field of its input: { partner_id: "--partner" }. */
export type Flags = Readonly<Record<string, string>>;

/** Returns a sentence for each refusal, with the field that it is about. */
export const sentencesOf = ({ refusals }: RefusalError, flags: Flags = {}): readonly string[] =>
  refusals.map(({ path, message }) => {
    const field = fieldOf(path);
    return field === "" ? message : `${flags[field] ?? field}: ${message}`;
  });

/** True when the words of the command are wrong rather than the saved state. */
export const isUsage = ({ refusals }: RefusalError): boolean => refusals.every(({ kind }) => kind === "invalid");

/** Words a refusal in the options of the command. Throws UsageError or CommandRefused. */
export const byFlags =
  (flags: Flags, hint?: string | undefined) =>
  (error: unknown): never => {
    if (!(error instanceof RefusalError)) throw error;
    const text = [...sentencesOf(error, flags), ...(hint === undefined ? [] : [hint])].join("\n");
    throw isUsage(error) ? new UsageError(text) : new CommandRefused(text);
  };
