// Waiting mails: each is sent once for its occasion and recipient, whichever process sends it, and
// is retried until a day has passed.
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { mails } from "../../apps/api/mails.ts";
import { keyringOf } from "../../infra/runtime/keyring.ts";
import { newInvitationToken } from "../../modules/access/invitations/invitation-token.ts";
import { withUsers } from "../../modules/access/users/users.ts";
import { writeMail } from "../../modules/base/mails/mail-text.ts";
import {
  forgetMails,
  type Mail,
  type MailFacts,
  queueMail,
  sendNextMail,
  type Template,
} from "../../modules/base/mails/mails.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";

let database: FreshDatabase;
beforeAll(async () => {
  database = await freshDatabase();
});
afterAll(() => database.drop());
beforeEach(() => database.adminPool.query("truncate mails"));

const mail: Mail = {
  happening: "invitation:1",
  recipient: "ana@shop.example",
  template: "invitation_client",
  locale: "en",
  facts: { inviter: "Bea", name: "Shop", expires_at: Date.UTC(2026, 0, 8, 12) },
};
const pool = () => database.pool({ max: 8 });
const queue = (...mails: readonly Mail[]) =>
  withUsers(pool(), async (tx) => {
    for (const one of mails) await queueMail(tx, one);
  });

test("of twenty senders at once one sends it, and of one happening there is one mail a recipient", async () => {
  await queue(mail, mail, { ...mail, recipient: "bea@shop.example" });
  const sent: string[] = [];
  const one = pool();
  const send = async ({ recipient }: Mail) => {
    await new Promise((resolve) => setTimeout(resolve, 20));
    sent.push(recipient);
  };
  await Promise.all(Array.from({ length: 20 }, () => sendNextMail(one, send)));
  expect(sent.sort()).toEqual(["ana@shop.example", "bea@shop.example"]);
  await queue(mail);
  expect(await sendNextMail(one, send)).toBe(0);
});

test("a refused one waits longer after each try, says why, and is given up after a day", async () => {
  await queue(mail);
  let tries = 0;
  const refuse = async () => {
    tries += 1;
    throw new Error("550 no such mailbox");
  };
  const read = async () =>
    (
      await database.adminPool.query(
        "select attempts, error, sent_at, extract(epoch from due_at - clock_timestamp())::float8 as wait from mails",
      )
    ).rows[0];
  expect(await sendNextMail(pool(), refuse)).toBe(1);
  expect(await read()).toMatchObject({ attempts: 1, error: "550 no such mailbox", sent_at: null });
  expect(await sendNextMail(pool(), refuse)).toBe(0);
  await database.adminPool.query("update mails set due_at = clock_timestamp(), attempts = 500");
  expect(await sendNextMail(pool(), refuse)).toBe(1);
  expect((await read()).wait).toBeGreaterThan(800);
  await database.adminPool.query(
    "update mails set due_at = clock_timestamp(), created_at = clock_timestamp() - interval '25 hours'",
  );
  expect([await sendNextMail(pool(), refuse), tries]).toEqual([0, 2]);
});

test("a mail is forgotten 90 days after it was written, whatever became of it", async () => {
  await queue(mail, { ...mail, recipient: "bea@shop.example" }, { ...mail, recipient: "eva@shop.example" });
  await database.adminPool.query(
    `update mails set created_at = clock_timestamp() - interval '91 days',
      sent_at = case recipient when 'bea@shop.example' then clock_timestamp() end
     where recipient <> 'eva@shop.example'`,
  );
  expect(await forgetMails(pool())).toBe(2);
  const { rows } = await database.adminPool.query("select recipient from mails");
  expect(rows).toEqual([{ recipient: "eva@shop.example" }]);
});

