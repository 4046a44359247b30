// The content of an alert and the form of its mail: no line break of a sender reaches a header.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { SMTPServer } from "smtp-server";
import { expect, test } from "vitest";
import { readAlert } from "../../modules/base/alerts/alert.ts";
import { openDelivery } from "../../modules/base/alerts/delivery.ts";
import { guideOf } from "../../modules/base/alerts/guide.ts";
import { mailOf, openMailer } from "../../modules/base/alerts/mail.ts";
import { sendToApi } from "../../modules/base/alerts/send-to-api.ts";
import { probeNames } from "../../modules/running/repair/incident.ts";
import { restartOf, wordsOf } from "../../modules/running/repair/restarts.ts";

const body = {
  service: "analytics_store",
  status: "down",
  reason: "no answer within 10 s",
  timestamp: "2026-11-21T12:00:00.000Z",
};
const DOCS = "https://wiki.example/tributary";
const alertOf = (given: object) => {
  const read = readAlert(given);
  if ("wrong" in read) throw new Error(JSON.stringify(read.wrong));
  return read.alert;
};

test("the body of the specification is an alert; the same words at the same time are one incident", () => {
  const alert = alertOf(body);
  expect(alert).toMatchObject({ ...body, severity: "normal" });
  expect(alertOf(body).incident_id).toBe(alert.incident_id);
  expect(alertOf({ ...body, reason: "other" }).incident_id).not.toBe(alert.incident_id);
  expect(alertOf({ ...body, status: "recovered", duration: "2 min", incident_id: "inc_1" })).toMatchObject({
    incident_id: "inc_1",
  });
});

test.each<[string, object, string]>([
  ["a status of its own", { status: "sad" }, "/status"],
  ["a time that is none", { timestamp: "yesterday" }, "/timestamp"],
  ["a time without an offset", { timestamp: "2026-11-21T12:00:00" }, "/timestamp"],
  ["a day that no month has", { timestamp: "2026-02-30T12:00:00Z" }, "/timestamp"],
  ["a line break in the name", { service: "a\r\nBcc: x@y.example" }, "/service"],
  ["an incident id that is no id", { incident_id: "a b" }, "/incident_id"],
  ["an empty reason", { reason: "" }, "/reason"],
])("%s is refused at its place", (_, change, pointer) => {
  const read = readAlert({ ...body, ...change });
  expect("wrong" in read && read.wrong[0]?.pointer).toBe(pointer);
});

test("a body that is no object is refused", () => {
  for (const wrong of [null, [], "down", undefined]) expect("wrong" in readAlert(wrong)).toBe(true);
});

test("a time with an offset is taken as the moment that it names", () => {
  const elsewhere = alertOf({ ...body, timestamp: "2026-11-21T06:00:00-06:00" });
  expect(elsewhere).toEqual(alertOf(body));
  expect(elsewhere.timestamp).toBe("2026-11-21T12:00:00.000Z");
});

test("unknown fields are taken and left out", () => {
  expect(alertOf({ ...body, to: "x@y.example", host: { name: "a" } })).toEqual(alertOf(body));
});

test("a duration that comes with down is left out: there is no downtime yet", () => {
  expect(alertOf({ ...body, duration: "1 min" })).toEqual(alertOf(body));
  expect(alertOf({ ...body, status: "recovered", duration: "1 min" }).duration).toBe("1 min");
});

test("no line break reaches a header, whatever the alert holds", () => {
  const breaks = "x\r\nBcc: a@b.example\u2028y\u0085z\0";
  const { subject, messageId, text } = mailOf({
    ...alertOf(body),
    service: breaks,
    incident_id: breaks,
    reason: breaks,
  });
  // biome-ignore lint/suspicious/noControlCharactersInRegex: it is these that must not be there
  for (const header of [subject, messageId]) expect(header).not.toMatch(/[\u0000-\u001f\u007f\u0085\u2028\u2029]/);
  expect(text).toContain("Bcc: a@b.example");
  expect(subject.length).toBeLessThanOrEqual(200);
});

test("a mail says what, since when and how grave; sent again it has the same id", () => {
  const down = mailOf({ ...alertOf(body), severity: "critical", incident_id: "inc_1" });
  expect(down.subject).toBe("[Tributary] CRITICAL: analytics_store is down");
  const up = mailOf({ ...alertOf(body), status: "recovered", duration: "2 min 12 s", incident_id: "inc_1" });
  expect(up.subject).toBe("[Tributary] analytics_store has recovered after 2 min 12 s");
  expect(up.text).toContain("Downtime:  2 min 12 s");
  expect(up.messageId).toBe(
    mailOf({ ...alertOf(body), status: "recovered", duration: "other", incident_id: "inc_1" }).messageId,
  );
  expect(up.messageId).not.toBe(down.messageId);
});

