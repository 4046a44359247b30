// The users of programs in the embedded stores: each has the rights that it needs.

/** May change tables of ClickHouse: for migrations and the command line. */
export const CLICKHOUSE_OWNER = "tributary_owner";
/** May read and insert. */
export const CLICKHOUSE_APP = "tributary_app";

/** May do everything: for the command line, and for tests that empty Redis. */
export const REDIS_OWNER = "tributary_owner";
/** May do what rates, hints and fast memory need, but not empty, read or set up the server. */
export const REDIS_APP = "tributary_app";
