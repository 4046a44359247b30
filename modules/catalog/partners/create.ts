// Makes a partner.
import type { Work } from "../../base/work.ts";
import { namedClients } from "../clients/open-client.ts";
import { changeReference } from "../reference/change.ts";
import type { ReferenceChanges } from "../reference/entities.ts";
import { lockReference } from "../reference/open-change.ts";
import { entityOf, onlyOf } from "./open-partner.ts";
import { newReferralCode, PARTNER_CONFLICTS, type PayoutInput, payoutOf, refuseTaken } from "./partner-fields.ts";

type Record = NonNullable<ReferenceChanges["partners"]>[number];
export interface PartnerInput extends Pick<Record, "status"> {
  readonly name: string;
  readonly email: string;
  readonly client_ids: readonly number[];
  readonly payout?: PayoutInput | undefined;
  /** If left out, a random code is made. */
  readonly referral_code?: string | undefined;
}

/**
 * Returns the id. Throws RefusalError: unknown or archived clients, `email_in_use`,
 * `referral_code_taken`, `bad_amount`.
 */
export const createPartner = async (work: Work, input: PartnerInput): Promise<number> => {
  const { client_ids, email } = input;
  await namedClients(
    work,
    client_ids.map((id, n) => ({ id, path: `/client_ids/${n}` })),
  );
  const payout = payoutOf(input.payout);
  await lockReference(work.tx);
  await refuseTaken(work.tx, [{ email, place: "" }]);
  const made = {
    ...input,
    payout,
    client_ids: [...client_ids],
    referral_code: input.referral_code ?? newReferralCode(),
  };
  const saved = await changeReference(
    work,
    { partners: [{ partner_id: -1, ...made }] },
    { conflicts: PARTNER_CONFLICTS },
  );
  const id = saved.idOf("partners", -1);
  await work.audit({ action: "partner.created", client_id: onlyOf(client_ids), entity: entityOf(id), after: made });
  return id;
};
