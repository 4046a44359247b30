// Addresses as people are shown them: absolute where the public address of the host is configured.

/** The public origin of each host; undefined: not configured. */
export interface PublicHosts {
  readonly tracking: string | undefined;
  readonly pixel: string | undefined;
  readonly ingest: string | undefined;
  readonly upload: string | undefined;
}

/** Returns the path alone where the origin of its host is not configured. */
export const shownAddress = (origin: string | undefined, path: string): string => `${origin ?? ""}${path}`;

/** The address of a tracking link. */
export const linkAddress = ({ tracking }: Pick<PublicHosts, "tracking">, code: string): string =>
  shownAddress(tracking, `/c/${code}`);
