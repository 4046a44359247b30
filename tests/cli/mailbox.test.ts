// The mailbox of a laptop: every mail is a file, and the newest are on a page without scripts.
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { serveMail } from "../../infra/embedded/servers/mail.ts";
import { mailboxPage } from "../../infra/mail/mailbox-page.ts";
import { readMail } from "../../infra/mail/read-mail.ts";
import { openMailer } from "../../modules/base/alerts/mail.ts";
import { writeMail } from "../../modules/base/mails/mail-text.ts";
import { freePort } from "../support/ingest.ts";

const folder = mkdtempSync(join(tmpdir(), "tributary-mailbox-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const page = () => readFileSync(join(folder, "mailbox.html"), "utf8");

test("a mail that is taken is on the page at once, newest first, in its own words", async () => {
  const port = await freePort();
  const server = await serveMail({ port, folder });
  expect(page()).toContain("Nothing yet");
  const mailer = openMailer(`smtp://127.0.0.1:${port}/?from=t@demo.example&to=o@demo.example`)!;
  try {
    for (const name of ["Jardín", "Café"])
      await mailer.post(
        writeMail(
          {
            happening: `invitation:${name}`,
            recipient: "ana@shop.example",
            template: "invitation_client",
            locale: "es",
            facts: { inviter: "Íñigo", name, expires_at: Date.UTC(2026, 0, 8, 12) },
          },
          undefined,
        ),
      );
  } finally {
    mailer.close();
    await server.close();
  }
  expect(page().indexOf("Acceso al portal de Café")).toBeGreaterThan(0);
  expect(page().indexOf("Acceso al portal de Café")).toBeLessThan(page().indexOf("Acceso al portal de Jardín"));
  const kept = readdirSync(folder).filter((file) => file.endsWith(".eml"));
  expect(kept).toHaveLength(2);
  const read = readMail(readFileSync(join(folder, kept.sort()[0]!), "utf8"));
  expect(read).toMatchObject({ to: "ana@shop.example", subject: "Acceso al portal de Jardín" });
  expect(read.text).toContain("Íñigo le invita al portal de Jardín.");
  // The page holds links of invitations.
  expect(statSync(join(folder, "mailbox.html")).mode & 0o077).toBe(0);
});

test("what a mail holds runs nothing and ends no frame", () => {
  const raw = [
    'Subject: <img src=x onerror="alert(1)">',
    "To: eve@evil.example",
    "Content-Type: text/html; charset=utf-8",
    "",
    `</iframe><script>alert(2)</script><p title='"'>hello</p>`,
  ].join("\r\n");
  const written = mailboxPage([{ at: Date.UTC(2026, 0, 1), raw }]);
  expect(written).not.toMatch(/<script|<img/);
  expect(written.match(/<\/iframe>/g)).toHaveLength(1);
  expect(written).toContain('<iframe sandbox="" srcdoc="');
  expect(written).toContain("default-src 'none'");
});

test("the mail of an alert is read as it was written, whichever encoding it travelled in", async () => {
  const into = mkdtempSync(join(folder, "alerts-"));
  const port = await freePort();
  const server = await serveMail({ port, folder: into });
  const mailer = openMailer(`smtp://127.0.0.1:${port}/?from=t@demo.example&to=o@demo.example`)!;
  const reasons = ["plain", "Peña = señal perdida", `a line of ${"many words ".repeat(20)}`, "日本語のログ"];
  try {
    for (const reason of reasons)
      await mailer.send({
        ...({ service: "clickhouse", status: "down", severity: "critical", incident_id: "i-1" } as const),
        ...{ reason, timestamp: "2026-01-08T12:00:00Z" },
      });
  } finally {
    mailer.close();
    await server.close();
  }
  const kept = readdirSync(into)
    .filter((file) => file.endsWith(".eml"))
    .sort();
  const texts = kept.map((file) => readMail(readFileSync(join(into, file), "utf8")).text);
  for (const [n, reason] of reasons.entries())
    expect(texts[n]).toMatch(
      new RegExp(`^clickhouse is down\\.\n\nReason: {4}${reason}\n[^]*All alerts: npx tributary alerts\\s*$`),
    );
});

test("a part ends at its boundary, not at a line of dashes, and its headers come in any order", () => {
  const raw = [
    'Content-Type: multipart/alternative; boundary="b-1"',
    "",
    "--b-1",
    "Content-Transfer-Encoding: quoted-printable",
    "Content-Type: text/plain; charset=utf-8",
    "",
    "caf=C3=A9",
    "-- ",
    "the keeper",
    "--b-1",
    "Content-Type: text/html",
    "",
    "<p>caf</p>",
    "--b-1--",
  ].join("\r\n");
  expect(readMail(raw)).toMatchObject({ text: "café\n-- \nthe keeper", html: "<p>caf</p>" });
});
