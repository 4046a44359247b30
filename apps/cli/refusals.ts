// A refusal of a use case as the command line says it.
import type { RefusalError } from "../../modules/base/refusal.ts";

/** `contracts[0].rate` for /contracts/0/rate. */
const fieldOf = (path: string): string =>
  path
    .slice(1)
    .replace(/\/(\d+)(?=\/|$)/g, "[$1]")
    .replaceAll("/", ".");

/** A sentence a refusal, with the field that it is about. */
export const sentencesOf = ({ refusals }: RefusalError): readonly string[] =>
  refusals.map(({ path, message }) => (path === "" ? message : `${fieldOf(path)}: ${message}`));
