// The health check of the image exits with 0 if ready, else with 1, over plain HTTP and over TLS.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { openOps } from "../../infra/http/app/side-port.ts";
import { openMetrics } from "../../infra/runtime/metrics.ts";
import { newAuthority } from "../support/certificates.ts";

const folder = mkdtempSync(join(tmpdir(), "tributary-healthy-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const checked = (env: Readonly<Record<string, string>>): Promise<number | null> =>
  new Promise((resolve) => {
    spawn("bash", ["scripts/healthy.sh"], { env: { PATH: process.env.PATH, ...env } }).once("exit", resolve);
  });

test.each([false, true])("an app is well when it is ready, and only then (TLS: %s)", async (isSecure) => {
  const { cert, key } = newAuthority().issue("ingest.example");
  const [certFile, keyFile] = [join(folder, "tls.crt"), join(folder, "tls.key")];
  writeFileSync(certFile, cert);
  writeFileSync(keyFile, key);
  const log = { info: () => undefined, error: () => undefined };
  const metrics = openMetrics({ app: "test", version: "0", commit: "0" });
  const ops = await openOps({ port: 0, checks: {}, metrics, ...(isSecure && { tls: { certFile, keyFile, log } }) });
  const env = { OPS_PORT: String(ops.port), ...(isSecure && { TLS_CERT_FILE: certFile }) };
  expect(await checked(env)).toBe(0);
  ops.drain();
  expect(await checked(env)).toBe(1);
  await ops.close();
  expect(await checked(env)).toBe(1);
});
