// The secrets of the installation: lists them by fingerprint, and rotates the newest.
import type { Command } from "commander";
import { CommandRefused, UsageError } from "../../../../infra/runtime/command-errors.ts";
import { print, printJson, table, tell } from "../../../../infra/runtime/output.ts";
import { resealClientSecrets } from "../../../../modules/access/secrets/client-secrets.ts";
import { refuseOtherPepper } from "../../../../modules/access/secrets/command-secrets.ts";
import { isSilent, knownSecrets, ruleOut } from "../../../../modules/access/secrets/installation-secrets.ts";
import { type Rotation, rotationFacts, rotationOf } from "../../../../modules/access/secrets/rotation.ts";
import {
  actorOf,
  beginOperation,
  type OperationPlan,
  type OperationPorts,
} from "../../../../modules/base/operations/operations.ts";
import { keyring } from "../../config.ts";
import { withAudit } from "../../connections.ts";
import { withPool } from "../../pool.ts";
import { openProgress } from "../../progress.ts";

const day = (at: number | null): string | null => (at === null ? null : new Date(at).toISOString().slice(0, 10));

const printed = ({ secrets, next }: Rotation): void => {
  print(
    table(
      ["secret", "does", "first used", "sealed values", "signs in", "silent"],
      secrets.map(({ fingerprint, does, first_used_at, sealed, signs_in, silent }) => [
        fingerprint,
        does,
        day(first_used_at),
        sealed,
        signs_in.join(" ") || null,
        silent.join(" ") || null,
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

/**
 * The order of effects: 1. the audit records the beginning; 2. secrets are sealed again; 3. the
 * audit records how many. After a crash the command is run again.
 */
const audited = async (audit: OperationPorts, { secrets }: Rotation, work: () => Promise<number>): Promise<number> => {
  const known = { secrets: secrets.map(({ fingerprint, sealed }) => ({ fingerprint, sealed })) };
  const plan = { kind: "secrets_reseal" as const, actor: actorOf(), target: "client_secrets" };
  const operation = await beginOperation(audit, plan, known);
  try {
    const resealed = await work();
    await operation.end("succeeded", { resealed });
    return resealed;
  } catch (error) {
    await operation.end("failed", { problem: (error as Error).message });
    throw error;
  }
};

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
    const resealed = await withAudit((audit) =>
      audited(audit, before, () => resealClientSecrets(pool, keys, progress.at)),
    );
    progress.done();
    const after = await facts();
    if (json) return printJson({ resealed, ...after });
    printed(after);
    tell(`${resealed} stored secrets were sealed again under the newest secret`);
  });

interface RulingOut {
  readonly yes?: boolean;
  readonly actor?: string;
  readonly reason?: string;
}
/** The audit has a record before and one after. The command may be repeated at any time. */
const ruleOutGone = (instances: readonly string[], { yes, actor, reason }: RulingOut): Promise<void> =>
  withPool(async (pool) => {
    const { holders } = await knownSecrets(pool);
    for (const instance of instances) {
      const holder = holders.find((one) => one.instance === instance && one.ruled_out_at === null);
      if (holder === undefined)
        throw new UsageError(`${instance} is no process that counts; they are listed by: tributary secrets show`);
      const seen = new Date(holder.seen_at).toISOString();
      if (!isSilent(holder, Date.now()))
        throw new CommandRefused(
          `${instance} reported at ${seen}, less than ten minutes ago: it runs, so give it the new list`,
        );
      print(`${instance} was last seen at ${seen}`);
    }
    if (!yes) return tell("nothing was written; where you know that they run no more, add --yes");
    const target = instances.join(" ");
    await withAudit(async (audit) => {
      const plan: OperationPlan = {
        kind: "secret_rule_out",
        actor: actorOf(actor),
        target,
        ...(reason !== undefined && { reason }),
      };
      const operation = await beginOperation(audit, plan, {});
      const ruledOut = await ruleOut(pool, instances);
      await operation.end("succeeded", { ruled_out: ruledOut });
      print(`the rotation waits no longer for: ${ruledOut.join(", ") || "none; they have reported by now"}`);
    });
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
  secrets
    .command("rule-out <process...>")
    .description("a rotation waits no longer for processes that have not reported for ten minutes and run no more")
    .option("--yes", "write; one that runs after all counts again with its next report")
    .option("--actor <email>", "who does it, for the audit, beside the user of this machine")
    .option("--reason <text>", "why, for the audit")
    .addHelpText(
      "before",
      "Examples:\n  $ tributary secrets rule-out edge-7\n  $ tributary secrets rule-out edge-7 edge-8 --yes\n",
    )
    .action(ruleOutGone);
};
