// JSON lines with one name for each event of the process. WARN means that nothing was lost, ERROR
// that an operator must act.
import pino from "pino";
import { CENSORED, redactorOf } from "./keyring.ts";

type Fields = Readonly<Record<string, unknown>>;

/**
 * `event` names the event (`stage.stopped`), fields say where. It is never called once an event of
 * the stream. An Error goes into `error`.
 */
export interface Log {
  readonly debug: (event: string, fields?: Fields) => void;
  readonly info: (event: string, fields?: Fields) => void;
  readonly warn: (event: string, fields?: Fields) => void;
  readonly error: (event: string, fields?: Fields) => void;
  readonly with: (fields: Fields) => Log;
}

export interface LogSettings {
  readonly app: string;
  readonly level?: "debug" | "info" | "warn" | "error" | "silent";
  /** Censored anywhere in a line, because servers repeat received values in their errors. */
  readonly secrets?: readonly string[];
  /** Defaults to standard output. */
  readonly to?: { readonly write: (line: string) => void };
}

/**
 * Secrets and personal data, at the top level or inside one object such as `headers` or `body`.
 */
const SECRET = [
  ..."authorization cookie key token secret password signature pepper".split(" "),
  ..."email phone first_name last_name name_plain ip address".split(" "),
  ...["x-svc-signature", "x-signature", "stripe-signature", "webhook-signature", "set-cookie", "hmac_secret"].map(
    (name) => `["${name}"]`,
  ),
];
const paths = SECRET.flatMap((name) => [name, name.startsWith("[") ? `*${name}` : `*.${name}`]);

/**
 * Opaque tokens, signed user tokens, and keys in addresses of sources. No process has a list of
 * them.
 */
const TOKENS = String.raw`trb_[a-z]+_[\w-]{43}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}|(?<=[?&]key=)[\w%.~-]+`;
export const openLog = ({ app, level = "info", secrets = [], to }: LogSettings): Log => {
  const redact = redactorOf(secrets, [TOKENS]);
  const options: pino.LoggerOptions = {
    level,
    base: { app, pid: process.pid },
    messageKey: "event",
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (name) => ({ level: name }) },
    serializers: { error: pino.stdSerializers.errWithCause },
    redact: { paths, censor: CENSORED },
    hooks: { streamWrite: redact },
  };
  return wrap(to === undefined ? pino(options) : pino(options, to));
};

const wrap = (logger: pino.Logger): Log => {
  const at =
    (level: "debug" | "info" | "warn" | "error") =>
    (event: string, fields: Fields = {}): void =>
      logger[level](fields, event);
  return {
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    with: (fields) => wrap(logger.child(fields)),
  };
};
