// The route that makes a client with segments, partners, contracts, campaigns and pixel: one
// transaction, of which a fault leaves nothing.
import { Problem } from "../../../../infra/http/problem.ts";
import { createFirstInvitations } from "../../../../modules/access/invitations/invitations.ts";
import { newClientSecret, saveClientSecretWithin } from "../../../../modules/access/secrets/client-secrets.ts";
import { createTokenWithin } from "../../../../modules/access/tokens/tokens.ts";
import { addressesInUse, asUsers, type User } from "../../../../modules/access/users/users.ts";
import type { AuditEntry } from "../../../../modules/base/audit/audit.ts";
import { queueMails } from "../../../../modules/base/mails/mails.ts";
import { announce } from "../../../../modules/base/outbox/outbox.ts";
import { followLaunch } from "../../../../modules/catalog/campaigns/follow-launch.ts";
import { readClient, readSegments } from "../../../../modules/catalog/clients/client-reads.ts";
import { refuseInactive } from "../../../../modules/catalog/partners/named-partners.ts";
import { PARTNER_CONFLICTS, refuseAmong, refuseTaken } from "../../../../modules/catalog/partners/partner-fields.ts";
import { type PartnerState, partnerStates } from "../../../../modules/catalog/partners/partner-reads.ts";
import { readPixelConfig, savePixelConfig } from "../../../../modules/catalog/pixel/pixel-config.ts";
import { snippetOf } from "../../../../modules/catalog/pixel/snippet.ts";
import { lockReference } from "../../../../modules/catalog/reference/open-change.ts";
import type { WrittenIds } from "../../../../modules/catalog/reference/writer.ts";
import { clientDetail } from "../../contract/clients/clients.ts";
import { onboardClient } from "../../contract/clients/onboard.ts";
import { CLIENT, changesOf, type Plan, placeIn, planOf, warningsIn } from "../../onboarding/plan.ts";
import { defined, fault } from "../../request/accept.ts";
import { formerMonthState } from "../../request/range.ts";
import { type ApiPorts, type Route, route, type Work } from "../../route.ts";

const CONFLICTS = { slug: "slug_taken", ...PARTNER_CONFLICTS };
const CLIENT_FIELDS = Object.keys(clientDetail.shape);

export const routes = ({ keyring }: Pick<ApiPorts, "keyring">): readonly Route[] => [
  route(onboardClient, ({ write, body, user }) =>
    write(async (work) => {
      const plan = planOf(body);
      await lockReference(work.tx);
      const known = await checkPartners(work, plan);
      const onboarding = { plan, known, user, keyring };
      // Thousands of rows: only the answer is left for the time behind the stamp.
      let made: OnboardResult | undefined;
      await work.change(changesOf(plan, known), CONFLICTS, {
        placeOf: placeIn(plan),
        also: async (written) => {
          made = await followed(work, onboarding, madeOf(plan, written));
        },
      });
      const { client_id, token, hmac_secret } = made!;
      const answer = await answerOf(work, made!);
      return {
        body: { ...answer, ingest_token: token, hmac_secret },
        repeat: { ...answer, ingest_token: null, hmac_secret: null, secrets: "shown_once" },
        headers: { Location: `/api/clients/${client_id}` },
      };
    }),
  ),
];

interface Onboarding {
  readonly plan: Plan;
  readonly known: ReadonlyMap<number, PartnerState>;
  readonly user: User;
  readonly keyring: ApiPorts["keyring"];
}
type OnboardResult = Awaited<ReturnType<typeof followed>>;

/** What belongs to the rows of the change: pixel, secrets, invitations, mails and audit. */
const followed = async (work: Work, { plan, known, user, keyring }: Onboarding, made: MadeThings) => {
  const { client_id, change_id, campaigns } = made;
  await savePixel(work, plan, client_id);
  const hmac_secret = newClientSecret();
  await saveClientSecretWithin(work.tx, client_id, hmac_secret, keyring);
  const label = "made with the client in the platform API";
  const { token_id, token } = await createTokenWithin(work.tx, { kind: "ingest", client_id, label });
  const invited = await invite(work, made, user, keyring);
  const launched = campaigns.filter(({ status }) => status === "active").map(launchOf);
  await followLaunch(work, { client_id, name: plan.body.client.name, change_id }, launched);
  await work.audit(...entriesOf(made, known, token_id, invited));
  return { ...made, token, hmac_secret };
};

