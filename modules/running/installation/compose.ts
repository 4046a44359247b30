// Generates the services of docker-compose.yml that are apps of the product, as text. What they
// share is written there by hand (`x-app`), and so is the value of every other variable
// (`x-variables`).
import { appLogins } from "../../../infra/postgres/logins.ts";
import { fileVariablesOf } from "../../../infra/runtime/credentials/files.ts";
import { type Variable, variablesOf, variablesOfModule } from "../../../infra/runtime/environment.ts";
import { imageOptions, type ProductApp } from "./product.ts";

const HOME = "/home/node/.tributary";
/** Every app listens on this port in its container; the image sets it. */
const PORT = 8080;

const lists: readonly (readonly Variable[])[] = Object.values(variablesOf);
/**
 * Variables that `x-app` sets for all apps, the image, or the service itself.
 */
const isSetElsewhere = (name: Variable): boolean =>
  ["HOST", "PORT"].includes(name) || lists.every((list) => list.includes(name));
/**
 * The secrets with the passwords of the stores. Those of `x-app` are read by every app, and the
 * service of an app lists them again, because YAML merges no lists.
 */
const secretOf: Readonly<Partial<Record<Variable, string>>> = {
  TRIBUTARY_SECRET: "tributary",
  OBJECT_STORE_URL: "object-store",
  CLICKHOUSE_URL: "clickhouse-app",
  REDIS_URL: "redis-app",
  SMTP_URL: "smtp",
};
const passwordFileOf = (name: Variable): string => fileVariablesOf(name).at(-1)!;
const ownVariables = ({ module }: ProductApp): readonly Variable[] =>
  (variablesOfModule(module) ?? []).filter((name) => !isSetElsewhere(name)).toSorted();

const nameOf = (option: string): string => option.split("=")[0]!;
/** Node applies the last of repeated options. */
const lastOf = (options: readonly string[]): ReadonlyMap<string, string> =>
  new Map(options.map((option) => [nameOf(option), option]));

/** The Node options that the image does not set. */
const optionsOf = ({ nodeArgs = [] }: ProductApp): readonly string[] => {
  const given = lastOf(imageOptions);
  return [...lastOf(nodeArgs).values()].filter((option) => given.get(nameOf(option)) !== option);
};

const quoted = (word: string): string => (/^[\w./=-]+$/.test(word) ? word : JSON.stringify(word));
const variableOf = (name: string): string => name.toUpperCase().replaceAll("-", "_");

/** The volumes of `x-app` again, as YAML merges no lists, and its own. */
const volumesOf = ({ container: { volume } = {} }: ProductApp): readonly string[] =>
  volume === undefined
    ? []
    : [
        "    volumes:",
        "      - *home",
        "      - *objects",
        `      - \${${variableOf(volume.name)}_VOLUME:-${volume.name}}:${HOME}/${volume.folder}`,
      ];

const serviceOf = (app: ProductApp): string => {
  const { name, module, login, args = [], container = {} } = app;
  const options = optionsOf(app);
  const asked = (container.asks ?? []).map((other) => `http://${other}:${PORT}`);
  const command = [...options, `dist/${module}`, ...args, ...asked].map(quoted).join(", ");
  const { role } = appLogins[login];
  const read = variablesOfModule(module) ?? [];
  const secrets = [`postgres-${login}`, ...read.flatMap((variable) => secretOf[variable] ?? [])].toSorted();
  const profiles = container.profiles?.join(", ");
  // The service in its place begins from these.
  const [anchor, ofEnvironment] = profiles === undefined ? ["", ""] : [` &${name}`, ` &${name}-environment`];
  return [
    ...(container.comment === undefined ? [] : [`  # ${container.comment}`]),
    `  ${name}:${anchor}`,
    "    <<: *app",
    ...(profiles === undefined ? [] : [`    profiles: [${profiles}]`]),
    ...(options.length === 0 ? [] : ["    # Behind the options of the image; Node takes the last of equal ones."]),
    `    command: [${command}]`,
    ...(container.port === undefined
      ? []
      : ["    ports:", `      - 127.0.0.1:\${${variableOf(name)}_PORT:-${container.port}}:${PORT}`]),
    `    secrets: [${secrets.join(", ")}]`,
    `    environment:${ofEnvironment}`,
    "      <<: *environment",
    `      INSTANCE_NAME: ${name}`,
    `      POSTGRES_URL: postgres://${role}@postgres:5432/tributary`,
    `      POSTGRES_PASSWORD_FILE: /run/secrets/postgres-${login}`,
    ...ownVariables(app)
      .flatMap((variable) => (secretOf[variable] === undefined ? [variable] : [variable, passwordFileOf(variable)]))
      .map((variable) => `      ${variable}: *${variable}`),
    ...volumesOf(app),
  ].join("\n");
};

export const servicesOf = (apps: readonly ProductApp[]): string => apps.map(serviceOf).join("\n\n");
