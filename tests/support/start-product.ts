// One installation with all of its apps for the files of the project `product`, which join it
// (tests/support/joined-product.ts).
import type { TestProject } from "vitest/node";
import { apps } from "../../modules/running/installation/product.ts";
import { startInstallation } from "./e2e-product.ts";

declare module "vitest" {
  export interface ProvidedContext {
    /** The folder of the installation, and the variables that its processes get. */
    readonly installation: { readonly home: string; readonly env: Readonly<Record<string, string>> };
  }
}

/** What vitest calls once before the files of the project. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { stack, clear } = await startInstallation(apps, ["identity"]);
  project.provide("installation", { home: stack.home, env: stack.env });
  return clear;
}
