// Makes a new key for a source's address; the old one stops working within a second.
import { type PublicHosts, shownAddress } from "../../base/public-hosts.ts";
import type { Work } from "../../base/work.ts";
import { openSource } from "./open-source.ts";
import { entityOfSource, replaceKey } from "./save-source.ts";

export interface NewKey {
  /** Shown once, because only its hash is stored. */
  readonly key: string;
  /** The address with the key; a path on the ingest host where `ingest` is undefined. */
  readonly url: string;
}

/** Throws RefusalError: missing, conflict `client_archived`. */
export const rotateKey = async (work: Work, sourceId: number, ingest: PublicHosts["ingest"]): Promise<NewKey> => {
  const source = await openSource(work, sourceId);
  const key = await replaceKey(work.tx, source);
  await work.audit({ action: "source.key_rotated", client_id: source.client_id, entity: entityOfSource(source) });
  return { key, url: shownAddress(ingest, `/postback/external/src_${sourceId}?key=${key}`) };
};
