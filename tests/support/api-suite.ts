// The set-up of a suite that sends requests to the platform API: a running API, tokens of the five
// roles, the database behind it, and unused names.
import { afterAll, beforeAll } from "vitest";
import { openPool } from "../../infra/postgres/sql.ts";
import { type RunningApi, startApi } from "./api.ts";
import { type Asked, asker } from "./ask.ts";
import { sharedStack } from "./shared-stack.ts";

type Headers = Readonly<Record<string, string>>;
/** Users of the demonstration, by the first part of their addresses. */
const people = ["admin", "manager", "partner", "client", "viewer"];

/**
 * Call it once, at the top of a test file: it starts the API before the tests and closes it after
 * them. `own` adds environment variables to those of the stack.
 */
export const apiSuite = (own: Readonly<Record<string, string>> = {}) => {
  const { env, demo } = sharedStack();
  /** A pool with the role of the application, under which row-level security holds. */
  const pool = openPool(env.POSTGRES_URL!, { max: 2 });
  /** A pool of the owner of the tables, who sees every row. */
  const owner = openPool(env.POSTGRES_ADMIN_URL!, { max: 2 });
  let running: RunningApi;
  const tokens: Record<string, string> = {};
  beforeAll(async () => {
    running = await startApi({ ...env, ...own });
    for (const one of people) tokens[one] = await running.token(`${one}@demo.tributary.test`);
  });
  afterAll(async () => {
    await running.close();
    await Promise.all([pool.end(), owner.end()]);
  });

  const ask = asker(() => running.url);
  const as = (role: string, path: string, more: Asked = {}) => ask(path, { ...more, token: tokens[role] });
  const send = (method: string, path: string, body?: unknown, role = "admin", headers: Headers = {}) =>
    as(role, path, { method, body, headers });
  const stamp = Date.now().toString(36);
  let made = 0;
  return {
    ...{ env, demo, pool, owner, tokens, ask, as, send },
    running: () => running,
    read: (path: string, role = "admin") => as(role, path),
    /** Slugs and addresses cannot be used twice, so each record of a test has its own. */
    fresh: (what: string): string => {
      made += 1;
      return `${what}-${stamp}-${made}`;
    },
  };
};
