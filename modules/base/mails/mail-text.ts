// Texts of mails in Spanish and English, as plain text and as HTML with the same sentences.
import { createHash } from "node:crypto";
import { startOfDay } from "../../../domain/calendar.ts";
import { englishBackfills, spanishBackfills } from "./backfill-words.ts";
import type { Mail, MailFacts, Template } from "./mails.ts";
import { englishPlans, spanishPlans } from "./plan-words.ts";
import { englishQuota, spanishQuota } from "./quota-words.ts";
import type { DateWords, Writer } from "./words.ts";

export interface WrittenMail {
  readonly to: string;
  readonly subject: string;
  readonly text: string;
  readonly html: string;
  readonly messageId: string;
}
/** The link or token in the mail; undefined: it has none. */
export type Lead = { readonly label: "link" | "token"; readonly value: string } | undefined;

const spanish: Readonly<Record<Template, Writer>> = {
  invitation_partner: ({ inviter, clients, expires_at }, { day }) => ({
    subject: `Invitación para trabajar con ${clients}`,
    sentences: [
      `${inviter} le invita a trabajar con ${clients}.`,
      `La invitación vale hasta el ${day(expires_at)}, para una sola persona.`,
    ],
  }),
  invitation_client: ({ inviter, name, expires_at }, { day }) => ({
    subject: `Acceso al portal de ${name}`,
    sentences: [
      `${inviter} le invita al portal de ${name}.`,
      `La invitación vale hasta el ${day(expires_at)}, para una sola persona.`,
    ],
  }),
  invitation_accepted: ({ inviter, name }) => ({
    subject: `${inviter} ha aceptado`,
    sentences: [`${inviter} ha aceptado su invitación a ${name}.`],
  }),
  secret_regenerated: ({ actor, name, at }, { moment }) => ({
    subject: `Nuevo secreto de firma de ${name}`,
    sentences: [
      `${actor} creó otro secreto de firma de ${name} el ${moment(at)}.`,
      "El anterior ya no vale: lo que se firme con él se rechaza.",
      "El nuevo no está en este mensaje: se mostró una sola vez a quien lo creó.",
    ],
  }),
  upload_token_rotated: ({ actor, name, at }, { moment }) => ({
    subject: "Su token de carga ha cambiado",
    sentences: [
      `${actor} cambió el token de carga de ${name} el ${moment(at)}.`,
      "El anterior ya no vale: lo que se cargue con él se rechaza.",
      "El nuevo no está en este mensaje: pídalo a quien lo cambió.",
    ],
  }),
  campaign_launched: ({ campaign, name, link, starts_on, ends_on, paid_for }, { days }) => ({
    subject: `${campaign}: su enlace`,
    sentences: [
      `La campaña ${campaign} de ${name} está activa${days(starts_on, ends_on)}.`,
      `Su enlace en el servidor de enlaces: ${link}`,
      ...(paid_for === "" ? [] : [`Se le paga por: ${paid_for}.`]),
    ],
  }),
  ...spanishPlans,
  ...spanishBackfills,
  ...spanishQuota,
};
const english: Readonly<Record<Template, Writer>> = {
  invitation_partner: ({ inviter, clients, expires_at }, { day }) => ({
    subject: `Invitation to work with ${clients}`,
    sentences: [
      `${inviter} invites you to work with ${clients}.`,
      `The invitation is good until ${day(expires_at)}, for one person.`,
    ],
  }),
  invitation_client: ({ inviter, name, expires_at }, { day }) => ({
    subject: `Access to the ${name} portal`,
    sentences: [
      `${inviter} invites you to the portal of ${name}.`,
      `The invitation is good until ${day(expires_at)}, for one person.`,
    ],
  }),
  invitation_accepted: ({ inviter, name }) => ({
    subject: `${inviter} has accepted`,
    sentences: [`${inviter} has accepted your invitation to ${name}.`],
  }),
  secret_regenerated: ({ actor, name, at }, { moment }) => ({
    subject: `New signing secret for ${name}`,
    sentences: [
      `${actor} made another signing secret for ${name} on ${moment(at)}.`,
      "The former is good for nothing from now on: what it signs is refused.",
      "The new one is not in this mail: it was shown once, to the person who made it.",
    ],
  }),
  upload_token_rotated: ({ actor, name, at }, { moment }) => ({
    subject: "Your upload token has changed",
    sentences: [
      `${actor} changed the upload token of ${name} on ${moment(at)}.`,
      "The former is good for nothing from now on: what is uploaded with it is refused.",
      "The new one is not in this mail: ask the person who changed it.",
    ],
  }),
  campaign_launched: ({ campaign, name, link, starts_on, ends_on, paid_for }, { days }) => ({
    subject: `${campaign}: your link`,
    sentences: [
      `The campaign ${campaign} of ${name} is active${days(starts_on, ends_on)}.`,
      `Your link on the host of links: ${link}`,
      ...(paid_for === "" ? [] : [`You are paid for: ${paid_for}.`]),
    ],
  }),
  ...englishPlans,
  ...englishBackfills,
  ...englishQuota,
};
const leads = {
  es: { link: "Aceptar la invitación", token: "Código de la invitación" },
  en: { link: "Accept the invitation", token: "Code of the invitation" },
} as const;

