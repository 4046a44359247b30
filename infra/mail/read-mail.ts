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

export const readMail = (raw: string): ReadMail => {
  const mail = raw.replaceAll("\r\n", "\n");
  const head = mail.slice(0, mail.indexOf("\n\n") < 0 ? mail.length : mail.indexOf("\n\n"));
  const header = (name: string): string =>
    (new RegExp(`^${name}:(.*(?:\\n[ \\t].*)*)`, "im").exec(head)?.[1] ?? "").replace(/\n[ \t]/g, " ").trim();
  const part = (type: string): string => {
    const found = new RegExp(`content-type: ${type}[^]*?\\n\\n([^]*?)(?:\\n--|$)`, "i").exec(mail);
    if (found === null) return "";
    const way = /content-transfer-encoding: ([\w-]+)/i.exec(found[0])?.[1]?.toLowerCase();
    if (way === "base64") return Buffer.from(found[1]!, "base64").toString("utf8");
    return way === "quoted-printable" ? quoted(found[1]!) : found[1]!;
  };
  return {
    to: header("To").replace(/^.*<|>.*$/g, ""),
    subject: words(header("Subject")),
    messageId: header("Message-ID"),
    text: part("text/plain"),
    html: part("text/html"),
  };
};
