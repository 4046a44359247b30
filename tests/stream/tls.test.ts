// The servers of apps over TLS: at least 1.3, certificates renewed under open connections, and no
// start with an unusable certificate.
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:https";
import { connect as connectPlain } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, type TLSSocket } from "node:tls";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openOps } from "../../infra/http/app/side-port.ts";
import { listen } from "../../infra/http/listen.ts";
import type { TlsFiles } from "../../infra/http/tls.ts";
import { openMetrics } from "../../infra/runtime/metrics.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { newAuthority } from "../support/certificates.ts";

const authority = newAuthority();
let folder: string;
let names: string[];
let tls: TlsFiles;
const closers: (() => Promise<void> | void)[] = [];

const install = ({ cert, key }: { cert: string; key: string }): void => {
  writeFileSync(tls.certFile, cert);
  writeFileSync(tls.keyFile, key);
};

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tributary-tls-"));
  names = [];
  tls = {
    certFile: join(folder, "tls.crt"),
    keyFile: join(folder, "tls.key"),
    log: { info: (name) => void names.push(name), error: (name) => void names.push(name) },
    lookMs: 20,
  };
  install(authority.issue("127.0.0.1", "localhost"));
});
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
  rmSync(folder, { recursive: true, force: true });
});

const serving = async (): Promise<number> => {
  const server = await listen((_request, response) => response.end("served"), { host: "127.0.0.1", port: 0, tls });
  closers.push(server.close);
  return server.port;
};

const agentFor = (options: object = {}) => {
  const agent = new Agent({ ca: authority.cert, keepAlive: true, maxSockets: 1, ...options });
  closers.push(() => agent.destroy());
  return agent;
};
/** The answer, and the certificate and socket behind it. */
const get = (
  port: number,
  agent: Agent,
): Promise<{ text: string; protocol: string | null; serial: string; socket: TLSSocket }> =>
  new Promise((resolve, reject) => {
    const asked = request({ host: "127.0.0.1", port, path: "/livez", agent }, async (response) => {
      const socket = response.socket as TLSSocket;
      const [protocol, serial] = [socket.getProtocol(), socket.getPeerCertificate().serialNumber];
      let text = "";
      for await (const part of response) text += part;
      resolve({ text, protocol, serial, socket });
    });
    asked.once("error", reject).end();
  });
const handshake = (port: number, options: object): Promise<string | null> =>
  new Promise((resolve, reject) => {
    const socket = connect({ host: "127.0.0.1", port, ca: authority.cert, ...options }, () => {
      resolve(socket.getProtocol());
      socket.destroy();
    });
    socket.once("error", reject);
  });

test("a port that closes waits neither for a handshake nor for a request that does not come", async () => {
  const port = await serving();
  const silent = [connect({ port, host: "127.0.0.1", ca: authority.cert }), connectPlain(port, "127.0.0.1")];
  for (const socket of silent) socket.on("error", () => undefined);
  await Promise.all(silent.map((socket, n) => once(socket, n === 0 ? "secureConnect" : "connect")));
  const began = performance.now();
  await closers.pop()!();
  expect(performance.now() - began).toBeLessThan(5_000);
  for (const socket of silent) socket.destroy();
});

test("an app with certificate files speaks TLS 1.3 and nothing older", async () => {
  const port = await serving();
  expect(await get(port, agentFor())).toMatchObject({ text: "served", protocol: "TLSv1.3" });
  await expect(handshake(port, { maxVersion: "TLSv1.2" })).rejects.toThrow(/version/i);
  await expect(handshake(port, { minVersion: "TLSv1.2" })).resolves.toBe("TLSv1.3");
});

