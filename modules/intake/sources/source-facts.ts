// The facts for admitting a payload from a dead letter again: the current mapping of its source.

import type { RequestFacts } from "../../../processors/admit/request-terms.ts";
import type { GenericBody, SourceFacts } from "../../../processors/admit/sources/generic.ts";
import type { OpenSources } from "./source-picture.ts";

const notActive = { code: "source_not_active", message: "its source is not active now" };

/**
 * Facts for payloads that come back: a source that was paused meanwhile accepts nothing.
 * `bearCredential`: they came through the door that asks for the key.
 */
export const sourceFactsOf =
  (sources: Pick<OpenSources, "byId">, { bearCredential }: { readonly bearCredential: boolean }) =>
  ({ sourceId }: GenericBody, client: RequestFacts): SourceFacts | typeof notActive => {
    const source = sources.byId(sourceId);
    if (source === undefined || source.state !== "active" || source.client_id !== client.clientId) return notActive;
    const { slug, kind, read, movesMoney } = source;
    return { ...client, source: { slug, kind, read, movesMoney: bearCredential || movesMoney } };
  };
