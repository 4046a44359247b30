// Settings that hold a credential, read from files: `docker inspect` and the environment of a
// process show what is in a variable. It loads no package, because every command calls it.
import { readFileSync } from "node:fs";

/** The stores whose address may get its password from `<STORE>_PASSWORD_FILE`. */
const STORES = ["REDIS", "POSTGRES", "POSTGRES_ADMIN", "CLICKHOUSE", "OBJECT_STORE", "SMTP"];
/** The settings that may come from `<NAME>_FILE`. */
const SETTINGS = ["TRIBUTARY_SECRET", "KAFKA_BROKERS", "SCHEMA_REGISTRY_URL", ...STORES.map((store) => `${store}_URL`)];

type Variables = Readonly<Record<string, string | undefined>>;

/** The variables that name the files of this setting. */
export const fileVariablesOf = (name: string): readonly string[] => {
  if (!SETTINGS.includes(name)) return [];
  const store = name.replace(/_URL$/, "");
  return [`${name}_FILE`, ...(STORES.includes(store) ? [`${store}_PASSWORD_FILE`] : [])];
};

export interface Credentials {
  /** The environment with what the files hold. */
  readonly env: Variables;
  /** A line for each file that cannot be used; none shows what a file holds. */
  readonly problems: readonly string[];
}

/**
 * Reads the files of the named settings, of all by default. Line breaks at the end of a file are
 * not part of it; an empty file counts as none.
 */
export const withFiles = (given: Variables, names: readonly string[] = SETTINGS): Credentials => {
  const env: Record<string, string | undefined> = { ...given };
  const problems: string[] = [];
  const read = (variable: string): string => {
    const file = env[variable];
    if (!file) return "";
    try {
      return readFileSync(file, "utf8").replace(/[\r\n]+$/, "");
    } catch (error) {
      problems.push(`${variable}: ${file} cannot be read: ${(error as NodeJS.ErrnoException).code ?? error}`);
      return "";
    }
  };
  for (const name of SETTINGS.filter((one) => names.includes(one))) {
    const text = read(`${name}_FILE`);
    if (text !== "" && env[name]) problems.push(`${name}: is given twice, by itself and by ${name}_FILE`);
    else if (text !== "") env[name] = text;
  }
  for (const store of STORES.filter((one) => names.includes(`${one}_URL`))) {
    const [name, variable] = [`${store}_URL`, `${store}_PASSWORD_FILE`];
    const password = read(variable);
    const address = env[name];
    if (password === "" || !address || !URL.canParse(address)) continue;
    const url = new URL(address);
    if (url.password !== "") problems.push(`${variable}: ${name} has a password already`);
    else if (url.username === "") problems.push(`${variable}: ${name} names no user`);
    else {
      url.password = encodeURIComponent(password);
      env[name] = url.href;
    }
  }
  return { env, problems };
};
