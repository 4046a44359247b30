// Every variable that the product reads, declared once: its effect, its form and its default.
// `.env.example` is written from this list; it has at most 31 variables.
import ipaddr from "ipaddr.js";
import { z } from "zod";
import { withFiles } from "./credentials/files.ts";
import { type Keyring, keyringOf } from "./keyring.ts";
import { isLoopback } from "./same-machine.ts";

const port = (fallback: number) => z.coerce.number().int().min(0).max(65_535).default(fallback);
/**
 * A port on the loopback, or a port with the address that it is opened on, e.g. `10.0.0.5:9080`.
 */
const sidePort = z
  .string()
  .regex(/^(?:(?:\[[0-9a-fA-F:]+\]|[^:\s]+):)?\d{1,5}$/, "must be a port, or address:port")
  .default("9080")
  .transform((text) => {
    const [, host = "127.0.0.1", number] = /^(?:\[?(.+?)\]?:)?(\d+)$/.exec(text)!;
    return { host, port: Number(number) };
  })
  .refine(({ port }) => port <= 65_535, "must be a port, or address:port");
const optional = z.string().min(1).optional();
/**
 * The prefixes of the largest private networks, 10.0.0.0/8 (RFC 1918) and fc00::/7 (RFC 4193). With
 * a shorter one anybody could say who the sender is.
 */
const SHORTEST_PREFIX = { ipv4: 8, ipv6: 7 };
const isRange = (entry: string): boolean => {
  if (ipaddr.isValid(entry)) return true;
  if (!ipaddr.isValidCIDR(entry)) return false;
  const [base, bits] = ipaddr.parseCIDR(entry);
  return bits >= SHORTEST_PREFIX[base.kind()];
};
/**
 * Names that express knows, or addresses and CIDR ranges of our own proxies: only these may say who
 * the sender is.
 */
const proxies = z
  .string()
  .default("")
  .transform((list) =>
    list
      .split(",")
      .map((entry) => entry.trim())
      .filter((entry) => entry !== ""),
  )
  .refine(
    (list) => list.every((entry) => ["loopback", "linklocal", "uniquelocal"].includes(entry) || isRange(entry)),
    "must be addresses or CIDR ranges of your proxies, at least /8 (IPv6: /7), e.g. 10.0.0.0/8,loopback",
  );

const keyring = z.string().transform((text, context): Keyring => {
  try {
    return keyringOf(text);
  } catch (error) {
    context.addIssue({ code: "custom", message: (error as Error).message });
    return z.NEVER;
  }
});
/** True for https, and for plain text that does not leave this machine. */
const isPrivate = (address: string): boolean => {
  if (!URL.canParse(address)) return true;
  const { protocol, hostname } = new URL(address);
  return protocol === "https:" || (protocol === "http:" && isLoopback(hostname));
};
/** True for an address to which a path can be added. */
const isBare = (address: string): boolean => {
  if (!URL.canParse(address)) return true;
  const { username, password, search, hash } = new URL(address);
  return `${username}${password}${search}${hash}` === "";
};
/** True for an address of a mail server that says who gets the alerts. */
const hasRecipient = (address: string): boolean =>
  !URL.canParse(address) || /[^\s,]/.test(new URL(address).searchParams.get("to") ?? "");
/** The API of Mercado Pago itself. */
export const MERCADOPAGO = "https://api.mercadopago.com";
/** True for an origin: a path that people are shown is put behind it. */
const isOrigin = (address: string): boolean => {
  if (!URL.canParse(address)) return false;
  const { protocol, pathname, search, hash, username, password } = new URL(address);
  return /^https?:$/.test(protocol) && pathname === "/" && search + hash + username + password === "";
};
const publicOrigin = z
  .string()
  .refine(isOrigin, "must be an origin without a path or query, e.g. https://go.example.com")
  .transform((address) => new URL(address).origin)
  .optional();

