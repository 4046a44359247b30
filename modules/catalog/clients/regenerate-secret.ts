// Gives a client a new signing secret; the old one stops working.
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import { newClientSecret, saveClientSecretWithin } from "../../access/secrets/client-secrets.ts";
import { staffOf } from "../../access/users/recipients.ts";
import { asUsers } from "../../access/users/users.ts";
import { queueMails } from "../../base/mails/mails.ts";
import type { Work } from "../../base/work.ts";
import { entityOf, openClient } from "./open-client.ts";

export interface SecretInput {
  readonly client_id: number;
  /** The name of the requesting person, for the mail to the client's staff. */
  readonly actor_name: string;
  readonly keyring: Keyring;
}

/** Returns the secret. Throws RefusalError: missing, `client_archived`. */
export const regenerateSecret = async (
  work: Work,
  { client_id, actor_name, keyring }: SecretInput,
): Promise<string> => {
  const { tx, now } = work;
  const { name } = await openClient(work, client_id, ["name"]);
  const secret = newClientSecret();
  await saveClientSecretWithin(tx, client_id, secret, keyring);
  const happening = `secret-regenerated:${work.idOf(0)}`;
  const facts = { actor: actor_name, name, at: now };
  const staff = await staffOf(tx, client_id);
  const mails = staff.map(({ email, locale }) => {
    return { happening, recipient: email, template: "secret_regenerated" as const, locale, facts };
  });
  await asUsers(tx, () => queueMails(tx, mails));
  await work.audit({ action: "secret.regenerated", client_id, entity: entityOf(client_id) });
  return secret;
};
