// What a writer of a mail is given, and what it gives back.
import type { MailFacts } from "./mails.ts";

interface Words {
  readonly subject: string;
  readonly sentences: readonly string[];
}
export type Writer = (facts: Required<MailFacts>, written: DateWords) => Words;
/** How people of this language write days and moments of America/Mexico_City. */
export interface DateWords {
  readonly day: (at: number) => string;
  readonly moment: (at: number) => string;
  /** Of its first day, e.g. "November 2026". */
  readonly month: (first: string) => string;
  /** "from … to …" of two days, of which either may be empty. */
  readonly days: (from: string, to: string) => string;
}
