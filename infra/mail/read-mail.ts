// Reads a mail: its head, and its text and HTML decoded. It is made for mails of this installation;
// other mails are shown as far as it understands them.

export interface ReadMail {
  readonly to: string;
  readonly subject: string;
  readonly messageId: string;
  readonly text: string;
  readonly html: string;
}

const quoted = (text: string): string =>
  Buffer.from(
    text
      .replace(/=\r?\n/g, "")
      .replace(/=([0-9A-F]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
    "latin1",
  ).toString("utf8");
/** RFC 2047: words of a header that are not ASCII. */
const words = (text: string): string =>
  text
    .replace(/\?=\s+=\?/g, "?==?")
    .replace(/=\?UTF-8\?([QB])\?(.*?)\?=/gi, (_, form: string, of: string) =>
      form.toUpperCase() === "B" ? Buffer.from(of, "base64").toString("utf8") : quoted(of.replaceAll("_", " ")),
    );

/** A head and its body: a whole mail, or one part of it. */
interface Part {
  readonly head: string;
  readonly body: string;
}
const partOf = (text: string): Part => {
  const end = text.indexOf("\n\n");
  return end < 0 ? { head: text, body: "" } : { head: text.slice(0, end), body: text.slice(end + 2) };
};

/** The headers of a part come in any order. */
const header = ({ head }: Part, name: string): string =>
  (new RegExp(`^${name}:(.*(?:\\n[ \\t].*)*)`, "im").exec(head)?.[1] ?? "").replace(/\n[ \t]/g, " ").trim();

/** Parts of our mails lie two deep; a mail of others may claim any depth. */
const DEEPEST = 5;
const leavesOf = (part: Part, depth = 0): readonly Part[] => {
  const boundary = /^multipart\/.*boundary="?([^";]+)/i.exec(header(part, "Content-Type"))?.[1];
  if (boundary === undefined || depth > DEEPEST) return [part];
  const [, ...parts] = `\n${part.body}`.split(`\n--${boundary}`);
  return parts
    .filter((text) => !text.startsWith("--"))
    .flatMap((text) => leavesOf(partOf(text.replace(/^[ \t]*\n/, "")), depth + 1));
};

const decoded = (part: Part): string => {
  const encoding = header(part, "Content-Transfer-Encoding").toLowerCase();
  if (encoding === "base64") return Buffer.from(part.body, "base64").toString("utf8");
  return encoding === "quoted-printable" ? quoted(part.body) : part.body;
};

export const readMail = (raw: string): ReadMail => {
  const mail = partOf(raw.replaceAll("\r\n", "\n"));
  const leaves = leavesOf(mail);
  const textOf = (type: string): string => {
    // A part that names no type is plain text (RFC 2045, 5.2).
    const found = leaves.find((part) => (header(part, "Content-Type") || "text/plain").toLowerCase().startsWith(type));
    return found === undefined ? "" : decoded(found);
  };
  return {
    to: header(mail, "To").replace(/^.*<|>.*$/g, ""),
    subject: words(header(mail, "Subject")),
    messageId: header(mail, "Message-ID"),
    text: textOf("text/plain"),
    html: textOf("text/html"),
  };
};
