// The words of mails, in Spanish and English, as text and as HTML of the same sentences.
import type { Mail, MailFacts, Template } from "./mails.ts";

export interface WrittenMail {
  readonly to: string;
  readonly subject: string;
  readonly text: string;
  readonly html: string;
  readonly messageId: string;
}
/** Where the mail leads; undefined: nowhere. */
export type Lead = { readonly label: "link" | "token"; readonly value: string } | undefined;

interface Words {
  readonly subject: string;
  readonly sentences: readonly string[];
}
type Writer = (facts: Required<MailFacts>, day: string) => Words;

const spanish: Readonly<Record<Template, Writer>> = {
  invitation_partner: ({ inviter, clients }, day) => ({
    subject: `Invitación para trabajar con ${clients}`,
    sentences: [
      `${inviter} le invita a trabajar con ${clients}.`,
      `La invitación vale hasta el ${day}, para una sola persona.`,
    ],
  }),
  invitation_client: ({ inviter, name }, day) => ({
    subject: `Acceso al portal de ${name}`,
    sentences: [
      `${inviter} le invita al portal de ${name}.`,
      `La invitación vale hasta el ${day}, para una sola persona.`,
    ],
  }),
  invitation_accepted: ({ inviter, name }) => ({
    subject: `${inviter} ha aceptado`,
    sentences: [`${inviter} ha aceptado su invitación a ${name}.`],
  }),
};
const english: Readonly<Record<Template, Writer>> = {
  invitation_partner: ({ inviter, clients }, day) => ({
    subject: `Invitation to work with ${clients}`,
    sentences: [
      `${inviter} invites you to work with ${clients}.`,
      `The invitation is good until ${day}, for one person.`,
    ],
  }),
  invitation_client: ({ inviter, name }, day) => ({
    subject: `Access to the ${name} portal`,
    sentences: [
      `${inviter} invites you to the portal of ${name}.`,
      `The invitation is good until ${day}, for one person.`,
    ],
  }),
  invitation_accepted: ({ inviter, name }) => ({
    subject: `${inviter} has accepted`,
    sentences: [`${inviter} has accepted your invitation to ${name}.`],
  }),
};
const leads = {
  es: { link: "Aceptar la invitación", token: "Código de la invitación" },
  en: { link: "Accept the invitation", token: "Code of the invitation" },
} as const;

const dayOf = (at: number, locale: "es" | "en"): string =>
  new Intl.DateTimeFormat(locale === "es" ? "es-MX" : "en-US", {
    dateStyle: "long",
    timeZone: "America/Mexico_City",
  }).format(at);

/** Names come from people: no line break reaches a header, and no tag the HTML. */
const oneLine = (text: string): string => text.replace(/[\p{Cc}\u2028\u2029]+/gu, " ");
const escaped = (text: string): string => text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);

/** The mail as it is sent; a mail that is sent again after a crash has the same id. */
export const writeMail = ({ happening, recipient, template, locale, facts }: Mail, lead: Lead): WrittenMail => {
  const all = { inviter: "", name: "", clients: "", invitation_id: 0, expires_at: 0, ...facts };
  const { subject, sentences } = (locale === "es" ? spanish : english)[template](all, dayOf(all.expires_at, locale));
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
    messageId: `<${happening.replace(/[^A-Za-z0-9._-]/g, ".")}@tributary.mails>`,
  };
};
