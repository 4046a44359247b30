// An empty database of its own on the shared Postgres, so that a suite may break it.
import pg from "pg";
import { migrate } from "../../infra/postgres/migrate.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { appPasswordOf } from "../../modules/running/installation/steps.ts";
import { sharedStack } from "./shared-stack.ts";

export interface FreshDatabase {
  readonly adminUrl: string;
  readonly appPassword: string;
  readonly appUrl: string;
  /** As the application role; closed by `drop`. */
  readonly pool: (options?: Parameters<typeof openPool>[1]) => pg.Pool;
  readonly adminPool: pg.Pool;
  /** Again, as at the next deployment. */
  readonly migrate: () => Promise<void>;
  readonly drop: () => Promise<void>;
}

let made = 0;
/**
 * Migrated unless `empty`. Roles belong to the whole server, so the password stays that of the
 * stack.
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
  await once(server!, `create database ${name}`);
  if (!options.empty) await migrate(adminUrl, { appPassword });
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
