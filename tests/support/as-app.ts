// The variables of a stack as an app of `npm start` gets them: those that it reads, with its own
// login to Postgres.
import { readJson, type Secrets } from "../../infra/embedded/home.ts";
import { type AppLogin, appLogins } from "../../infra/postgres/logins.ts";
import { variablesOf } from "../../infra/runtime/environment.ts";

type Variables = Readonly<Record<string, string>>;

/**
 * A test whose variables name another user, or a folder without the secrets of a stack, keeps its
 * address.
 */
export const asApp = (env: Variables, login: AppLogin): Variables => {
  const url = new URL(env.POSTGRES_URL!);
  const secrets = readJson<Secrets>(`${env.TRIBUTARY_HOME}/secrets.json`);
  const read: readonly string[] = variablesOf[login];
  const own = Object.fromEntries(Object.entries(env).filter(([name]) => read.includes(name)));
  if (url.username !== "tributary_app" || secrets === undefined) return own;
  url.username = appLogins[login].role;
  url.password = secrets.postgresLogins[login];
  return { ...own, POSTGRES_URL: url.href };
};
