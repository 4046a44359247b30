// Opens the pixel of a client that the caller may see.
import type { PoolClient } from "pg";
import { missing } from "../../base/refusal.ts";
import { readPixelConfig, type SavedPixelConfig } from "./pixel-config.ts";

/** Throws RefusalError: missing if the client is none of these. */
export const openPixel = async (
  tx: PoolClient,
  clientId: number,
  clients: readonly number[],
): Promise<SavedPixelConfig> => {
  const config = await readPixelConfig(tx, clientId, clients);
  if (config === undefined) throw missing();
  return config;
};
