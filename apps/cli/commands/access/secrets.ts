// The secrets of the installation: which there are, by fingerprint, and the rotation of the newest.
import type { Command } from "commander";
import { print, printJson, table, tell } from "../../../../infra/runtime/output.ts";
import { resealClientSecrets } from "../../../../modules/access/client-secrets.ts";
import { refuseOtherPepper } from "../../../../modules/access/installation-secrets.ts";
import { type Rotation, rotationFacts, rotationOf } from "../../../../modules/access/rotation.ts";
import { keyring } from "../../config.ts";
import { withPool } from "../../connections.ts";
import { openProgress } from "../../progress.ts";

const day = (at: number | null): string | null => (at === null ? null : new Date(at).toISOString().slice(0, 10));

const printed = ({ secrets, next }: Rotation): void => {
  print(
    table(
      ["secret", "does", "first used", "sealed values", "signs in"],
      secrets.map(({ fingerprint, does, first_used_at, sealed, signs_in }) => [
        fingerprint,
        does,
        day(first_used_at),
        sealed,
        signs_in.join(" ") || null,
      ]),
    ),
  );
  tell(`next: ${next}`);
};

const show = ({ json }: { json?: boolean }): Promise<void> =>
  withPool(async (pool) => {
    const rotation = rotationOf(await rotationFacts(pool, keyring(), Date.now()));
    if (json) printJson(rotation);
    else printed(rotation);
  });

const rotate = ({ yes, json }: { yes?: boolean; json?: boolean }): Promise<void> =>
  withPool(async (pool) => {
    const keys = keyring();
    await refuseOtherPepper(pool, keys);
    const facts = async (): Promise<Rotation> => rotationOf(await rotationFacts(pool, keys, Date.now()));
    const before = await facts();
    if (!yes) {
      if (json) return printJson(before);
      printed(before);
      if (before.step === "reseal") tell("nothing was written; add --yes to seal them again");
      return;
    }
    const progress = openProgress("clients", json);
    const resealed = await resealClientSecrets(pool, keys, progress.at);
    progress.done();
    const after = await facts();
    if (json) return printJson({ resealed, ...after });
    printed(after);
    tell(`${resealed} stored secrets were sealed again under the newest secret`);
  });

export const secretCommands = (program: Command): void => {
  const secrets = program.command("secrets").description("TRIBUTARY_SECRET: what hangs on it, and its rotation");
  secrets
    .command("show")
    .description("which secrets are in use, by fingerprint, and what to do next; never a value")
    .option("--json", "as JSON")
    .action(show);
  secrets
    .command("rotate")
    .description("shows the next step of a rotation; with --yes seals what is stored under the newest secret")
    .option("--yes", "write; run it again after an interruption, it goes on")
    .option("--json", "as JSON")
    .addHelpText(
      "before",
      "Examples:\n  $ tributary secrets rotate\n  $ tributary secrets rotate --yes\n\n" +
        "The whole procedure: docs/runbooks/rotate-secrets.md\n",
    )
    .action(rotate);
};
