// Sends mails through the server of SMTP_URL: alerts to its addresses, other mails to their own
// recipients.
import nodemailer from "nodemailer";
import { isLoopback } from "../../../infra/runtime/same-machine.ts";
import type { Alert } from "./alert.ts";
import { guideOf } from "./guide.ts";

interface PostedMail {
  readonly to: string;
  readonly subject: string;
  readonly text: string;
  readonly html: string;
  readonly messageId: string;
}
export interface Mailer {
  /** Resolves when the server has taken the mail. */
  readonly send: (alert: Alert) => Promise<void>;
  /** Does the same for any other mail. */
  readonly post: (mail: PostedMail) => Promise<void>;
  readonly close: () => void;
}

// A working mail server answers each step within seconds. A longer wait would delay the keeper's
// probes.
const STEP_MS = 5_000;

/**
 * The URL has the form `smtp(s)://user:password@host:port/?from=...&to=a@x,b@y`. Returns undefined
 * without a URL; alerts are then only stored. Throws Error when `to` names no address. `docs` is
 * the address below which people read docs/.
 */
export const openMailer = (url: string | undefined, docs?: string): Mailer | undefined => {
  if (url === undefined) return undefined;
  const { from, to, server } = partsOf(url);
  const transport = nodemailer.createTransport({
    ...server,
    connectionTimeout: STEP_MS,
    greetingTimeout: STEP_MS,
    socketTimeout: 2 * STEP_MS,
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  return {
    send: async (alert) => void (await transport.sendMail({ from, to, ...mailOf(alert, docs) })),
    // As an object, the address cannot contain a list or group that adds recipients.
    post: async (mail) => void (await transport.sendMail({ from, ...mail, to: { name: "", address: mail.to } })),
    close: () => transport.close(),
  };
};

const partsOf = (url: string) => {
  const { protocol, hostname, port, username, password, searchParams } = new URL(url);
  const to = (searchParams.get("to") ?? "").split(",").flatMap((address) => oneLine(address).trim() || []);
  if (!["smtp:", "smtps:"].includes(protocol) || to.length === 0)
    throw new Error("SMTP_URL: must be smtp(s)://user:password@host:port/?from=...&to=a@x,b@y");
  const isSecure = protocol === "smtps:";
  return {
    from: oneLine(searchParams.get("from") ?? "tributary@localhost"),
    to,
    server: {
      host: hostname,
      port: port === "" ? (isSecure ? 465 : 587) : Number(port),
      secure: isSecure,
      // Beyond this machine a mail needs TLS, because it describes what is broken.
      requireTLS: !isSecure && !isLoopback(hostname),
      ...(username !== "" && { auth: { user: decodeURIComponent(username), pass: decodeURIComponent(password) } }),
    },
  };
};

/** A page of docs/ that a text names by its file, and not within an address. */
const PAGE = /(?<![\w/.:-])docs\/[\w/-]+\.md(?:#[\w-]+)?/g;

/**
 * Builds subject, text and id of the mail. Line breaks in texts from outside reach no header. Pages
 * are links if people can read them anywhere.
 */
export const mailOf = (
  { service, status, reason, duration, timestamp, incident_id, severity }: Alert,
  docs?: string,
) => {
  const mark = severity === "critical" ? "CRITICAL: " : "";
  const what = status === "down" ? "is down" : `has recovered${duration === undefined ? "" : ` after ${duration}`}`;
  const guide = status === "down" ? guideOf(service) : undefined;
  const lines = [
    `${service}${guide === undefined ? "" : ` (${guide.name})`} ${what}.`,
    "",
    `Reason:    ${reason}`,
    ...(guide === undefined
      ? []
      : [`Effect:    ${guide.effect}`, `Type:      ${guide.command}`, `Then read: ${guide.page}`]),
    ...(duration === undefined ? [] : [`Downtime:  ${duration}`]),
    `Time:      ${timestamp}`,
    `Incident:  ${incident_id}`,
    "",
    "All alerts: npx tributary alerts",
  ];
  return {
    subject: oneLine(`[Tributary] ${mark}${service} ${what}`).slice(0, 200),
    text: docs === undefined ? lines.join("\n") : lines.join("\n").replace(PAGE, (page) => `${docs}/${page}`),
    // A mail that is sent again after a crash keeps its id, so that mail systems recognise it.
    messageId: `<${oneLine(`${incident_id}.${status}.${severity}`).replace(/[^A-Za-z0-9._-]/g, "-")}@tributary.alerts>`,
  };
};

// biome-ignore lint/suspicious/noControlCharactersInRegex: it is these that must not reach a header
const oneLine = (text: string): string => text.replace(/[\u0000-\u001f\u007f\u0085\u2028\u2029]+/g, " ");
