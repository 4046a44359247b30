// A filter by a client, which lists and figures have in common.
import { missing } from "../../../modules/base/refusal.ts";
import type { Ask } from "../route.ts";

/** A client that the caller may not see finds nothing: 404, as for an unknown one. */
export const checkFilter = async ({ read }: Pick<Ask, "read">, clientId: number | undefined): Promise<void> => {
  if (clientId === undefined) return;
  await read(async (_tx, { clients }) => {
    if (!clients.includes(clientId)) throw missing();
  });
};