/**
 * What is there of the partners. Throws Problem 400 for an unknown one, 409 for one that is
 * archived or may get no link, and for an address that another one has.
 */
const checkPartners = async ({ tx, scope }: Work, { partners, campaigns }: Plan) => {
  const ids = partners.flatMap(({ partner_id, made }) => (made === null ? partner_id : []));
  const known = await partnerStates(tx, ids, scope.clients);
  for (const { partner_id, made, place } of partners) {
    if (made !== null) continue;
    const state = known.get(partner_id);
    if (state === undefined) throw fault(`${place}/id`, "unknown", `no partner has the id ${partner_id}`);
    if (state.status === "archived") throw archived(`${place}/id`);
  }
  const fresh = partners.flatMap(({ made, place }) => (made === null ? [] : { ...made, place }));
  const guests = fresh.filter(({ status }) => status === "invited");
  const emails = guests.map(({ email }) => email);
  const users = await asUsers(tx, () => addressesInUse(tx, emails));
  refuseAmong(users, guests, "there is a user of this address already");
  await refuseTaken(tx, fresh);
  const statuses = new Map(
    partners.map(({ partner_id, made }) => [partner_id, made?.status ?? known.get(partner_id)!.status]),
  );
  refuseInactive(
    statuses,
    campaigns.flatMap(({ links }) => links.map(({ partner_id: id, place: path }) => ({ id, path }))),
  );
  return known;
};

const archived = (pointer: string): Problem => {
  const detail = "this partner is archived";
  const code = "partner_archived";
  return new Problem("conflict", detail, { code, errors: [{ pointer, code, detail }] });
};

/** What was made, with the ids that it got. */
type MadeThings = ReturnType<typeof madeOf>;

const madeOf = (plan: Plan, { change_id, idOf, contractIds }: WrittenIds) => {
  const partners = plan.partners.map((partner) => ({ ...partner, id: idOf("partners", partner.partner_id) }));
  const campaigns = plan.campaigns.map(({ campaign_id, given, links }) => ({
    ...{ id: idOf("campaigns", campaign_id), name: given.name, given },
    status: given.launch ? ("active" as const) : ("draft" as const),
    links: links.map(({ partner_id, code }) => ({
      ...{ partner_id: idOf("partners", partner_id), code, url: `/c/${code}`, status: "active" as const },
    })),
  }));
  return { plan, change_id, client_id: idOf("clients", CLIENT), partners, campaigns, contractIds };
};

/** What of the pixel is no column of the client. */
const savePixel = async ({ tx }: Work, { body, allowed_domains }: Plan, clientId: number): Promise<void> => {
  const { jurisdiction: _, consent_default: __, ...given } = body.pixel_config;
  const patch = defined(given);
  if (Object.keys(patch).length === 0) return;
  const config = { ...(await readPixelConfig(tx, clientId, [clientId]))!, ...patch, allowed_domains };
  await savePixelConfig(tx, clientId, { ...config, tracked_events: [...new Set(config.tracked_events)] });
};

interface InvitationOf {
  readonly invitation_id: number;
  readonly partner_id: number;
  readonly expires_at: number;
}

