// Gives a partner a new upload token. The old one stops working within a second, and a mail tells
// the partner's users.
import { randomUUID } from "node:crypto";
import type { UnixMs } from "../../../stream/flow.ts";
import { archived, boundTo, needWholePartner } from "../../access/standing.ts";
import { readToken } from "../../access/tokens/token-reads.ts";
import { createTokenWithin } from "../../access/tokens/tokens.ts";
import { addressesOfPartners } from "../../access/users/recipients.ts";
import { asUsers } from "../../access/users/users.ts";
import { queueMails } from "../../base/mails/mails.ts";
import type { Work } from "../../base/work.ts";
import { entityOf, onlyOf, openPartner } from "./open-partner.ts";

export interface UploadTokenInput {
  readonly partner_id: number;
  /** The name of the acting person, for the mail. */
  readonly actor: string;
}
export interface RotatedToken {
  readonly token: string;
  readonly prefix: string;
  readonly rotated_at: UnixMs;
}

/**
 * Throws RefusalError: missing, conflict `partner_left`, `partner_archived`, forbidden
 * `shared_partner`.
 */
export const rotateUploadToken = async (work: Work, { partner_id, actor }: UploadTokenInput): Promise<RotatedToken> => {
  const { tx, scope, audit } = work;
  const { state, shown } = await openPartner(work, partner_id, ["name"]);
  if (state.status === "archived") throw archived("partner");
  needWholePartner(scope, state.known_to);
  const recipients = await addressesOfPartners(tx, [partner_id]);
  const label = "upload token rotated in the platform API";
  const { token_id, token } = await createTokenWithin(tx, {
    ...{ kind: "upload", partner_id, label },
    client_ids: boundTo(scope, state.known_to),
  });
  const row = (await readToken(tx, { token_id }, scope, ["prefix", "created_at"]))!;
  const [prefix, rotated_at]: [string, UnixMs] = [row.prefix, row.created_at];
  const happening = `upload-token-rotated:${randomUUID()}`;
  const facts = { actor, name: shown.name as string, at: rotated_at };
  const mails = recipients.map(({ email: recipient, locale }) => {
    return { happening, recipient, template: "upload_token_rotated" as const, locale, facts };
  });
  await asUsers(tx, () => queueMails(tx, mails));
  const client_id = onlyOf(state.known_to);
  await audit({ action: "upload_token.rotated", client_id, entity: entityOf(partner_id), after: { prefix } });
  return { token, prefix, rotated_at };
};