/** `needed`: required in production, where no embedded stack fills it in. */
const variable = <Schema extends z.ZodType>(
  schema: Schema,
  effect: string,
  needed: "needed" | "optional" = "optional",
) => ({
  schema,
  effect,
  needed,
});

export const variables = {
  TRIBUTARY_HOME: variable(
    optional,
    "Folder of the embedded stack: data, logs, run.json. Default .tributary in the repository.",
  ),
  TRIBUTARY_SECRET: variable(
    keyring,
    "The secret that every key derives from; a list while one takes the place of another: new,old then " +
      "new,pepper:old. Losing the last one orphans device ids; docs/security.md.",
    "needed",
  ),
  KAFKA_BROKERS: variable(
    z.string().min(1),
    "host:port,host:port, or for TLS kafkas://user:password@host:port,...?sasl=scram-sha-512 (ca, " +
      "cert, key: PEM files).",
    "needed",
  ),
  KAFKA_TOPIC_PREFIX: variable(
    z.string().default(""),
    "Put before every topic and group name, for clusters that are shared.",
  ),
  SCHEMA_REGISTRY_URL: variable(z.url(), "A registry that speaks the Confluent routes.", "needed"),
  REDIS_URL: variable(z.url(), "redis:// or rediss:// (TLS).", "needed"),
  POSTGRES_URL: variable(
    z.url(),
    "The application's role, which owns nothing: postgres://tributary_app:password@...; migrations give the role " +
      "this password. ?sslmode=verify-full for TLS.",
    "needed",
  ),
  POSTGRES_ADMIN_URL: variable(z.url().optional(), "The owner of the tables; only migrations use it."),
  CLICKHOUSE_URL: variable(z.url(), "http(s)://user:password@host:8123/database.", "needed"),
  OBJECT_STORE_URL: variable(
    z.string().regex(/^(file:\/\/\/.|s3:\/\/.+\/.)/, "must be file:///folder or s3://key:secret@host/bucket"),
    "Object storage of the archive and the last resort: file:///folder, or " +
      "s3://key:secret@host:port/bucket?region=...&tls=false.",
    "needed",
  ),
  SMTP_URL: variable(
    z
      .url({ protocol: /^smtps?$/ })
      .refine(hasRecipient, "must be smtp(s)://user:password@host:port/?from=...&to=a@x,b@y")
      .optional(),
    "Mail server of alerts: smtp(s)://user:password@host:port/?from=...&to=a@x,b@y; without it alerts are only kept.",
  ),
  MERCADOPAGO_URL: variable(
    z
      .url({ protocol: /^https?$/ })
      .refine(isBare, "must be an address alone: without a password, ? and #")
      .default(MERCADOPAGO),
    "Where the ingest host asks what was paid. Any other host may be private and http; it gets the access tokens of " +
      "all accounts.",
  ),
  RESTART_COMMAND: variable(
    optional,
    "How the keeper restarts a store, words without a shell, e.g. `systemctl restart {service}`; {service} is " +
      "clickhouse, redis or kafka. From a container: docs/compose.md. Without it, and without the embedded stack, it " +
      "only alerts.",
  ),
  OIDC_ISSUER: variable(
    z.url().refine(isPrivate, "must be https: what answers in its place could sign tokens").optional(),
    "Identity provider of user tokens, https off this machine; with it the embedded one is not started.",
  ),
  PORTAL_URL: variable(
    publicOrigin.refine(
      (origin) => origin === undefined || isPrivate(origin),
      "must be https: what reads answers in its place could read them all",
    ),
    "Where the portal is, e.g. https://portal.example.com: its pages alone may read the API from another origin, and " +
      "mails link to it; without it an invitation has its bare code.",
  ),
  DOCS_URL: variable(
    z
      .url({ protocol: /^https?$/ })
      .refine(isBare, "must be an address alone: without a password, ? and #")
      .transform((address) => address.replace(/\/+$/, ""))
      .optional(),
    "Where people read docs/ of this release, e.g. https://wiki.example.com/tributary for its /docs/operate.md; " +
      "mails of alerts link there, and without it they name the file.",
  ),
  TRACKING_URL: variable(
    publicOrigin,
    "Public address of the host of tracking links, e.g. https://go.example.com; without it links are shown as paths.",
  ),
  PIXEL_URL: variable(
    publicOrigin,
    "Public address of the host of pixels; without it the snippet has {pixel_url} in its place.",
  ),
  INGEST_URL: variable(
    publicOrigin,
    "Public address of the ingest host; without it the addresses of sources and payment providers are shown as paths.",
  ),
  UPLOAD_URL: variable(
    publicOrigin,
    "Public address of the host of uploads; without it the addresses of parts are shown as paths.",
  ),
  HOST: variable(z.string().min(1).default("127.0.0.1"), "Address that apps listen on."),
  PORT: variable(port(8080), "Port of an app."),
  OPS_PORT: variable(
    sidePort,
    "Side port: /livez, /readyz, /metrics. On the loopback; address:port where your own network asks it, e.g. " +
      "0.0.0.0:9080 in a container.",
  ),
  INSTANCE_NAME: variable(
    z
      .string()
      .regex(/^[A-Za-z0-9._-]{1,64}$/, "must be 1 to 64 of A-Z a-z 0-9 . _ -")
      .default("tributary"),
    "Stable name of a process; in its log lines and as its Kafka client id.",
  ),
  TRUSTED_PROXIES: variable(proxies, "Proxies whose X-Forwarded-For is believed: addresses or CIDR ranges."),
  TLS_CERT_FILE: variable(
    optional,
    "PEM certificate chain; with TLS_KEY_FILE apps serve https, TLS 1.3 at least, on their side " +
      "ports too. Read again when it changes.",
  ),
  TLS_KEY_FILE: variable(optional, "PEM private key of TLS_CERT_FILE."),
  GEOIP_CITY_DB: variable(
    optional,
    "A city or country database (.mmdb) of yours, before the country data that is shipped.",
  ),
  GEOIP_ASN_DB: variable(
    optional,
    "A database of autonomous systems (.mmdb) of yours; without it networks have no number.",
  ),
  NETWORKS_FILE: variable(
    optional,
    "Your list of networks, a line each: a range or AS number, then hosting, vpn, tor or isp; " +
      "without it the rule address_class is off.",
  ),
  LOG_LEVEL: variable(z.enum(["debug", "info", "warn", "error", "silent"]).default("info"), "How much is logged."),
};
export type Variable = keyof typeof variables;

