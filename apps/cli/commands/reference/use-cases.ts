// The use cases that save the entries of each kind.
import type { Work } from "../../../../modules/base/work.ts";
import { archiveCampaign } from "../../../../modules/catalog/campaigns/archive.ts";
import { changeCampaign } from "../../../../modules/catalog/campaigns/change.ts";
import { changeLink } from "../../../../modules/catalog/campaigns/change-link.ts";
import { createCampaign } from "../../../../modules/catalog/campaigns/create.ts";
import { createLink } from "../../../../modules/catalog/campaigns/create-link.ts";
import { archiveClient } from "../../../../modules/catalog/clients/archive.ts";
import { changeClient } from "../../../../modules/catalog/clients/change.ts";
import { changeSegment } from "../../../../modules/catalog/clients/change-segment.ts";
import { createClient } from "../../../../modules/catalog/clients/create.ts";
import { createSegment } from "../../../../modules/catalog/clients/create-segment.ts";
import { contractIdOf } from "../../../../modules/catalog/contracts/contract-reads.ts";
import { saveContract } from "../../../../modules/catalog/contracts/save.ts";
import { archivePartner } from "../../../../modules/catalog/partners/archive.ts";
import { changePartner } from "../../../../modules/catalog/partners/change.ts";
import { createPartner } from "../../../../modules/catalog/partners/create.ts";
import type { Kind, KnownRecord } from "../../../../modules/catalog/reference/newest-records.ts";
import { parseRecord, parseSegment } from "../../../../modules/catalog/reference/parse-record.ts";
import type { Columns } from "../../../../modules/catalog/reference/problem.ts";
import { archiveRule } from "../../../../modules/catalog/rules/archive.ts";
import { createRule } from "../../../../modules/catalog/rules/create.ts";
import { replaceRule } from "../../../../modules/catalog/rules/replace.ts";

/** An entry of a file, with the record that it changes. */
export interface RecordEntry {
  /** The fields without id, version and confirmations. */
  readonly fields: Columns;
  /** Undefined: the entry makes a new record. */
  readonly known: KnownRecord | undefined;
  /** True when the entry of a client confirms that events older than its retention are deleted. */
  readonly isRetentionConfirmed: boolean;
}
export interface KindUseCases {
  /** Saves the entry and returns its key. Throws RefusalError. */
  readonly save: (work: Work, entry: RecordEntry) => Promise<string>;
  /** Returns the key of the record that an entry without an id means. */
  readonly keyOf?: (work: Work, entry: Columns) => Promise<string | undefined>;
}

/** Returns the given fields that differ from the saved record. */
const changedIn = ({ fields, known }: RecordEntry): Columns =>
  Object.fromEntries(
    Object.entries(fields).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(known?.record[name])),
  );

/**
 * A record lists the days of all event types, so the patch removes the types that it does not list.
 */
const holdPatch = (saved: Columns, days: Columns): Columns => ({
  ...Object.fromEntries(Object.keys(saved).map((type) => [type, null])),
  ...days,
});

const clients: KindUseCases = {
  save: async (work, entry) => {
    const { fields, known } = entry;
    parseRecord("clients", known?.record, fields);
    if (known === undefined) return String(await createClient(work, fields as never));
    const client_id = Number(known.key);
    const { status, hold_days, ...rest } = changedIn(entry);
    const isArchived = status === "archived";
    const patch = {
      ...rest,
      ...(hold_days !== undefined && { hold_days: holdPatch(known.record.hold_days, hold_days) }),
      ...(status !== undefined && !isArchived && { status }),
    };
    const change = { client_id, patch, version: undefined, confirm_retention: entry.isRetentionConfirmed };
    if (Object.keys(patch).length > 0 || !isArchived) await changeClient(work, change);
    if (isArchived) await archiveClient(work, { client_id, version: undefined });
    return known.key;
  },
};

const segments: KindUseCases = {
  save: async (work, entry) => {
    const { client_id, ...segment } = parseSegment(entry.known?.record, entry.fields);
    const { code } = segment;
    if (entry.known === undefined) await createSegment(work, { client_id, segment });
    else await changeSegment(work, { client_id, code, patch: changedIn(entry), version: undefined });
    return `${client_id}:${code}`;
  },
};

const partners: KindUseCases = {
  save: async (work, entry) => {
    const { fields, known } = entry;
    const record = parseRecord("partners", known?.record, fields);
    if (known === undefined) return String(await createPartner(work, { ...record, ...fields } as never));
    const partner_id = Number(known.key);
    const { status, ...rest } = changedIn(entry);
    const isArchived = status === "archived";
    const patch = isArchived || status === undefined ? rest : { ...rest, status };
    if (Object.keys(patch).length > 0 || !isArchived)
      await changePartner(work, { partner_id, patch, version: undefined });
    if (isArchived) await archivePartner(work, { partner_id, version: undefined });
    return known.key;
  },
};

const contracts: KindUseCases = {
  keyOf: async ({ tx }, entry) => {
    const id = await contractIdOf(tx, entry);
    return id === undefined ? undefined : String(id);
  },
  save: async (work, { fields, known }) => {
    const terms = parseRecord("contracts", known?.record, fields);
    const { partner_id, client_id, segment, event_type, effective_from } = terms;
    const key = { partner_id, client_id, segment, event_type, effective_from };
    return String((await saveContract(work, { key, terms, version: undefined })).id);
  },
};

const campaigns: KindUseCases = {
  save: async (work, entry) => {
    const { fields, known } = entry;
    parseRecord("campaigns", known?.record, fields);
    const { archived: _, status, ...rest } = changedIn(entry);
    const isArchived = fields.archived === true;
    const campaign_id = known === undefined ? await createCampaign(work, rest as never) : Number(known.key);
    // The status needs no change for a new campaign, which is a draft, and an archived one, which
    // ends.
    const isMove = status !== undefined && status !== (known === undefined ? "draft" : isArchived && "ended");
    const move = isMove ? { status } : {};
    const patch = { ...(known !== undefined && rest), ...move };
    if (Object.keys(patch).length > 0 || !(isArchived || known === undefined))
      await changeCampaign(work, { campaign_id, patch, version: undefined });
    if (isArchived) await archiveCampaign(work, { campaign_id, version: undefined });
    return String(campaign_id);
  },
};

const links: KindUseCases = {
  save: async (work, { fields, known }) => {
    const link = parseRecord("links", known?.record, fields);
    if (known === undefined) return String(await createLink(work, link));
    await changeLink(work, { link_id: Number(known.key), status: link.status });
    return known.key;
  },
};

const rules: KindUseCases = {
  save: async (work, entry) => {
    const { known } = entry;
    const { client_id, archived, ...rule } = parseRecord("rules", known?.record, entry.fields);
    const { archived: _, status: __, ...rest } = changedIn(entry);
    const rule_id = known === undefined ? await createRule(work, { client_id, ...rule }) : Number(known.key);
    const isArchived = entry.fields.archived === true;
    // Archiving switches a rule off, so a record that only archives needs no other change.
    if (known !== undefined && !(isArchived && Object.keys(rest).length === 0))
      await replaceRule(work, { rule_id, rule, version: undefined });
    if (isArchived) await archiveRule(work, { rule_id, version: undefined });
    return String(rule_id);
  },
};

const useCases: Readonly<Record<Kind, KindUseCases>> = {
  ...{ clients, segments, partners, contracts, campaigns, links, rules },
};
export const useCasesOf = (kind: Kind): KindUseCases => useCases[kind];
