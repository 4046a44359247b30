// The two ways to turn a request down, whatever asked for it; each message names the cure.

/** The request was understood and will not be carried out. A command exits with 3. */
export class CommandRefused extends Error {}

/** The request itself is wrong, such as an option of a command. A command exits with 2. */
export class UsageError extends Error {}
