// The mail server of the embedded stack. It accepts every mail on loopback and delivers none. It
// keeps each one as a file for `tributary mail` and tests, and shows the newest on a page.
import { randomBytes } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SMTPServer } from "smtp-server";
import { mailboxPage } from "../../mail/mailbox-page.ts";

// Alerts have a kilobyte; larger mails are not ours.
const MOST_BYTES = 1024 * 1024;
// The oldest mails are deleted first, so that a stack that runs for weeks keeps 10 MB at most.
const MOST_KEPT = 10_000;
/** The page has a few megabytes at most: each mail is on it twice. */
const MOST_SHOWN = 100;
const MOST_SHOWN_BYTES = 32 * 1024;
/** A page in the folder of the mails. */
const PAGE = "mailbox.html";

/**
 * Listens on loopback; a mail is accepted once its file is written. The names of the files sort by
 * time.
 */
export async function serveMail(options: {
  readonly port: number;
  readonly folder: string;
}): Promise<{ readonly close: () => Promise<void> }> {
  mkdirSync(options.folder, { recursive: true, mode: 0o700 });
  writePage(options.folder);
  let count = 0;
  const server = new SMTPServer({
    banner: "Tributary keeps mails and delivers none",
    authOptional: true,
    disabledCommands: ["AUTH", "STARTTLS"],
    disableReverseLookup: true,
    size: MOST_BYTES,
    onData: (stream, _session, done) => {
      const parts: Buffer[] = [];
      let bytes = 0;
      stream.on("data", (part: Buffer) => {
        bytes += part.length;
        if (bytes <= MOST_BYTES) parts.push(part);
      });
      stream.once("end", () => {
        if (bytes > MOST_BYTES) return done(new Error("the mail is too large"));
        try {
          keep(
            options.folder,
            `${Date.now()}-${String(count++).padStart(4, "0")}-${randomBytes(3).toString("hex")}`,
            Buffer.concat(parts),
          );
          done();
        } catch (error) {
          done(error as Error);
        }
      });
    },
  });
  server.on("error", (error) => console.error(JSON.stringify({ event: "mail.failed", message: error.message })));
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(options.port, "127.0.0.1", resolve);
  });
  return { close: () => new Promise((resolve) => server.close(() => resolve())) };
}

function keep(folder: string, name: string, mail: Buffer): void {
  put(folder, `${name}.eml`, mail);
  for (const old of keptIn(folder).slice(MOST_KEPT)) rmSync(join(folder, old), { force: true });
  try {
    writePage(folder);
  } catch (error) {
    // The mail is stored, and would come again if it was refused now.
    console.error(JSON.stringify({ event: "mailbox.not_written", message: (error as Error).message }));
  }
}

function put(folder: string, name: string, content: Buffer | string): void {
  writeFileSync(join(folder, `${name}.part`), content, { mode: 0o600 });
  renameSync(join(folder, `${name}.part`), join(folder, name));
}

/** Newest first: the names of the files sort by time. */
function keptIn(folder: string): readonly string[] {
  return readdirSync(folder)
    .filter((file) => file.endsWith(".eml"))
    .sort()
    .reverse();
}

function writePage(folder: string): void {
  const shown = keptIn(folder).slice(0, MOST_SHOWN);
  const mails = shown.map((file) => ({
    at: Number(file.split("-")[0]),
    raw: readFileSync(join(folder, file)).subarray(0, MOST_SHOWN_BYTES).toString(),
  }));
  put(folder, PAGE, mailboxPage(mails));
}
