// Generates the services of docker-compose.yml that are apps of the product, as text. What they
// share is written there by hand (`x-app`), and so is the value of every other variable
// (`x-variables`).
import { appLogins } from "../../../infra/postgres/logins.ts";
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

const serviceOf = (app: ProductApp): string => {
  const { name, module, login, args = [], container = {} } = app;
  const options = optionsOf(app);
  const asked = (container.asks ?? []).map((other) => `http://${other}:${PORT}`);
  const command = [...options, `dist/${module}`, ...args, ...asked].map(quoted).join(", ");
  const { role } = appLogins[login];
  const password = `\${POSTGRES_${variableOf(login)}_PASSWORD:-loopback-only}`;
  return [
    ...(container.comment === undefined ? [] : [`  # ${container.comment}`]),
    `  ${name}:`,
    "    <<: *app",
    ...(options.length === 0 ? [] : ["    # Behind the options of the image; Node takes the last of equal ones."]),
    `    command: [${command}]`,
    ...(container.port === undefined
      ? []
      : ["    ports:", `      - 127.0.0.1:\${${variableOf(name)}_PORT:-${container.port}}:${PORT}`]),
    "    environment:",
    "      <<: *environment",
    `      INSTANCE_NAME: ${name}`,
    `      POSTGRES_URL: postgres://${role}:${password}@postgres:5432/tributary`,
    ...ownVariables(app).map((variable) => `      ${variable}: *${variable}`),
    ...(container.spool === undefined
      ? []
      : ["    volumes:", `      - tributary:${HOME}`, `      - ${container.spool}:${HOME}/spool`]),
  ].join("\n");
};

export const servicesOf = (apps: readonly ProductApp[]): string => apps.map(serviceOf).join("\n\n");
