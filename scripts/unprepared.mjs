/** A problem that only the user can solve. Its message is one sentence for people. */
export class Unprepared extends Error {}