test("a mail about a store of ours says what stands still and what to type, and one about its return does not", () => {
  for (const service of [...probeNames, "ingest"]) {
    const guide = guideOf(service)!;
    const down = mailOf({ ...alertOf(body), service, incident_id: "inc_1" });
    expect(down.text).toContain(`${service} (${guide.name}) is down.`);
    for (const line of [`Effect:    ${guide.effect}`, `Type:      ${guide.command}`, `Then read: ${guide.page}`])
      expect(down.text.split("\n")).toContain(line);
    const [file, anchor] = guide.page.split("#") as [string, string | undefined];
    const headings = [...readFileSync(file, "utf8").matchAll(/^#+ (.*)$/gm)].map(([, head]) =>
      head!.toLowerCase().replaceAll(" ", "-"),
    );
    if (anchor !== undefined) expect(headings).toContain(anchor);
    expect(mailOf({ ...alertOf(body), service, status: "recovered", incident_id: "inc_1" }).text).not.toContain(
      "Effect",
    );
  }
  // A component of another system has any name.
  expect(mailOf({ ...alertOf(body), service: "constructor", incident_id: "inc_1" }).text).not.toContain("Effect");
});

test("a mail about a store of ours links to its pages where people can read them", () => {
  for (const service of [...probeNames, "ingest"])
    expect(mailOf({ ...alertOf(body), service, incident_id: "inc_1" }, DOCS).text.split("\n")).toContain(
      `Then read: ${DOCS}/${guideOf(service)!.page}`,
    );
  const reason =
    "its rows are gone (docs/runbooks/clickhouse-lost.md#its-data-are-gone); see https://a.example/docs/b.md";
  const { text } = mailOf({ ...alertOf({ ...body, reason }), incident_id: "inc_1" }, DOCS);
  expect(text).toContain(
    `(${DOCS}/docs/runbooks/clickhouse-lost.md#its-data-are-gone); see https://a.example/docs/b.md`,
  );
});

test("a mail server without an address to write to is refused at the start", () => {
  expect(openMailer(undefined)).toBeUndefined();
  expect(() => openMailer("smtp://127.0.0.1:25/?from=a@b.example")).toThrow("SMTP_URL: must be smtp(s)://");
  expect(() => openMailer("http://127.0.0.1/?to=a@b.example")).toThrow("SMTP_URL: must be smtp(s)://");
});

test("off this machine a mail goes under TLS or not at all", async () => {
  const taken: string[] = [];
  const server = new SMTPServer({
    disabledCommands: ["STARTTLS", "AUTH"],
    onData: (stream, _session, done) => {
      stream.resume();
      stream.once("end", () => {
        taken.push("a mail");
        done();
      });
    },
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.server.address() as AddressInfo;
  // The second address reaches the same server, but its name is no loopback address.
  const sending = async (host: string): Promise<void> => {
    const mailer = openMailer(`smtp://${host}:${port}/?from=a@b.example&to=c@d.example`)!;
    await mailer.send(alertOf(body)).finally(mailer.close);
  };
  try {
    await sending("127.0.0.1");
    expect(taken).toHaveLength(1);
    await expect(sending("0.0.0.0")).rejects.toThrow(/STARTTLS|TLS/);
    expect(taken).toHaveLength(1);
  } finally {
    await new Promise<void>((resolve) => server.close(resolve));
  }
});

test("the restart command is words, not a line for a shell", () => {
  expect(wordsOf("docker compose restart {service}", "redis")).toEqual(["docker", "compose", "restart", "redis"]);
  expect(wordsOf(`ssh  host 'sudo systemctl restart {service}'  "a b"c`, "redis")).toEqual([
    "ssh",
    "host",
    "sudo systemctl restart redis",
    "a bc",
  ]);
  expect(wordsOf("echo $(id) ; rm -rf {service}", "redis")).toEqual(["echo", "$(id)", ";", "rm", "-rf", "redis"]);
  expect(() => wordsOf("ssh 'open", "redis")).toThrow("a quote is not closed");
});

test("only the analytics store, the cache store and the log can be restarted", async () => {
  const log = { info: () => undefined, warn: () => undefined };
  const command = `${process.execPath} -e "process.exit(process.argv[1] === 'redis' ? 0 : 3)" {service}`;
  expect(restartOf("object_store", { command, log })).toBeUndefined();
  expect(restartOf("relational_store", { command, log })).toBeUndefined();
  expect(restartOf("cache_store", { log })).toBeUndefined();
  expect(
    restartOf("event_log", { log, stack: (service) => (service === "kafka" ? async () => undefined : undefined) }),
  ).toBeTypeOf("function");
  await restartOf("cache_store", { command, log })!();
  await expect(restartOf("analytics_store", { command, log })!()).rejects.toThrow("the restart command failed");
});

test("what answers in the place of the API is reported by its status", async () => {
  const proxy = createServer((_, response) => response.writeHead(502, { "content-type": "text/html" }).end("<html>"));
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  await expect(sendToApi({ url, token: "t" }, alertOf(body))).rejects.toThrow(
    "the platform API answered 502: no reason",
  );
  await new Promise((resolve) => proxy.close(resolve));
});

test("an alert that could be neither kept nor mailed leaves both reasons in the log", async () => {
  const away = (what: string) => () => Promise.reject(new Error(`${what} is away`));
  const logged: string[] = [];
  const pool = { connect: away("Postgres") } as never;
  const warn = (event: string, { error }: { error?: unknown } = {}) =>
    void logged.push(`${event}: ${(error as Error).message}`);
  const tell = openDelivery(pool, { send: away("the mail server"), close: () => undefined }, { warn });
  await expect(tell(alertOf(body))).rejects.toThrow("the mail server is away");
  expect(logged).toEqual(["alert.not_kept: Postgres is away", "alert.not_mailed: the mail server is away"]);
});
