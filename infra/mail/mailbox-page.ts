// The mailbox of a laptop as one page without scripts. It is a file, so no port is opened for it.
import { readMail } from "./read-mail.ts";

interface KeptMail {
  /** When the server accepted the mail. */
  readonly at: number;
  readonly raw: string;
}

const escaped = (text: string): string => text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);

/** A mail's own HTML is in a frame that may run and load nothing. */
const shown = ({ at, raw }: KeptMail): string => {
  const { to, subject, text, html } = readMail(raw);
  const body =
    html === ""
      ? `<pre>${escaped(text)}</pre>`
      : `<iframe sandbox="" srcdoc="${escaped(html)}" title="${escaped(subject)}"></iframe><pre>${escaped(text)}</pre>`;
  const time = new Date(at).toISOString().slice(0, 19).replace("T", " ");
  return `<details><summary>${time} <b>${escaped(subject)}</b> ${escaped(to)}</summary>${body}</details>`;
};

const POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-src 'self'";

/** `mails` must be newest first. */
export const mailboxPage = (mails: readonly KeptMail[]): string => `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="${POLICY}">
<title>Mailbox</title>
<style>body{font:16px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}summary{cursor:pointer;padding:.4em 0}
iframe{width:100%;height:14em;border:1px solid}pre{white-space:pre-wrap}</style>
<h1>Mailbox</h1>
<p>What this installation has mailed, newest first. Nothing was delivered. Load the page again for what came since.</p>
${mails.length === 0 ? "<p>Nothing yet.</p>" : mails.map(shown).join("\n")}
</html>
`;