/** The variables of every app that opens a port. */
const serverVariables = [
  "HOST",
  "PORT",
  "OPS_PORT",
  "INSTANCE_NAME",
  "LOG_LEVEL",
  "TLS_CERT_FILE",
  "TLS_KEY_FILE",
  "TRUSTED_PROXIES",
] as const satisfies readonly Variable[];
/**
 * The variables of every app that hosts an edge: where its events go, and how it finds clients.
 */
export const edgeVariables = [
  ...serverVariables,
  "KAFKA_BROKERS",
  "KAFKA_TOPIC_PREFIX",
  "SCHEMA_REGISTRY_URL",
  "POSTGRES_URL",
  "OBJECT_STORE_URL",
  "TRIBUTARY_HOME",
  "TRIBUTARY_SECRET",
] as const satisfies readonly Variable[];

const sideVariables = ["OPS_PORT", "INSTANCE_NAME", "LOG_LEVEL", "TLS_CERT_FILE", "TLS_KEY_FILE"] as const;
const logVariables = ["KAFKA_BROKERS", "KAFKA_TOPIC_PREFIX", "SCHEMA_REGISTRY_URL"] as const;
const storeVariables = ["REDIS_URL", "POSTGRES_URL", "CLICKHOUSE_URL", "OBJECT_STORE_URL", "TRIBUTARY_SECRET"] as const;
const placeVariables = ["GEOIP_CITY_DB", "GEOIP_ASN_DB", "NETWORKS_FILE"] as const;

