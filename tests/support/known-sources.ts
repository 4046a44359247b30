// Sources as an edge knows them, without a database.
import { readMapping } from "../../domain/sources/map-payload.ts";
import type { SourceMapping } from "../../domain/sources/source.ts";
import { allowing } from "../../modules/intake/sources/allow-list.ts";
import type { KnownSource, OpenSources } from "../../modules/intake/sources/source-picture.ts";
import { clientId } from "./builders.ts";

export interface GivenSource extends Partial<Pick<KnownSource, "slug" | "kind" | "state" | "movesMoney">> {
  readonly source_id: number;
  readonly mapping: SourceMapping;
  readonly key?: string;
  readonly secret?: string;
  readonly allow_ips?: readonly string[];
}

/** The list may change while an edge uses it. */
export const knownSources = (given: readonly GivenSource[]): OpenSources => {
  const all = () => given.map((one) => ({ key: one.key, source: knownOf(one) }));
  return {
    isKnown: () => true,
    byId: (id) => all().find(({ source }) => source.source_id === id)?.source,
    activeOf: (client) =>
      all()
        .map(({ source }) => source)
        .filter((one) => one.client_id === client && one.state === "active"),
    byKey: (key) => all().find((one) => one.key === key)?.source,
    again: async () => true,
    ready: Promise.resolve(),
    close: async () => undefined,
  };
};

const knownOf = ({ source_id, mapping, secret, allow_ips, ...over }: GivenSource): KnownSource => ({
  ...{ source_id, client_id: clientId, kind: "generic", state: "active" },
  ...{ mapping: mapping.mapping, event_names: mapping.event_names, read: readMapping(mapping) },
  slug: over.slug ?? "network",
  ...(over.kind && { kind: over.kind }),
  ...(over.state && { state: over.state }),
  movesMoney: over.movesMoney ?? true,
  allows: allowing(allow_ips ?? []),
  secret: () => secret,
  vault: () => Buffer.alloc(32, 7),
});
