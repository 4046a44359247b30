// Refuses a command that was started with other secrets than the processes of its installation.
import type pg from "pg";
import { transaction } from "../../../infra/postgres/sql.ts";
import { CommandRefused } from "../../../infra/runtime/command-errors.ts";
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import { fingerprintOf, knownSecrets, pepperIn, WrongPepper } from "./installation-secrets.ts";

/** Throws WrongPepper if the installation has another pepper. Writes nothing. */
export const refuseOtherPepper = (pool: pg.Pool, keyring: Keyring): Promise<void> =>
  transaction(
    pool,
    null,
    async (tx) => {
      const [given, kept] = [fingerprintOf(keyring.pepper), await pepperIn(tx)];
      if (kept !== undefined && kept !== given) throw new WrongPepper(given, kept);
    },
    { isReadOnly: true },
  );

/**
 * A check for processes that verify click ids of others: throws CommandRefused if this process was
 * started before the newest secret, because it would take links signed with that secret for
 * forgeries.
 */
export const refuseWithoutNewest = async (pool: pg.Pool, keyring: Keyring): Promise<void> => {
  const newest = (await knownSecrets(pool)).secrets.at(-1);
  const own = [...keyring.accepted, keyring.pepper].map(fingerprintOf);
  if (newest !== undefined && !own.includes(newest.fingerprint))
    throw new CommandRefused(
      `TRIBUTARY_SECRET: another process uses the secret ${newest.fingerprint}, which this one does not know: start ` +
        "it again with the list of all secrets (docs/runbooks/rotate-secrets.md)",
    );
};