test("its side port does the same", async () => {
  const metrics = openMetrics({ app: "worker", version: "0", commit: "0" });
  const used: string[] = [];
  const onUse = (certificate: string) => void used.push(certificate);
  const ops = await openOps({ port: 0, checks: {}, metrics, tls: { ...tls, onUse } });
  closers.push(ops.close);
  expect(await get(ops.port, agentFor())).toMatchObject({ text: "ok\n", protocol: "TLSv1.3" });
  expect(used, "its end shows in the metrics").toEqual([readFileSync(tls.certFile, "utf8")]);
  await expect(handshake(ops.port, { maxVersion: "TLSv1.2" })).rejects.toThrow(/version/i);
});

test("a sender that trusts another authority, or calls another name, gives up", async () => {
  const port = await serving();
  await expect(handshake(port, { ca: newAuthority("somebody else").cert })).rejects.toThrow(/signature|certificate/i);
  await expect(handshake(port, { servername: "elsewhere.test" })).rejects.toThrow(/altnames|elsewhere/i);
});

test("a renewed certificate is shown to new connections while an open one goes on", async () => {
  const port = await serving();
  const open = agentFor();
  const before = await get(port, open);
  install(authority.issue("127.0.0.1"));
  await until("the new certificate is shown", 30_000, async () => {
    const { serial } = await get(port, agentFor());
    if (serial === before.serial) throw new Error("still the old one");
  });
  const after = await get(port, open);
  expect(after.socket).toBe(before.socket);
  expect(after.serial).toBe(before.serial);
  expect(names).toContain("tls.renewed");
});

test("an unusable renewal is logged, and the former certificate goes on", async () => {
  const port = await serving();
  const before = await get(port, agentFor());
  writeFileSync(tls.certFile, "cut short");
  await until("it is logged", 30_000, () => {
    if (!names.includes("tls.not_renewed")) throw new Error("not yet");
  });
  expect((await get(port, agentFor())).serial).toBe(before.serial);
});

test("files that go away are logged once, and the former certificate goes on until they are back", async () => {
  const port = await serving();
  rmSync(tls.keyFile);
  await until("it is logged", 30_000, () => {
    if (!names.includes("tls.not_renewed")) throw new Error("not yet");
  });
  expect((await get(port, agentFor())).text).toBe("served");
  install(authority.issue("127.0.0.1"));
  await until("it is renewed", 30_000, () => {
    if (!names.includes("tls.renewed")) throw new Error("not yet");
  });
  expect(names.filter((name) => name === "tls.not_renewed").length).toBeLessThanOrEqual(3);
});

test("a certificate that is renewed while its server starts is shown too", async () => {
  const started = serving();
  install(authority.issue("127.0.0.1"));
  const port = await started;
  const renewed = new X509Certificate(readFileSync(tls.certFile)).serialNumber;
  await until("the renewed one is shown", 30_000, async () => {
    if ((await get(port, agentFor())).serial !== renewed) throw new Error("still the old one");
  });
});

test("two servers of one app watch the same files, and closing one leaves the other watching", async () => {
  const [one, other] = [await serving(), await serving()];
  await closers.shift()!();
  expect(one).not.toBe(other);
  const before = await get(other, agentFor());
  install(authority.issue("127.0.0.1"));
  await until("the other shows the new certificate", 30_000, async () => {
    if ((await get(other, agentFor())).serial === before.serial) throw new Error("still the old one");
  });
});

test("an app does not start with files that are missing or do not belong together", async () => {
  writeFileSync(tls.keyFile, authority.issue("127.0.0.1").key);
  await expect(serving()).rejects.toThrow(/key values mismatch/i);
  rmSync(tls.keyFile);
  await expect(serving()).rejects.toThrow(/ENOENT.*tls\.key/);
});

test("a client that speaks plain HTTP to a TLS port is disconnected", async () => {
  const port = await serving();
  const ended = new Promise<void>((resolve) => {
    const socket = connectPlain({ host: "127.0.0.1", port }, () => socket.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    socket.on("error", () => undefined).once("close", () => resolve());
    socket.resume();
  });
  await ended;
  expect(await get(port, agentFor())).toMatchObject({ text: "served" });
});
