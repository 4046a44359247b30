// A folder for one stack of a test, and the start of a stack in it. Both are removed at the end of
// the test file.
import { lstatSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { stackConfig } from "../../infra/embedded/config.ts";
import { type Stack, type StackOptions, startStack } from "../../infra/embedded/supervisor.ts";

export interface Workshop {
  readonly home: string;
  /** One sentence for each event. */
  readonly lines: string[];
  readonly start: (options?: StackOptions) => Promise<Stack>;
  /** Stops everything that still runs and removes the folder; for afterAll. */
  readonly clear: () => Promise<void>;
}

// Variables that would lead these tests to servers of the developer's shell.
const OUTSIDE = [
  "KAFKA_BROKERS",
  "CLICKHOUSE_URL",
  "POSTGRES_URL",
  "REDIS_URL",
  "SCHEMA_REGISTRY_URL",
  "OIDC_ISSUER",
  "SMTP_URL",
  "MERCADOPAGO_URL",
  "TRIBUTARY_HOME",
];

export const ownConfig = () => {
  const environment = { ...process.env };
  for (const name of OUTSIDE) delete environment[name];
  return stackConfig(environment);
};

export function workshop(): Workshop {
  const home = mkdtempSync(join(tmpdir(), "tributary-stack-"));
  const lines: string[] = [];
  const stacks: Stack[] = [];
  return {
    home,
    lines,
    start: async (options = {}) => {
      const stack = await startStack({
        home,
        config: ownConfig(),
        onEvent: (event) => void lines.push(event.text),
        ...options,
      });
      stacks.push(stack);
      return stack;
    },
    clear: async () => {
      for (const stack of stacks) await stack.stop();
      const data = join(home, "postgres");
      // The folder of a test is private to its owner. If root runs it, the data are in a folder
      // that the server's user can read.
      if (lstatSync(data, { throwIfNoEntry: false })?.isSymbolicLink())
        rmSync(dirname(realpathSync(data)), { recursive: true, force: true });
      rmSync(home, { recursive: true, force: true });
    },
  };
}
