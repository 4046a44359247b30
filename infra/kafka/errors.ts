// The errors with which reading and writing the log may end.

/**
 * The log no longer holds records that the group has not read, because of retention or a lost tail.
 * Going on would lose events without an error, so an operator decides.
 */
export class LogGap extends Error {
  readonly verdict = "fatal";
  /** The client does not try again. */
  readonly retriable = false;
  constructor(topic: string, partition: number, what: string) {
    super(`${topic}-${partition}: ${what}; see \`tributary rewind\` for how to go on`);
    this.name = "LogGap";
  }
}

/**
 * The group has moved on without this member, or is about to: the batch must be left, and the
 * client joins again.
 */
export class MembershipLost extends Error {
  readonly verdict = "fatal";
  constructor(cause: unknown) {
    super("the group has moved on", { cause });
    this.name = "MembershipLost";
  }
}

/**
 * The queue towards the log is full: nothing of this call was accepted. The sender may send it
 * again.
 */
export class Overloaded extends Error {
  readonly verdict = "transient";
  constructor() {
    super("more events wait for the log than may");
    this.name = "Overloaded";
  }
}

/**
 * The log did not acknowledge in time. The messages may still be in it, so ids must make a
 * repetition harmless.
 */
export class LogUnavailable extends Error {
  readonly verdict = "transient";
  constructor(cause?: unknown) {
    super("the log did not acknowledge in time", cause === undefined ? {} : { cause });
    this.name = "LogUnavailable";
  }
}

/** The error inside the client's retry wrappers. */
export const rootOf = (error: Error): Error =>
  error.cause instanceof Error && error.cause !== error ? rootOf(error.cause) : error;