const ZONE = "America/Mexico_City";
const writtenIn = (locale: "es" | "en"): DateWords => {
  const tag = locale === "es" ? "es-MX" : "en-US";
  const long = new Intl.DateTimeFormat(tag, { dateStyle: "long", timeZone: ZONE });
  const ofMonth = new Intl.DateTimeFormat(tag, { month: "long", year: "numeric", timeZone: ZONE });
  const exact = new Intl.DateTimeFormat(tag, { dateStyle: "long", timeStyle: "short", timeZone: ZONE });
  const day = (at: number): string => long.format(at);
  const [from, to] = locale === "es" ? ["desde el", "hasta el"] : ["from", "to"];
  const given = (word: string, date: string): string => (date === "" ? "" : ` ${word} ${day(startOfDay(date))}`);
  return {
    day,
    moment: (at) => exact.format(at),
    month: (first) => ofMonth.format(startOfDay(first)),
    days: (first, last) => given(from!, first) + given(to!, last),
  };
};

/**
 * Names are written by people, so line breaks are kept out of headers, and tags out of the HTML.
 */
const oneLine = (text: string): string => text.replace(/[\p{Cc}\u2028\u2029]+/gu, " ");
const escaped = (text: string): string => text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);

/** Two recipients get two mails, even if both read the same mailbox. */
const addressOf = (recipient: string): string => createHash("sha256").update(recipient).digest("hex").slice(0, 12);

const noFacts: Required<MailFacts> = {
  ...{ inviter: "", actor: "", name: "", clients: "", invitation_id: 0, expires_at: 0, at: 0 },
  ...{ campaign: "", link: "", starts_on: "", ends_on: "", paid_for: "" },
  ...{ month: "", lines: [], added: 0, changed: 0, removed: 0, reason: "" },
  ...{ rule: "", evaluated: 0, matched: 0, applied: 0, left: 0, money: "", closed: 0 },
  ...{ plan: "", percent: 0, side: "open" },
};

/** Writes the mail. A mail that is sent again after a crash keeps its id. */
export const writeMail = ({ happening, recipient, template, locale, facts }: Mail, lead: Lead): WrittenMail => {
  const { subject, sentences } = (locale === "es" ? spanish : english)[template](
    { ...noFacts, ...facts },
    writtenIn(locale),
  );
  const label = lead && leads[locale][lead.label];
  const target =
    lead === undefined
      ? []
      : lead.label === "link"
        ? [`<p><a href="${escaped(lead.value)}">${label}</a></p>`]
        : [`<p>${label}: <code>${escaped(lead.value)}</code></p>`];
  const paragraphs = sentences.map((sentence) => `<p>${escaped(sentence)}</p>`);
  const body = [...paragraphs, ...target].join("\n");
  return {
    to: recipient,
    subject: oneLine(subject).slice(0, 200),
    text: [...sentences, ...(lead ? ["", `${label}: ${lead.value}`] : []), ""].join("\n"),
    html: `<!doctype html>\n<html lang="${locale}"><meta charset="utf-8"><body>\n${body}\n</body></html>\n`,
    messageId: `<${happening.replace(/[^A-Za-z0-9._-]/g, ".")}.${addressOf(recipient)}@tributary.mails>`,
  };
};
