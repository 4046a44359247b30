// How a rule of admission ends an event: thrown where the rule is checked, an ordinary outcome
// where the event is admitted.
import type { Refusal } from "../../stream/flow.ts";

/** Not an Error: it needs no stack, and a batch of bad events must not cost one for each. */
export class RefusedEvent {
  readonly refusal: Refusal;
  constructor(refusal: Refusal) {
    this.refusal = refusal;
  }
}

/**
 * Ends the event: `code` is stable, `field` says where, `message` says what is wrong and what to
 * send instead. The same bytes are always refused.
 */
export const refuse = (code: string, field: string | null, message: string): never => {
  throw new RefusedEvent({ code, field, message, retryable: false });
};
