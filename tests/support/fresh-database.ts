// A separate database on the shared Postgres, which a suite may break. It is a copy of a template
// that is migrated once a run.
import pg from "pg";
import { withAdvisoryLock } from "../../infra/postgres/advisory-lock.ts";
import { migrate } from "../../infra/postgres/migrate.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { appPasswordOf } from "../../modules/running/installation/steps.ts";
import { sharedStack } from "./shared-stack.ts";

export interface FreshDatabase {
  readonly adminUrl: string;
  readonly appPassword: string;
  readonly appUrl: string;
  /** Opens a pool with the application's role; `drop` closes it. */
  readonly pool: (options?: Parameters<typeof openPool>[1]) => pg.Pool;
  readonly adminPool: pg.Pool;
  /** Runs the migrations again, as the next deployment does. */
  readonly migrate: () => Promise<void>;
  readonly drop: () => Promise<void>;
}

const TEMPLATE = "test_template";
const DUPLICATE_DATABASE = "42P04";
const LONGEST_MS = 120_000;

/**
 * Makes `name` a copy of the template, which the first caller of a run migrates. Postgres cannot
 * copy a database that has connections, so callers take turns.
 */
const copyTemplate = async (server: string, appPassword: string, name: string): Promise<void> => {
  const template = new URL(server);
  template.pathname = `/${TEMPLATE}`;
  await withAdvisoryLock(server, TEMPLATE, LONGEST_MS, async () => {
    await once(server, `create database ${TEMPLATE}`).catch((error: pg.DatabaseError) => {
      if (error.code !== DUPLICATE_DATABASE) throw error;
    });
    await migrate(template.href, { appPassword });
    await once(server, `create database ${name} template ${TEMPLATE}`);
  });
};

let made = 0;
/**
 * A new database, migrated unless `empty` is set. Roles belong to the whole server, so the password
 * is that of the stack.
 */
export const freshDatabase = async (options: { readonly empty?: boolean } = {}): Promise<FreshDatabase> => {
  const { POSTGRES_ADMIN_URL: server, POSTGRES_URL: app } = sharedStack().env as Readonly<Record<string, string>>;
  const appPassword = appPasswordOf(app!);
  made += 1;
  const name = `test_${process.pid}_${Date.now()}_${made}`;
  const urlOf = (change: (url: URL) => void): string => {
    const url = new URL(server!);
    url.pathname = `/${name}`;
    change(url);
    return url.href;
  };
  const adminUrl = urlOf(() => undefined);
  if (options.empty) await once(server!, `create database ${name}`);
  else await copyTemplate(server!, appPassword, name);
  const pools: pg.Pool[] = [];
  const opened = (url: string, pool: Parameters<typeof openPool>[1] = {}): pg.Pool => {
    const made = openPool(url, pool);
    pools.push(made);
    return made;
  };
  const appUrl = urlOf((url) => {
    url.username = "tributary_app";
    url.password = appPassword;
  });
  return {
    adminUrl,
    appPassword,
    appUrl,
    pool: (pool) => opened(appUrl, pool),
    adminPool: opened(adminUrl),
    migrate: async () => void (await migrate(adminUrl, { appPassword: appPassword! })),
    drop: async () => {
      await Promise.all(pools.map((pool) => pool.end()));
      await once(server!, `drop database ${name} with (force)`);
    },
  };
};

const once = async (url: string, statement: string): Promise<void> => {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
};
