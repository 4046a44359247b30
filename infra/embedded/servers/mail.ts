// The mail server of the embedded stack: takes every mail on loopback, delivers none, and keeps
// each as a file for `tributary mail` and tests.
import { randomBytes } from "node:crypto";
import { mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SMTPServer } from "smtp-server";

// Alerts have a kilobyte; what is larger is none of ours.
const MOST_BYTES = 1024 * 1024;
// The oldest go first, so that a stack that runs for weeks keeps 10 MB at most.
const MOST_KEPT = 10_000;

/**
 * Listens on loopback; a mail is answered once its file is there. Files are named so that they sort
 * by time.
 */
export async function serveMail(options: {
  readonly port: number;
  readonly folder: string;
}): Promise<{ readonly close: () => Promise<void> }> {
  mkdirSync(options.folder, { recursive: true, mode: 0o700 });
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
  writeFileSync(join(folder, `${name}.part`), mail, { mode: 0o600 });
  renameSync(join(folder, `${name}.part`), join(folder, `${name}.eml`));
  const kept = readdirSync(folder).filter((file) => file.endsWith(".eml"));
  for (const old of kept.sort().slice(0, Math.max(0, kept.length - MOST_KEPT)))
    rmSync(join(folder, old), { force: true });
}