test("a mail has the same id each time, no line break in its subject, and no tag of a name", () => {
  const facts = { ...mail.facts, inviter: "<script>\r\nBcc: x@evil.example", name: "A\u2028B\nC" };
  const written = writeMail({ ...mail, facts }, { label: "link", value: 'https://p.example/"><b>' });
  expect(written.subject).toBe("Access to the A B C portal");
  expect(written.messageId).toMatch(/^<invitation\.1\.[0-9a-f]{12}@tributary\.mails>$/);
  expect(writeMail({ ...mail, facts }, undefined).messageId).toBe(written.messageId);
  expect(writeMail({ ...mail, recipient: "bea@shop.example" }, undefined).messageId).not.toBe(written.messageId);
  expect(written.html).not.toMatch(/<script>|"><b>/);
  expect(written.text).toContain("January 8, 2026");
  expect(writeMail({ ...mail, locale: "es" }, undefined).text).toContain("8 de enero de 2026");
});

test("what became of secrets, tokens and campaigns is said in both languages, as text and as HTML", () => {
  const at = Date.UTC(2026, 0, 8, 18, 30);
  const facts = {
    ...{ actor: "Bea", name: "Shop & Co", campaign: "Summer", link: "/c/abc", at },
    ...{ starts_on: "2026-02-01", ends_on: "", paid_for: "purchase" },
  };
  const written = (template: Mail["template"], locale: Mail["locale"]) =>
    writeMail({ ...mail, template, locale, facts }, undefined);
  const secret = written("secret_regenerated", "es");
  expect(secret.subject).toBe("Nuevo secreto de firma de Shop & Co");
  expect(secret.text).toContain("8 de enero de 2026");
  expect(secret.text).toContain("12:30");
  expect(secret.html).toContain('<html lang="es">');
  expect(secret.html).toContain("Shop &#38; Co");
  expect(written("secret_regenerated", "en").subject).toBe("New signing secret for Shop & Co");
  expect(written("upload_token_rotated", "es").subject).toBe("Su token de carga ha cambiado");
  expect(written("upload_token_rotated", "en").text).toContain("The former is good for nothing");
  const launched = written("campaign_launched", "es");
  expect(launched.subject).toBe("Summer: su enlace");
  expect(launched.text).toContain("desde el 1 de febrero de 2026.");
  expect(launched.text).toContain("/c/abc");
  expect(launched.text).toContain("Se le paga por: purchase.");
  const other = { ...facts, ends_on: "2026-02-28", paid_for: "" };
  const { text } = writeMail({ ...mail, template: "campaign_launched", locale: "en", facts: other }, undefined);
  expect(text).toContain("is active from February 1, 2026 to February 28, 2026.");
  expect(text).not.toContain("paid");
});

test("a plan is written line by line to a partner, in one sum to managers, in both languages", () => {
  const month = "2026-02-01";
  const lines = [
    { segment: "MX", budget: "1000.00 MXN", target_conversions: 1 },
    { segment: null, budget: "5.00 MXN", target_conversions: 0 },
  ];
  const facts = { actor: "Bea", name: "Shop", month, lines, added: 2, changed: 0, removed: 1, reason: "Less\n<rain>" };
  const written = (template: Mail["template"], locale: Mail["locale"]) =>
    writeMail({ ...mail, template, locale, facts }, undefined);
  const approved = written("plan_approved", "es");
  expect(approved.subject).toBe("Plan de febrero de 2026 aprobado");
  expect(approved.text).toContain("MX: 1000.00 MXN, 1 conversión.\nTodos los segmentos: 5.00 MXN.\n");
  expect(approved.text).not.toContain("Bea");
  expect(written("plan_approved", "en").subject).toBe("Plan February 2026 approved");
  const reopened = written("plan_reopened", "en");
  expect(reopened.text).toContain("Reason: Less");
  expect(reopened.html).toContain("&#60;rain&#62;");
  const managers = written("plan_approved_managers", "en").text;
  expect(managers).toContain("Lines added: 2; changed: 0; removed: 1,");
  expect(written("plan_reopened_managers", "es").text).toContain("Bea reabrió el plan de Shop para febrero de 2026.");
});

test("the end of a backfill says what was met, what money moves or would move, and what was left", () => {
  const days = { starts_on: "2026-02-01", ends_on: "2026-02-28" };
  const facts = {
    rule: "April",
    evaluated: 40,
    matched: 30,
    applied: 29,
    left: 0,
    money: "12.50 MXN",
    closed: 1,
    ...days,
  };
  const written = (template: Mail["template"], locale: Mail["locale"], more: object = {}) =>
    writeMail({ ...mail, template, locale, facts: { ...facts, ...more } }, undefined);
  const english = written("backfill_recalculated", "en");
  expect(english.subject).toBe("Backfill of April: done");
  expect(english.text).toContain("from February 1, 2026 to February 28, 2026.");
  expect(english.text).toContain(
    "Events read: 40; met by the rule: 30; credited: 29.\nCommission that moves: 12.50 MXN.\n",
  );
  expect(english.text).not.toContain("Left as they were");
  expect(written("backfill_recalculated", "en", { left: 2 }).text).toContain("of closed months: 2.");
  expect(written("backfill_completed", "en").text).toContain("No commission moved");
  const spanish = written("backfill_completed", "es", { left: 4 });
  expect(spanish.subject).toBe("Aplicación retroactiva de April: terminada");
  expect(spanish.text).toContain("pues moverlos movería dinero: 4.\nMeses cerrados de socios afectados: 1.");
});

/** What the facts of each mail must have, so that it has its address if it has one. */
const factsOf = (invitation_id: number): Readonly<Record<Template, MailFacts>> => ({
  invitation_partner: { invitation_id },
  invitation_client: { invitation_id },
  invitation_accepted: {},
  secret_regenerated: {},
  upload_token_rotated: {},
  campaign_launched: { link: "/c/abc" },
  plan_approved: { month: "2026-01-01" },
  plan_approved_managers: { month: "2026-01-01" },
  plan_reopened: { month: "2026-01-01" },
  plan_reopened_managers: { month: "2026-01-01" },
  backfill_completed: {},
  backfill_recalculated: {},
  intake_quota: {},
});
const ofLinks: Readonly<Partial<Record<Template, RegExp>>> = {
  invitation_partner: /https:\/\/portal\.example\/invitation#trb_invitation_[\w-]{43}/g,
  invitation_client: /https:\/\/portal\.example\/invitation#trb_invitation_[\w-]{43}/g,
  campaign_launched: /https:\/\/go\.example\/c\/abc/g,
};

test.each(["es", "en"] as const)(
  "every link of a mail in %s has a public address, and no other does",
  async (locale) => {
    const keyring = keyringOf("pL3vQ9xT7mK1wZ8rN4sB6yD2hJ5cF0gA");
    const { seed, sha256 } = newInvitationToken(keyring);
    const { rows } = await database.adminPool.query(
      `insert into invitations (kind, email, client_id, locale, seed, sha256, invited_by, expires_at)
     values ('client', $1, 1, $1, $2, $3, 'ana', clock_timestamp() + interval '1 day') returning invitation_id`,
      [locale, seed, sha256],
    );
    const facts = Object.entries(factsOf(rows[0].invitation_id)) as [Template, MailFacts][];
    await queue(
      ...facts.map(([template, of]) => ({
        ...mail,
        happening: template,
        template,
        locale,
        facts: { ...mail.facts, ...of },
      })),
    );
    const written = new Map<string, string>();
    const sending = mails({
      ...{ pool: pool(), keyring, portal: "https://portal.example", hosts: { tracking: "https://go.example" } },
      mailer: {
        post: async ({ messageId, text, html }) => void written.set(/^<(\w+)/.exec(messageId)![1]!, `${text}${html}`),
      },
    });
    await sending.work(() => false);
    expect([...written.keys()].sort()).toEqual(facts.map(([template]) => template).sort());
    for (const [template, text] of written) {
      const links = ofLinks[template as Template];
      // Once as text and once as HTML.
      if (links !== undefined) expect(text.match(links), template).toHaveLength(2);
      expect(text.replace(links ?? /^$/, ""), template).not.toMatch(/:\/\/|\/c\/|trb_/);
    }
  },
);
