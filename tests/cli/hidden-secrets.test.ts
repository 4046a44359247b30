// No command prints a password of the stack of this folder.
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test, vi } from "vitest";
import { hiddenSecrets } from "../../apps/cli/config.ts";
import { openHome, secretsOf } from "../../infra/embedded/home.ts";

const folder = mkdtempSync(join(tmpdir(), "tributary-hidden-"));
afterAll(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

test("passwords of the apps' own logins are hidden like every other", () => {
  mkdirSync(join(folder, "home"));
  vi.stubEnv("TRIBUTARY_HOME", join(folder, "home"));
  const { postgresLogins, ...others } = secretsOf(openHome(join(folder, "home")));
  const texts = [...Object.values(postgresLogins), ...Object.values(others)];
  expect(new Set(texts).size).toBe(15);
  expect(hiddenSecrets()).toEqual(expect.arrayContaining(texts));
  expect(hiddenSecrets().every((text) => typeof text === "string" && !text.includes("[object"))).toBe(true);
});
