// Checks the references between rows of reference data, e.g. which partners belong to which
// clients. Pure.
import { amountProblems } from "../contracts/contract-terms.ts";
import type { KnownRows, RecordDraft, SegmentDraft } from "./draft.ts";
import type { EntityName } from "./entities.ts";
import type { Columns, ReferenceProblem } from "./problem.ts";

/** The newest row of a record once the change is saved. */
export type Newest = (entity: EntityName, id: number) => Columns | undefined;

/** Returns all problems between the rows of a change and the saved rows. */
export const problemsBetween = (
  drafted: readonly RecordDraft[],
  newest: Newest,
  segmentsOf: (clientId: number) => readonly string[],
): readonly ReferenceProblem[] => drafted.flatMap((draft) => checks[draft.entity](draft, { newest, segmentsOf }));

interface Surroundings {
  readonly newest: Newest;
  readonly segmentsOf: (clientId: number) => readonly string[];
}
type Check = (draft: RecordDraft, around: Surroundings) => readonly ReferenceProblem[];

const exists = (newest: Newest, entity: EntityName, id: number, field: string): readonly ReferenceProblem[] =>
  newest(entity, id) === undefined
    ? [{ code: "unknown", field, message: `none of the ${entity} has the id ${id}` }]
    : [];
/** Checks that the partner exists and works for the client. */
const isPartnerOf = (
  newest: Newest,
  partnerId: number,
  clientId: number,
  field: string,
): readonly ReferenceProblem[] => {
  const partner = newest("partners", partnerId);
  if (partner === undefined) return exists(newest, "partners", partnerId, field);
  if (partner.client_ids.includes(clientId)) return [];
  return [
    {
      code: "invalid",
      field,
      message: `partner ${partnerId} does not work for client ${clientId}: add the client to its client_ids first`,
    },
  ];
};

const checks: Readonly<Record<EntityName, Check>> = {
  clients: () => [],
  partners: ({ record, field }, { newest }) =>
    record.client_ids.flatMap((id: number, n: number) => exists(newest, "clients", id, `${field}.client_ids[${n}]`)),
  campaigns: ({ record, field }, { newest }) => [
    ...exists(newest, "clients", record.client_id, `${field}.client_id`),
    ...record.patterns.flatMap((pattern: { partner_id?: number }, n: number) =>
      pattern.partner_id === undefined
        ? []
        : isPartnerOf(newest, pattern.partner_id, record.client_id, `${field}.patterns[${n}].partner_id`),
    ),
  ],
  links: ({ record, field }, { newest }) => {
    const campaign = newest("campaigns", record.campaign_id);
    if (campaign === undefined) return exists(newest, "campaigns", record.campaign_id, `${field}.campaign_id`);
    return isPartnerOf(newest, record.partner_id, campaign.client_id, `${field}.partner_id`);
  },
  contracts: (draft, around) => [
    ...exists(around.newest, "clients", draft.record.client_id, `${draft.field}.client_id`),
    ...isPartnerOf(around.newest, draft.record.partner_id, draft.record.client_id, `${draft.field}.partner_id`),
    // The segment of an existing record was checked when it was made, and may be switched off by
    // now.
    ...(draft.version > 1 ? [] : segmentProblems(draft, around)),
    ...currencyProblems(draft, around),
  ],
  rules: ({ record, field }, { newest }) => [
    ...exists(newest, "clients", record.client_id, `${field}.client_id`),
    ...isPartnerOf(newest, record.then.partner_id, record.client_id, `${field}.then.partner_id`),
    ...(record.then.campaign_id === undefined ||
    newest("campaigns", record.then.campaign_id)?.client_id === record.client_id
      ? []
      : [
          {
            code: "unknown" as const,
            field: `${field}.then.campaign_id`,
            message: `client ${record.client_id} has no campaign ${record.then.campaign_id}`,
          },
        ]),
  ],
};

const segmentProblems: Check = ({ record, field }, { segmentsOf }) =>
  record.segment === null || segmentsOf(record.client_id).includes(record.segment)
    ? []
    : [
        {
          code: "unknown",
          field: `${field}.segment`,
          message:
            `client ${record.client_id} has no segment ${record.segment}: add it, or leave it out for all ` +
            "segments",
        },
      ];

const currencyProblems: Check = ({ record, field }, { newest }) => {
  const client = newest("clients", record.client_id);
  return client === undefined ? [] : amountProblems(record, client.currency, field);
};

/** Codes of a client's active segments once the change is saved. */
export const segmentsAfter = (
  clientId: number,
  saved: Iterable<Columns>,
  drafted: readonly SegmentDraft[],
): readonly string[] => {
  const active = new Map<string, boolean>();
  for (const row of saved) if (row.client_id === clientId) active.set(row.code, row.active);
  for (const { client_id, record } of drafted) if (client_id === clientId) active.set(record.code, record.active);
  return [...active].flatMap(([code, isActive]) => (isActive ? code : []));
};

/**
 * Refuses records outside of the caller's clients as unknown, like ones that do not exist. Clients
 * that the change itself makes are allowed, and a partner keeps the clients that it had.
 */
export const outOfScope = (
  drafted: readonly RecordDraft[],
  segments: readonly SegmentDraft[],
  around: KnownRows,
  clients: ReadonlySet<number>,
): readonly ReferenceProblem[] => {
  const isForeign = (id: number | undefined): id is number =>
    id !== undefined && around.clients.has(id) && !clients.has(id);
  const unknown = (field: string, id: number): ReferenceProblem => ({
    code: "unknown",
    field,
    message: `no client has the id ${id}`,
  });
  const ofDrafts = drafted.flatMap(({ entity, id, record, field }): readonly ReferenceProblem[] => {
    const before: readonly number[] = (entity === "partners" && around.partners.get(id)?.client_ids) || [];
    const added = (record.client_ids ?? []).filter((one: number) => !before.includes(one));
    if (before.length > 0 && !before.some((one) => clients.has(one)))
      return [{ code: "unknown", field, message: `none of the partners has the id ${id}` }];
    const own = entity === "clients" ? id : record.client_id;
    const ofCampaign = entity === "links" ? around.campaigns.get(record.campaign_id)?.client_id : undefined;
    return [own, ofCampaign, ...added].filter(isForeign).map((one) => unknown(field, one));
  });
  return [
    ...ofDrafts,
    ...segments.flatMap(({ client_id, field }) => (isForeign(client_id) ? [unknown(field, client_id)] : [])),
  ];
};
