// As whom programs come to the embedded stores: each may do what it is for.

/** Changes tables of ClickHouse: migrations and the command line. */
export const CLICKHOUSE_OWNER = "tributary_owner";
/** Reads and inserts. */
export const CLICKHOUSE_APP = "tributary_app";

/** Everything: the command line, and tests that empty Redis. */
export const REDIS_OWNER = "tributary_owner";
/** What rates, hints and fast memory need; nothing that empties, reads or sets up the server. */
export const REDIS_APP = "tributary_app";
