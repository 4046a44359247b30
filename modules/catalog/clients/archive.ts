// Archives a client: ends its tokens and open invitations, and pauses its campaigns. Its payments
// continue.
import { revokePendingOf } from "../../access/invitations/invitations.ts";
import { revokeTokensOf } from "../../access/tokens/tokens.ts";
import { checkVersion } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { changeReference } from "../reference/change.ts";
import { activeCampaigns } from "./client-reads.ts";
import { entityOf, lockClient } from "./open-client.ts";

/** Does nothing if it is archived already. Throws RefusalError: missing, `version_conflict`. */
export const archiveClient = async (
  work: Work,
  { client_id, version }: { readonly client_id: number; readonly version: number | undefined },
): Promise<void> => {
  const { tx } = work;
  const { state } = await lockClient(work, client_id);
  checkVersion(version, state.version);
  if (state.status === "archived") return;
  const paused_campaigns = await activeCampaigns(tx, client_id);
  const revoked_tokens = await revokeTokensOf(tx, client_id);
  const revoked_invitations = await revokePendingOf(tx, { client_id });
  await changeReference(work, {
    clients: [{ client_id, status: "archived" }],
    campaigns: paused_campaigns.map((campaign_id) => ({ campaign_id, status: "paused" as const })),
  });
  const before = { status: state.status };
  const after = { status: "archived", revoked_tokens, revoked_invitations, paused_campaigns };
  await work.audit({ action: "client.archived", client_id, entity: entityOf(client_id), before, after });
};
