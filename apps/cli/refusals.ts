// A refusal of a use case as the command line says it.
import { CommandRefused, UsageError } from "../../infra/runtime/command-errors.ts";
import { RefusalError } from "../../modules/base/refusal.ts";

/** `contracts[0].rate` for /contracts/0/rate. */
const fieldOf = (path: string): string =>
  path
    .slice(1)
    .replace(/\/(\d+)(?=\/|$)/g, "[$1]")
    .replaceAll("/", ".");

/** What a command calls the fields of its input: { partner_id: "--partner" }. */
export type Flags = Readonly<Record<string, string>>;

/** A sentence a refusal, with the field that it is about. */
export const sentencesOf = ({ refusals }: RefusalError, flags: Flags = {}): readonly string[] =>
  refusals.map(({ path, message }) => {
    const field = fieldOf(path);
    return field === "" ? message : `${flags[field] ?? field}: ${message}`;
  });

/** Whether the words of the command are wrong, and not what is saved. */
export const isUsage = ({ refusals }: RefusalError): boolean => refusals.every(({ kind }) => kind === "invalid");

/** Says what a use case refuses by the flags of the command. Throws UsageError or Refused. */
export const byFlags =
  (flags: Flags, hint?: string | undefined) =>
  (error: unknown): never => {
    if (!(error instanceof RefusalError)) throw error;
    const text = [...sentencesOf(error, flags), ...(hint === undefined ? [] : [hint])].join("\n");
    throw isUsage(error) ? new UsageError(text) : new CommandRefused(text);
  };
