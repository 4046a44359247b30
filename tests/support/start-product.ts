// One installation with all of its apps for the files of the project `product`, which join it
// (tests/support/joined-product.ts).
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { apps } from "../../modules/running/installation/product.ts";
import { startInstallation } from "./e2e-product.ts";

declare module "vitest" {
  export interface ProvidedContext {
    readonly installation: {
      readonly home: string;
      /** The variables that its processes get. */
      readonly env: Readonly<Record<string, string>>;
      /** The file to which the supervisor appends its messages, one a line. */
      readonly said: string;
    };
  }
}

/** Vitest calls this once before the files of the project. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folder = mkdtempSync(join(tmpdir(), "tributary-said-"));
  const said = join(folder, "said");
  writeFileSync(said, "");
  const { stack, clear } = await startInstallation(apps, ["identity"], (line) => appendFileSync(said, `${line}\n`));
  project.provide("installation", { home: stack.home, env: stack.env, said });
  return async () => {
    await clear();
    rmSync(folder, { recursive: true, force: true });
  };
}
