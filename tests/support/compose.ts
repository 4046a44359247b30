// docker-compose.yml as compose reads it, for tests that need no engine.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { parse } from "yaml";

export interface Probe {
  readonly test?: readonly string[];
  readonly disable?: boolean;
  readonly interval?: string;
  readonly start_interval?: string;
}
export interface Service {
  readonly image: string;
  readonly profiles?: readonly string[];
  readonly ports?: readonly string[];
  readonly environment?: Readonly<Record<string, string | number>>;
  readonly entrypoint?: readonly string[];
  readonly command?: readonly string[];
  readonly volumes?: readonly string[];
  readonly configs?: readonly { readonly source: string }[];
  readonly secrets?: readonly string[];
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
  readonly healthcheck?: Probe;
  readonly logging?: { readonly driver: string; readonly options: Readonly<Record<string, string>> };
  readonly mem_limit?: string;
  readonly network_mode?: string;
  readonly networks?: Readonly<Record<string, { readonly aliases: readonly string[] }>>;
  readonly build?: { readonly target?: string };
}
export interface Compose {
  readonly services: Readonly<Record<string, Service>>;
  readonly volumes: Readonly<Record<string, null>>;
  readonly configs: Readonly<Record<string, { readonly content: string }>>;
  readonly secrets: Readonly<Record<string, { readonly file: string }>>;
}

/** Replaces variables as compose does: by the environment, else by the default beside them. */
export const composeWith = (environment: Readonly<Record<string, string>> = {}): Compose => {
  const text = readFileSync("docker-compose.yml", "utf8").replace(
    /(?<!\$)\$\{(\w+):-([^}]*)\}/g,
    (_, name: string, fallback: string) => environment[name] || fallback,
  );
  expect(text.replaceAll("$$", ""), "every variable has a default").not.toContain("$");
  return parse(text, { merge: true, maxAliasCount: -1 });
};

/** The shell script of a service, a probe or a command, as the container sees it. */
export const scriptOf = (words: readonly string[]): string => words.at(-1)!.replaceAll("$$", "$");

/** Every character that means something in a URL, a shell, SQL, XML or YAML, and spaces. */
export const PASSWORD = ` p$a$${"{s}"}s "w'o\\rd\` @#/?:%25&<b>;{x}=é!* `;
export const SECRET = "pL3vQ9xT7mK1wZ8rN4sB6yD2hJ5cF0gA";

/** Writes a file for each secret of compose into the folder. */
export const writeSecrets = (folder: string, names: readonly string[]): void => {
  for (const name of names) writeFileSync(join(folder, name), `${name === "tributary" ? SECRET : PASSWORD}\n`);
};
/** The environment of a container whose secrets lie in the folder. */
export const environmentIn = (folder: string, { environment = {} }: Service): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(environment).map(([key, value]) => [key, String(value).replace("/run/secrets", folder)]),
  );
