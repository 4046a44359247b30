// The parameters and the result of a function that writes a mail.
import type { MailFacts } from "./mails.ts";

interface Words {
  readonly subject: string;
  readonly sentences: readonly string[];
}
export type Writer = (facts: Required<MailFacts>, written: DateWords) => Words;
/** Formats days and times of America/Mexico_City in one language. */
export interface DateWords {
  readonly day: (at: number) => string;
  readonly moment: (at: number) => string;
  /** The month that starts on this day, e.g. "November 2026". */
  readonly month: (first: string) => string;
  /** "from … to …" for two days, either of which may be empty. */
  readonly days: (from: string, to: string) => string;
}
