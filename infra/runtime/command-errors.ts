// The two ways to refuse a request, independent of who sent it; each message names the cure.

/** The request was understood and is not carried out. A command exits with 3. */
export class CommandRefused extends Error {}

/** The request itself is wrong, such as an option of a command. A command exits with 2. */
export class UsageError extends Error {}
