// Ends the admission of an event: a rule throws a refusal, and the admission of the event catches
// it and returns it as a normal outcome.
import type { Refusal } from "../../stream/flow.ts";

/**
 * Not an Error, because it needs no stack trace: a batch of bad events would pay for one stack
 * each.
 */
export class RefusedEvent {
  readonly refusal: Refusal;
  constructor(refusal: Refusal) {
    this.refusal = refusal;
  }
}

/**
 * Refuses the event. `code` is a stable code, `field` is the place, and `message` says what is
 * wrong and what to send instead. The same bytes are always refused.
 */
export const refuse = (code: string, field: string | null, message: string): never => {
  throw new RefusedEvent({ code, field, message, retryable: false });
};
