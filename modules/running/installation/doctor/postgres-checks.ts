// Checks that ask Postgres: its version, its clock, users, retention and hosting.
import pg from "pg";
import { openPool } from "../../../../infra/postgres/sql.ts";
import { pipeline } from "../../../../topology.ts";
import { type UnsignedSource, unsignedSources } from "../../../intake/sources/source-reads.ts";
import { hostings } from "../../../log/groups/group-holds.ts";
import { unhosted } from "../../../log/groups/hosts.ts";
import { clientRetentions } from "../../../privacy/retention.ts";
import { firstSteps } from "../first-steps.ts";
import { bad, type Finding, good } from "./finding.ts";

/** Postgres error codes for a table, and for a role, that the migrations have not made yet. */
const NOT_MIGRATED: readonly unknown[] = ["42P01", "22023"];

/** docs/design/contracts.md, "Retention". */
const MOST_MONTHS = 24;

// Beyond this skew, windows decided by two clocks may differ (docs/design/laws.md, "Clocks").
const CLOCK_SKEW_LIMIT_MS = 300;
async function withPostgres<T>(url: string, ask: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000, query_timeout: 2_000 });
  client.on("error", () => undefined);
  try {
    await client.connect();
    return await ask(client);
  } finally {
    await client.end().catch(() => undefined);
  }
}

export async function checkPostgres(url: string): Promise<Finding> {
  const version = await withPostgres(
    url,
    async (client) => (await client.query("SHOW server_version")).rows[0].server_version as string,
  );
  return Number.parseInt(version, 10) >= 15
    ? good(`Postgres ${version}`)
    : bad(`Postgres ${version}`, "use Postgres 15 or newer");
}

/** Users of the demonstration may exist only where its identity provider runs. */
export async function checkUsers(url: string, isDemo: boolean): Promise<Finding> {
  const steps = isDemo ? [] : await askApplication(url, firstSteps);
  if (steps === undefined) return notMigrated;
  if (steps.length === 0) return good(isDemo ? "those of the demonstration" : "an admin can come in");
  return bad(steps.map(({ what }) => what).join("; "), steps.map(({ cure }) => cure).join("; "));
}

const notMigrated = bad("the tables are not there, or of an older release", "npx tributary migrate apply");

/** Runs a query; undefined when the migrations have not made its tables or role yet. */
async function askApplication<T>(url: string, ask: (pool: pg.Pool) => Promise<T>): Promise<T | undefined> {
  const pool = openPool(url, { name: "tributary-doctor", max: 1, timeoutMs: 2_000 });
  try {
    return await ask(pool);
  } catch (error) {
    if (!NOT_MIGRATED.includes((error as { readonly code?: string }).code)) throw error;
    return undefined;
  } finally {
    await pool.end();
  }
}

/** Reports how long events are kept, and what is not purged, so that no one promises it. */
export async function checkRetention(url: string): Promise<Finding> {
  const clients = await askApplication(url, clientRetentions);
  if (clients === undefined) return notMigrated;
  const shorter = clients.filter(({ months }) => months < MOST_MONTHS).map(({ slug, months }) => `${slug} ${months}`);
  const own = shorter.length === 0 ? "" : `, fewer for ${shorter.join(", ")}`;
  return good(
    `events are kept ${MOST_MONTHS} months${own}; then orders, refunds, leads and installs stay without their ` +
      "visitor; claims, conversions and what settle remembers of them keep it for good (docs/privacy.md)",
  );
}

/**
 * A sink without a worker silently loses what retention removes from its topic, including choices
 * of consent.
 */
export async function checkHosting(url: string): Promise<Finding> {
  const recorded = await askApplication(url, hostings);
  if (recorded === undefined) return notMigrated;
  if (recorded.length === 0) return good("no worker has joined yet");
  const missing = unhosted(pipeline, recorded);
  return missing.length === 0
    ? good("every stage and sink")
    : bad(`no worker hosts ${missing.join(", ")}`, "give them to a worker: docs/operate.md shows its arguments");
}

/** Generic sources without a secret. */
export async function checkSources(url: string): Promise<Finding> {
  const sources = await askApplication(url, unsignedSources);
  if (sources === undefined) return notMigrated;
  const named = (list: readonly UnsignedSource[]): string =>
    list.map(({ source_id, client_id, slug }) => `src_${source_id} (${slug} of client ${client_id})`).join(", ");
  const open = sources.filter(({ unsigned }) => unsigned === null);
  if (open.length > 0)
    return bad(
      `anyone can send sales in the name of ${named(open)}: no secret, and its client has not chosen that`,
      "give it a secret, or say unsigned: true, with unsigned_money where it shall (docs/sources/webhook.md)",
    );
  const paid = sources.filter(({ unsigned_money }) => unsigned_money);
  const unpaid = sources.filter(({ unsigned_money }) => !unsigned_money);
  const chosen = [
    ...(paid.length > 0 ? [`by choice anyone can send sales in the name of ${named(paid)}`] : []),
    ...(unpaid.length > 0 ? [`by choice anyone can send events without money in the name of ${named(unpaid)}`] : []),
  ];
  return good(chosen.length === 0 ? "every active one has a secret or a key" : chosen.join("; "));
}

export async function checkClock(url: string): Promise<Finding> {
  const skewMs = await withPostgres(url, async (client) => {
    const before = Date.now();
    const { rows } = await client.query("SELECT extract(epoch FROM clock_timestamp()) * 1000 AS now");
    // The server most likely read its clock in the middle of the round trip.
    return Number(rows[0].now) - (before + Date.now()) / 2;
  });
  const detail = `${Math.abs(skewMs).toFixed(0)} ms between this machine and Postgres`;
  return Math.abs(skewMs) <= CLOCK_SKEW_LIMIT_MS
    ? good(detail)
    : bad(detail, "let both machines keep their clocks by NTP");
}
