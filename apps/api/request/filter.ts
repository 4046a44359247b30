// The filter by a client, which lists and figures share.
import { clientsAsked } from "../../../modules/base/work.ts";
import type { Ask } from "../route.ts";

/** Throws RefusalError: missing for an unknown client, and for one that the caller may not see. */
export const checkFilter = async ({ read }: Pick<Ask, "read">, clientId: number | undefined): Promise<void> => {
  if (clientId !== undefined) await read(async (_tx, scope) => clientsAsked(scope, clientId));
};