/**
 * The variables that each app reads, by the name of its folder in `apps/`. `npm start` and
 * docker-compose.yml give a process these and no others.
 */
export const variablesOf = {
  ingest: [...edgeVariables, "REDIS_URL", "CLICKHOUSE_URL", "MERCADOPAGO_URL"],
  links: edgeVariables,
  pixel: edgeVariables,
  upload: edgeVariables,
  worker: [...sideVariables, ...placeVariables, ...logVariables, ...storeVariables],
  api: [
    ...serverVariables,
    ...logVariables,
    ...storeVariables,
    ...(["OIDC_ISSUER", "SMTP_URL", "PORTAL_URL", "DOCS_URL"] as const),
    ...(["TRACKING_URL", "PIXEL_URL", "INGEST_URL", "UPLOAD_URL"] as const),
  ],
  keeper: [
    ...sideVariables,
    ...placeVariables,
    ...logVariables,
    ...storeVariables,
    "SMTP_URL",
    "DOCS_URL",
    "RESTART_COMMAND",
    "TRIBUTARY_HOME",
  ],
} as const satisfies Readonly<Record<string, readonly Variable[]>>;

/** Undefined for a module that is no app of the product. */
export const variablesOfModule = (module: string): readonly Variable[] | undefined => {
  const name = /^apps\/(\w+)\/main\.js$/.exec(module)?.[1] ?? "";
  return Object.hasOwn(variablesOf, name) ? variablesOf[name as keyof typeof variablesOf] : undefined;
};

export type Environment<Names extends Variable> = {
  readonly [Name in Names]: z.output<(typeof variables)[Name]["schema"]>;
};

const parsedEnvironment = (names: readonly Variable[], given: Readonly<Record<string, string | undefined>>) => {
  const { env, problems: ofFiles } = withFiles(given, names);
  const shape = Object.fromEntries(names.map((name) => [name, variables[name].schema]));
  const parsed = z.object(shape).safeParse(Object.fromEntries(Object.entries(env).filter(([, value]) => value !== "")));
  const has = (name: string) => env[name] !== undefined && env[name] !== "";
  /** Says where a missing setting was expected. */
  const fileOf = (name: string) => (!has(name) && has(`${name}_FILE`) ? ` (${name}_FILE holds nothing)` : "");
  const ofValues = parsed.success
    ? []
    : parsed.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}${fileOf(path.join("."))}`);
  const problems = [...ofFiles, ...ofValues];
  if (names.includes("TLS_CERT_FILE") && has("TLS_CERT_FILE") !== has("TLS_KEY_FILE"))
    problems.push("TLS_CERT_FILE and TLS_KEY_FILE: must be given together");
  return { problems, data: parsed.data };
};

/**
 * Names every one of the variables that is missing or wrong, a line each. Values are never shown,
 * because some are secrets.
 */
export const environmentProblems = (
  names: readonly Variable[],
  given: Readonly<Record<string, string | undefined>>,
): readonly string[] => parsedEnvironment(names, given).problems;

/**
 * Reads the named variables, and the files that hold credentials; an empty one counts as missing.
 * Throws one Error that names every variable that is missing or wrong.
 */
export const readEnvironment = <Names extends Variable>(
  app: string,
  names: readonly Names[],
  given: Readonly<Record<string, string | undefined>>,
): Environment<Names> => {
  const { problems, data } = parsedEnvironment(names, given);
  if (problems.length > 0)
    throw new Error(
      `the configuration of ${app} is not usable:\n${problems.map((problem) => `  ${problem}`).join("\n")}`,
    );
  return Object.freeze(data) as unknown as Environment<Names>;
};