/** Invitations of those that are to be invited, their mails, and what the log hears of them. */
const invite = async (
  { tx }: Work,
  { plan, client_id, change_id, partners }: MadeThings,
  user: User,
  keyring: ApiPorts["keyring"],
): Promise<readonly InvitationOf[]> => {
  const guests = partners.flatMap(({ id, made }) => (made?.status === "invited" ? { id, ...made } : []));
  if (guests.length === 0) return [];
  const { locale, name: inviter } = user;
  const wanted = guests.map(({ id, email }) => ({
    ...{ kind: "partner" as const, email: email.toLowerCase(), partner_id: id, client_id: null },
    ...{ locale, invited_by: user.email },
  }));
  const made = await createFirstInvitations(tx, wanted, keyring);
  const clients = plan.body.client.name;
  await asUsers(tx, () =>
    queueMails(
      tx,
      made.map(({ invitation_id, expires_at }, n) => ({
        ...{
          happening: `invitation:${invitation_id}`,
          recipient: wanted[n]!.email,
          template: "invitation_partner",
          locale,
        },
        facts: { inviter, name: guests[n]!.name, clients, invitation_id, expires_at },
      })),
    ),
  );
  const announced = guests.map(({ id }) => ({
    topic: "domain.changes" as const,
    client_id,
    record: {
      ...{ client_id, entity: `partner:${id}`, type: "partner.invited", version: 1, change_id },
      data: JSON.stringify({ partner_id: id }),
    },
  }));
  await announce(tx, announced);
  return made.map((one, n) => ({ ...one, partner_id: guests[n]!.id }));
};

const launchOf = ({ id, name, given, links }: MadeThings["campaigns"][number]) => ({
  ...{ campaign_id: id, version: 1, campaign: name, links },
  ...{ starts_on: given.starts_on ?? null, ends_on: given.ends_on ?? null },
  partner_ids: links.map(({ partner_id }) => partner_id),
});

const entriesOf = (
  { plan, client_id, partners, campaigns, contractIds }: MadeThings,
  known: ReadonlyMap<number, PartnerState>,
  tokenId: number,
  invited: readonly InvitationOf[],
): readonly AuditEntry[] => {
  const { body, contracts } = plan;
  const entry = (action: string, entity: string, after: unknown, before?: unknown): AuditEntry => ({
    ...{ action, client_id, entity, after },
    ...(before !== undefined && { before }),
  });
  const made = {
    ...{ partners: partners.map(({ id }) => id), commissions: contractIds },
    campaigns: campaigns.map(({ id }) => id),
  };
  return [
    entry("client.onboarded", `client:${client_id}`, {
      ...{ ...body.client, segments: body.segments, pixel_config: body.pixel_config },
      made,
    }),
    ...partners.map(({ id, made: given }) => {
      if (given !== null) return entry("partner.created", `partner:${id}`, { ...given, client_ids: [client_id] });
      const { client_ids } = known.get(id)!;
      return entry("partner.updated", `partner:${id}`, { client_ids: [...client_ids, client_id] }, { client_ids });
    }),
    ...contractIds.map((id, n) => {
      const partner_id = partners.find((one) => one.partner_id === contracts[n]!.partner_id)!.id;
      return entry("contract.created", `contract:${id}`, { ...contracts[n], partner_id, client_id });
    }),
    ...campaigns.map(({ id, given, status, links }) =>
      entry(status === "active" ? "campaign.launched" : "campaign.created", `campaign:${id}`, {
        ...{ ...given, status, partners: links.map(({ partner_id }) => partner_id) },
      }),
    ),
    entry("token.created", `token:${tokenId}`, { kind: "ingest", client_id }),
    ...invited.map(({ invitation_id, partner_id, expires_at }) =>
      entry("invitation.created", `invitation:${invitation_id}`, { kind: "partner", partner_id, expires_at }),
    ),
  ];
};

const answerOf = async ({ tx }: Work, { plan, client_id, partners, campaigns, contractIds }: MadeThings) => {
  const { shown } = (await readClient(tx, client_id, [client_id], CLIENT_FIELDS))!;
  const segments = await readSegments(tx, client_id, [client_id]);
  return {
    client: { ...shown, last_event_at: null, month_state: formerMonthState(Date.now()) },
    segments: segments.map(({ code, name }) => ({ code, name })),
    partners: partners.map(({ key, id }) => ({ key, id })),
    commissions: contractIds.map((id) => ({ id })),
    campaigns: campaigns.map(({ id, name, status, links }) => ({ id, name, status, links })),
    pixel: { snippet: snippetOf(client_id) },
    warnings: warningsIn(plan),
  };
};
